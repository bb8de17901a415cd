"""A TCP proxy in front of Postgres, Kafka or an object store that acts once: when a client sends a certain statement, or at once."""

import select
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Self

from psycopg2.extensions import make_dsn, parse_dsn

Act = Callable[[socket.socket, bytes], bool]
"""Gets the server's socket and the client's data; returns whether the connection stays open."""


class CuttingProxy:
    """Forwards connections until the chosen statement passes, then acts once.

    Args:
        url: libpq URI of the real server; the proxy's own `url` is the same with the proxy's address.
        port: The proxy's own port; 0 means any free one.
    """

    def __init__(self, url: str, *, port: int = 0) -> None:
        self._target = (parse_dsn(url)["host"], int(parse_dsn(url)["port"]))
        self._listener = socket.create_server(("127.0.0.1", port), backlog=128)
        self.port: int = self._listener.getsockname()[1]
        self.url = make_dsn(url, host="127.0.0.1", port=self.port)
        self._armed: dict[int | None, tuple[bytes, Act]] = {}
        self._clients: dict[int, socket.socket] = {}
        self._threads = [threading.Thread(target=self._accept)]
        self.acted = threading.Event()

    def at(self, statement: str, act: Act, *, port: int | None = None) -> None:
        """Call `act` when the next statement with this text passes; from the client at `port`, or from any."""
        self.acted.clear()
        self._armed[port] = statement.encode(), act

    def cut(self, port: int) -> None:
        """Close the connection of the client at `port` now; both sides see it closed."""
        with suppress(KeyError, OSError):
            self._clients[port].shutdown(socket.SHUT_RDWR)

    def ports(self) -> set[int]:
        """Return the ports of the clients whose connections are open."""
        return set(self._clients)

    def refuse(self) -> None:
        """Take no connections any more."""
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def accept_again(self) -> None:
        """Take connections again after `refuse`, at the same port."""
        self._listener = socket.create_server(("127.0.0.1", self.port), backlog=128)
        thread = threading.Thread(target=self._accept)
        self._threads.append(thread)
        thread.start()

    def __enter__(self) -> Self:
        self._threads[0].start()
        return self

    def __exit__(self, *_: object) -> None:
        self.refuse()
        for thread in self._threads:
            thread.join(180)

    def _accept(self) -> None:
        while True:
            try:
                client, (_, port) = self._listener.accept()
            except OSError:
                return
            self._clients[port] = client
            thread = threading.Thread(target=self._forward, args=(client, port))
            self._threads = [other for other in self._threads if other.is_alive()] + [thread]
            thread.start()

    def _forward(self, client: socket.socket, port: int) -> None:
        # Either side may close at any moment: the proxy exists to cut connections in the middle of something.
        with suppress(OSError), client, socket.create_connection(self._target) as server:
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            server.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._exchange(client, server, port)
        if self._clients.get(port) is client:  # the system may have given the port to the next client by now
            del self._clients[port]

    def _exchange(self, client: socket.socket, server: socket.socket, port: int) -> None:
        while True:
            for source in select.select([client, server], [], [])[0]:
                data = source.recv(1 << 20)
                if not data or (source is client and not self._passes(server, data, port)):
                    return
                (server if source is client else client).sendall(data)

    def _passes(self, server: socket.socket, data: bytes, port: int) -> bool:
        for key in (port, None):
            armed = self._armed.get(key)
            # The client names the level of a transaction when it begins one.
            if armed is not None and armed[0] in data.replace(b"READ COMMITTED", b""):
                del self._armed[key]
                self.acted.set()
                return armed[1](server, data)
        return True


def cut_before(server: socket.socket, data: bytes) -> bool:
    """Close before the statement reaches the server."""
    return False


def cut_after(server: socket.socket, data: bytes) -> bool:
    """Close after the server has executed the statement, so that its answer is lost."""
    server.sendall(data)
    assert server.recv(1 << 20)
    return False


def cut_meanwhile(server: socket.socket, data: bytes) -> bool:
    """Close while the server is still executing the statement."""
    server.sendall(data)
    return False


def forward(to: Connection, server: str) -> None:
    """Be a proxy in a process of its own: a library whose calls stop all threads of its process would stop a proxy in it.

    Sends its port, receives text and act, sends True when it is ready, and sends whether it has acted. Then it goes on until it is killed.
    """
    with CuttingProxy(server) as proxy:
        to.send(proxy.port)
        proxy.at(*to.recv())
        to.send(True)
        to.send(proxy.acted.wait(120))
        to.recv()
