"""A TCP proxy in front of Postgres that does something at one moment: when a client sends a certain statement."""

import select
import socket
import threading
from collections.abc import Callable
from typing import Self

from psycopg2.extensions import make_dsn, parse_dsn

Act = Callable[[socket.socket, bytes], bool]
"""Gets the server's socket and what the client sent; whether the connection lives on."""


class CuttingProxy:
    """Forwards connections until it is told what to wait for; acts once.

    Args:
        url: libpq URI of the real server; `url` of the proxy is the same with the proxy's address.
    """

    def __init__(self, url: str) -> None:
        self._target = (parse_dsn(url)["host"], int(parse_dsn(url)["port"]))
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = make_dsn(url, host="127.0.0.1", port=self._listener.getsockname()[1])
        self._armed: tuple[bytes, Act] | None = None
        self._threads = [threading.Thread(target=self._accept)]
        self.acted = threading.Event()

    def at(self, statement: str, act: Act) -> None:
        """Call `act` when the next statement passes that holds this text."""
        self._armed = statement.encode(), act

    def __enter__(self) -> Self:
        self._threads[0].start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in self._threads:
            thread.join(20)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            thread = threading.Thread(target=self._forward, args=(client,))
            self._threads.append(thread)
            thread.start()

    def _forward(self, client: socket.socket) -> None:
        with client, socket.create_connection(self._target) as server:
            while True:
                for source in select.select([client, server], [], [])[0]:
                    data = source.recv(1 << 20)
                    if not data or (source is client and not self._passes(server, data)):
                        return
                    (server if source is client else client).sendall(data)

    def _passes(self, server: socket.socket, data: bytes) -> bool:
        if self._armed is None or self._armed[0] not in data:
            return True
        act, self._armed = self._armed[1], None
        self.acted.set()
        return act(server, data)


def cut_before(server: socket.socket, data: bytes) -> bool:
    """The server never hears of the statement."""
    return False


def cut_after(server: socket.socket, data: bytes) -> bool:
    """The server carries the statement out, and its answer is lost."""
    server.sendall(data)
    assert server.recv(1 << 20)
    return False


def cut_meanwhile(server: socket.socket, data: bytes) -> bool:
    """The connection is gone while the server is still busy with the statement."""
    server.sendall(data)
    return False
