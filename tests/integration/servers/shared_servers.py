"""Servers that another test process has started: tests that find them start none. Imports nothing of the product."""

import json
import os
from pathlib import Path
from typing import Any

VARIABLE = "TIDELINE_TESTS_SERVERS"
"""Holds what `described` gives."""


def described(**servers: Any) -> str:
    """Describe running servers: each by the arguments with which its class is constructed, without starting it."""
    taken = ("directory", "port", "sasl_port")
    return json.dumps(
        {
            name: {argument: getattr(server, argument) for argument in taken if hasattr(server, argument)}
            for name, server in servers.items()
        },
        default=str,
    )


def found(name: str) -> dict[str, Any] | None:
    """Return the arguments of a running server; None where this process starts its own."""
    servers = json.loads(os.environ.get(VARIABLE, "{}"))
    return servers[name] | {"directory": Path(servers[name]["directory"])} if name in servers else None
