"""The section `source`: which records are read, and how their bytes become columns."""

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Literal, Self

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BeforeValidator,
    ConfigDict,
    Field,
    PrivateAttr,
    ValidationInfo,
    model_validator,
)

from tideline import settings
from tideline.declaration.sections import ENV, FromEnvironment, Section, Text
from tideline.declaration.security import PROTOCOLS, Security, uses
from tideline.domain.columns import parse_type
from tideline.errors import FatalError

_SERVER = r"\s*(?:[A-Z_]+://)?(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\]):[0-9]{1,5}\s*"
_SERVERS = re.compile(rf"{_SERVER}(?:,{_SERVER})*")
_PATTERN = "a Python regular expression from ^ to $, such as ^ads_.*$"


def _instant(value: object) -> object:
    """Parse an ISO timestamp. It is text here because a timestamp that YAML parses loses its zone."""
    try:
        return datetime.fromisoformat(value) if isinstance(value, str) else value
    except ValueError:
        return value


def _different(names: tuple[str, ...]) -> tuple[str, ...]:
    if len(set(names)) < len(names) or not {".", ".."}.isdisjoint(names):
        raise ValueError(f"expected different Kafka topic names, found {', '.join(names)}")
    return names


def _regular(pattern: str) -> str:
    try:
        re.compile(pattern)
    except re.error as error:
        raise ValueError(f"expected {_PATTERN}, found {pattern!r}: {error}") from error
    if pattern.endswith(r"\$"):
        raise ValueError(f"expected {_PATTERN}, found {pattern!r}: \\$ is a dollar sign and not the end")
    return pattern


def _column_type(name: str) -> str:
    parse_type(name)
    return name


Topic = Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,249}$")]
Topics = Annotated[tuple[Topic, ...], Field(strict=False, min_length=1), AfterValidator(_different)]
# Anchors are required, so that no pattern fits more topics than its author expects.
TopicPattern = Annotated[str, Field(pattern=r"^\^.*\$$"), AfterValidator(_regular)]
ColumnType = Annotated[str, AfterValidator(_column_type)]


class Value(Section):
    """How the bytes of a record's value are decoded into columns."""

    format: Literal["json", "text", "bytes"] = Field(
        title="The format of a value's bytes", description="one of json, text, bytes"
    )
    columns: Mapping[Text, ColumnType] = Field(
        default={},
        title="The fields of a JSON object that become columns; other fields are ignored",
        description="column names with Spark SQL types",
    )

    @model_validator(mode="after")
    def _columns_fit(self) -> Self:
        if "kafka" in self.columns:
            raise ValueError("expected another column name than kafka: topic, offset, key and headers stand under it")
        if (self.format == "json") != bool(self.columns):
            raise ValueError(f"expected columns with format json and only there, found format {self.format}")
        return self


class Source(Section):
    """Which records are read, and how they are decoded."""

    # With this an editor reports at once what `_one_of_both` refuses when the file is read.
    model_config = ConfigDict(json_schema_extra={"oneOf": [{"required": ["topics"]}, {"required": ["topic_pattern"]}]})

    bootstrap_servers: Text | FromEnvironment = Field(
        title="The addresses of the brokers", description=f"host:port[,host:port...] or {ENV}"
    )
    topics: Topics | None = Field(
        default=None,
        title="The topics to read; declare either this key or topic_pattern",
        description="Kafka topic names, a list of at least one",
    )
    topic_pattern: TopicPattern | None = Field(
        default=None, title="Read every topic whose name fits, also topics that are created later", description=_PATTERN
    )
    start: Annotated[Literal["earliest", "latest"] | AwareDatetime, BeforeValidator(_instant)] = Field(
        default="earliest",
        title="The start of a stream that the ledger does not know yet",
        description="earliest, latest or an ISO timestamp with a zone",
    )
    delivery: Literal["exactly_once", "latest_wins"] = Field(
        default="exactly_once",
        title="Whether every record is loaded once, or each run jumps to the newest records and stores which offsets it skipped",
        description="exactly_once or latest_wins",
    )
    gaps: Literal["refused", "allowed"] = Field(
        default="refused",
        title="Whether a topic that is not compacted may have gaps, such as transaction markers",
        description="refused or allowed",
    )
    security: Security = Security()
    value: Value
    _pipeline: str = PrivateAttr()

    @model_validator(mode="after")
    def _keep_the_name(self, info: ValidationInfo) -> Self:
        self._pipeline = str(info.context)
        return self

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if (self.topics is None) == (self.topic_pattern is None):
            found = "neither" if self.topics is None else "both"
            raise ValueError(f"expected either topics or topic_pattern, found {found}")
        return self

    def names(self, topic: str) -> bool:
        """Return whether `topic` is one of the topics to read. A pattern never fits Kafka's internal topics, which begin with `__`."""
        if self.topic_pattern is None:
            return topic in (self.topics or ())
        return not topic.startswith("__") and re.fullmatch(self.topic_pattern, topic) is not None

    def connection(self) -> dict[str, str]:
        """Return `bootstrap_servers` and the keys of `security` that its protocol uses, with values from the environment; unset keys are left out.

        Raises:
            FatalError: A variable is not set, or an unknown protocol or an invalid address was found.
        """
        protocol = self._looked_up("security.protocol", self.security.protocol)
        if protocol not in PROTOCOLS:
            raise FatalError(
                f"pipeline {self._pipeline}, key source.security.protocol: "
                f"expected one of {', '.join(PROTOCOLS)}, found something else",
                next_step="correct the environment variable that the key names; what it holds is not shown",
                entry="environment",
            )
        servers = self._looked_up("bootstrap_servers", self.bootstrap_servers)
        if not _SERVERS.fullmatch(servers):  # errors quote them, so a password in their place must not pass
            raise FatalError(
                f"pipeline {self._pipeline}, key source.bootstrap_servers: expected host:port[,host:port...], found something else",
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

    def _looked_up(self, key: str, value: str | FromEnvironment) -> str:
        if isinstance(value, str):
            return value
        return settings.required(value.env, f"source.{key} of pipeline {self._pipeline}")
