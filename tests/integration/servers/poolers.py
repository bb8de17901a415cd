"""A connection pooler as PgBouncer is one: it drops the `options` of a client, answers for the server, and may pool transactions.

Each client logs in to a server's session of its own. With transactions pooled, that session goes to the pool then, and each transaction of any
client gets the session that has waited the longest. It forwards statements, no COPY from a client.
"""

import queue
import socket
import struct
import threading
from contextlib import suppress
from typing import Self

from psycopg2.extensions import make_dsn, parse_dsn

_NO_TLS = (80877103, 80877104)
"""Codes of the requests for TLS and for GSSAPI encryption."""
_KEY, _READY, _TERMINATE = b"K", b"Z", b"X"


class Pooler:
    """Listens on a port of its own; `url` leads to it.

    Args:
        url: libpq URI of the real server.
        transactions: Whether transactions are pooled. Else each client keeps its session of the server.
        refuses_options: Whether a client with `options` is refused, as by a PgBouncer that was not told to ignore them.
    """

    def __init__(self, url: str, *, transactions: bool = False, refuses_options: bool = False) -> None:
        self._target = (parse_dsn(url)["host"], int(parse_dsn(url)["port"]))
        self._transactions, self._refuses = transactions, refuses_options
        self._pool: queue.Queue[socket.socket] = queue.Queue()
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.url = make_dsn(url, host="127.0.0.1", port=self._listener.getsockname()[1])
        self._sockets: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept)]

    def __enter__(self) -> Self:
        self._threads[0].start()
        return self

    def __exit__(self, *_: object) -> None:
        for one in (self._listener, *self._sockets):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()
        for thread in self._threads:
            thread.join(180)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            thread = threading.Thread(target=self._serve, args=(client,))
            self._sockets.append(client)
            self._threads.append(thread)
            thread.start()

    def _serve(self, client: socket.socket) -> None:
        with suppress(OSError, EOFError), client:
            options, startup = self._startup(client)
            if options and self._refuses:
                text = b"SFATAL\0C08P01\0Munsupported startup parameter: options\0\0"
                client.sendall(b"E" + struct.pack("!i", len(text) + 4) + text)
                return
            server = socket.create_connection(self._target)
            self._sockets.append(server)
            server.sendall(startup)
            self._log_in(client, server)
            if self._transactions:
                self._pool.put(server)
                self._pool_transactions(client)
                return
            other_way = threading.Thread(target=_copy, args=(client, server))
            other_way.start()
            _copy(server, client)
            other_way.join()

    def _startup(self, client: socket.socket) -> tuple[bytes | None, bytes]:
        """Return the options of the client, and its startup packet without them."""
        while True:
            (length,) = struct.unpack("!i", _exactly(client, 4))
            body = _exactly(client, length - 4)
            if struct.unpack("!i", body[:4])[0] not in _NO_TLS:
                break
            client.sendall(b"N")
        words = body[4:].split(b"\0")
        given = dict(zip(words[0::2], words[1::2], strict=False))
        given.pop(b"", None)
        options = given.pop(b"options", None)
        kept = b"".join(name + b"\0" + value + b"\0" for name, value in given.items())
        packet = body[:4] + kept + b"\0"
        return options, struct.pack("!i", len(packet) + 4) + packet

    def _log_in(self, client: socket.socket, server: socket.socket) -> None:
        while True:
            kind, message = _message(server)
            if kind == _KEY:  # a key of its own, by which the client may cancel
                message = message[:5] + struct.pack("!i", 1) + message[9:]
            client.sendall(message)
            if kind == _READY:
                return
            if kind == b"R" and struct.unpack("!i", message[5:9])[0] in {10, 11}:  # SCRAM waits for the client
                server.sendall(_message(client)[1])

    def _pool_transactions(self, client: socket.socket) -> None:
        server: socket.socket | None = None
        while True:
            kind, message = _message(client)
            if kind == _TERMINATE:
                return
            server = server or self._pool.get(timeout=180)
            server.sendall(message)
            if kind in (b"Q", b"S"):
                while True:
                    answer, found = _message(server)
                    client.sendall(found)
                    if answer == _READY:
                        break
                if found[5:6] == b"I":
                    self._pool.put(server)
                    server = None


def _message(source: socket.socket) -> tuple[bytes, bytes]:
    head = _exactly(source, 5)
    return head[:1], head + _exactly(source, struct.unpack("!i", head[1:])[0] - 4)


def _exactly(source: socket.socket, count: int) -> bytes:
    found = b""
    while len(found) < count:
        piece = source.recv(count - len(found))
        if not piece:
            raise EOFError
        found += piece
    return found


def _copy(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(1 << 16):
            target.sendall(data)
    for one in (source, target):
        with suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)
