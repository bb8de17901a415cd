"""Gives a Postgres TLS, as a connection pooler or a cloud's proxy does: the binaries of the tests are built without OpenSSL.

It speaks the start of Postgres's protocol: a client asks for TLS, and only then connects. A client that does not ask is refused.
"""

import asyncio
import ssl
import struct
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Self

from psycopg2.extensions import make_dsn, parse_dsn

from certificates import Certificates

_ASK_TLS = struct.pack("!ii", 8, 80877103)  # SSLRequest of the protocol
_REFUSAL = b"SFATAL\0VFATAL\0C28000\0Mno pg_hba.conf entry for this host, no encryption\0\0"


class TlsTerminator:
    """A server in front of another one.

    Args:
        url: libpq URI of the real server.
        certificates: What it shows to clients.
    """

    def __init__(self, url: str, certificates: Certificates) -> None:
        self._target = parse_dsn(url)
        self._url = url
        self._authority = str(certificates.authority)
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(certificates.server.certificate, certificates.server.key)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self.port = 0
        self.encrypted: list[str | None] = []
        """The TLS version of each connection that was passed on."""
        self.refused = 0

    def url(self, **options: str) -> str:
        """Return the URI of this server, with options of libpq such as `sslmode`."""
        return make_dsn(self._url, **({"host": "127.0.0.1", "port": str(self.port)} | options))

    def verified(self, **options: str) -> str:
        """Return the URI with which a client accepts only this server's own certificate."""
        return self.url(**({"sslmode": "verify-full", "sslrootcert": self._authority} | options))

    def __enter__(self) -> Self:
        self._thread.start()
        self._server = asyncio.run_coroutine_threadsafe(
            asyncio.start_server(self._serve, "127.0.0.1", 0), self._loop
        ).result()
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result(60)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(60)
        self._loop.close()

    async def _stop(self) -> None:
        self._server.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with _closing(writer):
            if await reader.readexactly(8) != _ASK_TLS:
                self.refused += 1
                writer.write(b"E" + struct.pack("!i", len(_REFUSAL) + 4) + _REFUSAL)
                await writer.drain()
                return
            writer.write(b"S")
            await writer.start_tls(self._context)
            self.encrypted.append(writer.get_extra_info("ssl_object").version())
            behind, ahead = await asyncio.open_connection(self._target["host"], int(self._target["port"]))
            async with _closing(ahead):
                await asyncio.gather(_pass_on(reader, ahead), _pass_on(behind, writer))


@asynccontextmanager
async def _closing(writer: asyncio.StreamWriter) -> AsyncIterator[None]:
    """Close a connection at the end. One that the other side has cut is closed already."""
    with suppress(OSError, asyncio.IncompleteReadError, ssl.SSLError):
        try:
            yield
        finally:
            writer.close()


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65_536):
        writer.write(data)
        await writer.drain()
    writer.close()
