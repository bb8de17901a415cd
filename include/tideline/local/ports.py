"""Ports on loopback: the usual one while it is free, else any. Reserves nothing: bind soon after asking."""

import contextlib
import socket

LOOPBACK = "127.0.0.1"


def choose(usual: int = 0) -> int:
    """`usual` while nothing listens there, else a free port; 0 asks for any."""
    with contextlib.suppress(OSError):
        return _bind(usual)
    return _bind(0)


def _bind(port: int) -> int:
    with socket.socket() as probe:
        # As servers do it: without this a port whose last connections linger in TIME_WAIT looks taken for a minute.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind((LOOPBACK, port))
        return int(probe.getsockname()[1])
