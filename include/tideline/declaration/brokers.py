"""The brokers that a section of a declaration names: their addresses, and how to connect to them."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from tideline import environment
from tideline.declaration.sections import FromEnvironment
from tideline.declaration.security import PROTOCOLS, Security, uses
from tideline.errors import FatalError

_SERVER = r"\s*(?:[A-Z_]+://)?(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\]):[0-9]{1,5}\s*"
_SERVERS = re.compile(rf"{_SERVER}(?:,{_SERVER})*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Brokers:
    """The brokers of one section. Values of variables are looked up only when they are used."""

    pipeline: str
    section: Literal["source", "sink"]
    """Where the keys stand, as messages name them."""
    bootstrap_servers: str | FromEnvironment
    security: Security

    def namespace(self) -> str:
        """Return the namespace of the cluster's topics in OpenLineage's terms: the first of its addresses.

        Raises:
            FatalError: As `connection`.
        """
        return f"kafka://{self.connection()['bootstrap_servers'].split(',')[0]}"

    def connection(self) -> dict[str, str]:
        """Return `bootstrap_servers` and the keys of `security` that its protocol uses, with the values of its variables; unset keys are left out.

        Raises:
            FatalError: A variable is not set, or an unknown protocol or an invalid address was found.
        """
        protocol = self._looked_up("security.protocol", self.security.protocol)
        if protocol not in PROTOCOLS:
            raise FatalError(
                f"pipeline {self.pipeline}, key {self.section}.security.protocol: "
                f"expected one of {', '.join(PROTOCOLS)}, found something else",
                next_step="correct the environment variable that the key names; what it holds is not shown",
                entry="environment",
            )
        servers = self._looked_up("bootstrap_servers", self.bootstrap_servers)
        if not _SERVERS.fullmatch(servers):  # errors quote them, so a password in their place must not pass
            raise FatalError(
                f"pipeline {self.pipeline}, key {self.section}.bootstrap_servers: "
                "expected host:port[,host:port...], found something else",
                next_step="correct the key, or the environment variable that it names; what it holds is not shown",
                entry="environment",
            )
        values = {
            "bootstrap_servers": servers,
            "protocol": protocol,
        }
        for key in Security.model_fields:
            value = getattr(self.security, key)
            if value is not None and uses(protocol, key):
                values[key] = self._looked_up(f"security.{key}", value)
        return values

    def secrets(self) -> list[str]:
        """Return the values of `security` that no message may show: those from variables, and those that are the text of a file instead of its path.

        Raises:
            FatalError: A variable is not set.
        """
        named = {key: getattr(self.security, key) for key in Security.model_fields if key != "protocol"}
        values = self.connection()
        return [
            values[key]
            for key, value in named.items()
            if key in values and (isinstance(value, FromEnvironment) or "\n" in values[key])
        ]

    def _looked_up(self, key: str, value: str | Mapping[str, str] | FromEnvironment) -> str:
        if isinstance(value, str):
            return value
        if isinstance(value, Mapping):
            return ",".join(f"{name}={one}" for name, one in sorted(value.items()))
        why = f"{self.section}.{key} of pipeline {self.pipeline}"
        return environment.secret(value.env, why, masked=key.endswith(("_password", "_secret")))
