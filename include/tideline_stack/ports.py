"""Chooses ports on loopback: the usual port while it is free, else any free one. Reserves nothing, so the caller must bind soon."""

import contextlib
import random
import socket

LOOPBACK = "127.0.0.1"
_BELOW_OUTGOING = range(20_000, 32_768)
"""The kernel gives no outgoing connection a port of these. Of the others it may take one before the caller has bound it."""
_TRIES = 100
_given: set[int] = set()
"""The ports that this process was given by chance. A server asks for several before it binds one: two were the same once in a thousand."""


def choose(usual: int = 0) -> int:
    """Return `usual` if nothing listens there, else any free port that this process was not given before; 0 always means any."""
    drawn = [port for port in random.sample(_BELOW_OUTGOING, _TRIES) if port not in _given]
    for port in (*([usual] if usual else []), *drawn):
        with contextlib.suppress(OSError):
            found = _bind(port)
            _given.add(found)
            return found
    return _bind(0)


def _bind(port: int) -> int:
    with socket.socket() as probe:
        # Servers set it too. Without it a port looks taken for a minute while its last connections are in TIME_WAIT.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind((LOOPBACK, port))
        return int(probe.getsockname()[1])
