"""Waits for a server's answer while the link dies without a packet. Run it in its own network namespace, whose loopback only it can take down.

    unshare --user --map-root-user --net python half_open_link.py SOCKET DRIVER < url

Prints how the wait ended. From the namespace the server is reachable only by a path: its Unix socket, which a relay offers as a TCP port.
"""

import fcntl
import json
import os
import socket
import struct
import sys
import threading
import time

import adbc_driver_postgresql.dbapi as adbc
import psycopg2
from psycopg2.extensions import make_dsn

from tideline.ledger.session_settings import conninfo

WAIT_S = 300
"""Seconds until the answer on a link that works: far longer than the time limit for a dead link."""
_SET_FLAGS, _UP = 0x8914, 1  # of netdevice(7)


def set_loopback(flags: int) -> None:
    """Switch the namespace's loopback on or off: what is sent after that is lost, and no peer reports it."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, _SET_FLAGS, struct.pack("16sh14x", b"lo", flags))


def relay(path: str) -> int:
    """Return a port that leads to the Unix socket at `path`."""
    listening = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            near, _ = listening.accept()
            far = socket.socket(socket.AF_UNIX)
            far.connect(path)
            for source, target in ((near, far), (far, near)):
                threading.Thread(target=copy, args=(source, target), daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()
    return int(listening.getsockname()[1])


def copy(source: socket.socket, target: socket.socket) -> None:
    """Forward data for as long as the link works."""
    while data := source.recv(65536):
        target.sendall(data)


def wait(driver: str, url: str) -> str:
    """Wait for an answer that does not come before the link has been dead for long; return the error that ended the wait."""
    session = psycopg2.connect(url) if driver == "ledger" else adbc.connect(url)
    with session.cursor() as cursor:
        cursor.execute("SELECT 1")
        cursor.fetchall()
        # During the wait: sending on a link that is down fails at once, with an error that a half-open link never gives.
        threading.Timer(1, set_loopback, args=(0,)).start()
        try:
            cursor.execute(f"SELECT pg_sleep({WAIT_S})")
            cursor.fetchall()
        except (psycopg2.OperationalError, adbc.Error) as error:
            return str(error)
    return ""


def main() -> None:
    """Print the seconds of the wait, and the error that ended it."""
    path, driver = sys.argv[1:]
    set_loopback(_UP)
    url = conninfo(make_dsn(sys.stdin.read(), host="127.0.0.1", port=relay(path)))
    begun = time.monotonic()
    error = wait(driver, url)
    print(json.dumps({"seconds": time.monotonic() - begun, "error": error}), flush=True)
    os._exit(0)  # skip the clean-up of the session, which would write to the dead link


if __name__ == "__main__":
    main()
