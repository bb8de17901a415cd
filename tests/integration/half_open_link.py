"""Waits for a server's answer while the link dies without a word. Run in a network namespace of its own, whose loopback only it can take down.

    unshare --user --map-root-user --net python half_open_link.py SOCKET DRIVER < url

Prints how the wait ended. The namespace has no way to a server outside but a path: the server's Unix socket, which a relay makes a TCP port of.
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
"""For the answer, on a link that lives: far longer than a dead one is waited for."""
_SET_FLAGS, _UP = 0x8914, 1  # of netdevice(7)


def set_loopback(flags: int) -> None:
    """Switch the namespace's loopback on or off: what is sent after that is lost, and no peer says so."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, _SET_FLAGS, struct.pack("16sh14x", b"lo", flags))


def relay(path: str) -> int:
    """The port that leads to the Unix socket at `path`."""
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
    """Hand on what comes, for as long as the link lives."""
    while data := source.recv(65536):
        target.sendall(data)


def wait(driver: str, url: str) -> str:
    """Ask for an answer that does not come before the link has been dead for long; the error that ended the wait."""
    session = psycopg2.connect(url) if driver == "ledger" else adbc.connect(url)
    with session.cursor() as cursor:
        cursor.execute("SELECT 1")
        cursor.fetchall()
        # While the answer is waited for: what is sent on a link that is down already fails at once, with an error that a half-open one never gives.
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
    os._exit(0)  # what is left of the session would say goodbye on the dead link


if __name__ == "__main__":
    main()
