"""Certificates from an authority that is made for one run of the tests; and TLS in front of a Postgres, as a pooler or a cloud gives it."""

import asyncio
import ssl
import struct
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Self
from uuid import uuid4

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePrivateKey, generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID
from psycopg2.extensions import make_dsn, parse_dsn

from tideline.deployment import secret

ADDRESS = "127.0.0.1"
"""The only address that the server's certificate names. `localhost` is the same server under a wrong name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """A certificate and its key, as PEM files."""

    certificate: Path
    key: Path
    both: Path
    """The key and the certificate in one file, as Kafka takes them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificates:
    """An authority, and what it has signed."""

    authority: Path
    server: Pair
    client: Pair

    @classmethod
    def made(cls, folder: Path) -> Self:
        """Make an authority, a certificate of a server at ADDRESS, and one of a client."""
        folder.mkdir(parents=True, exist_ok=True)
        key = generate_private_key(SECP256R1())
        name = f"authority {uuid4().hex}"
        own = _signed(name, key, key, name, is_authority=True)
        (folder / "ca.pem").write_bytes(own.public_bytes(Encoding.PEM))
        return cls(
            authority=folder / "ca.pem",
            server=_pair(folder / "server", key, name, at=ADDRESS),
            client=_pair(folder / "client", key, name),
        )


def _pair(stem: Path, authority: EllipticCurvePrivateKey, issuer: str, *, at: str | None = None) -> Pair:
    key = generate_private_key(SECP256R1())
    certificate = _signed(stem.name, key, authority, issuer, at=at).public_bytes(Encoding.PEM)
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    files = Pair(certificate=stem.with_suffix(".crt"), key=stem.with_suffix(".key"), both=stem.with_suffix(".both.pem"))
    files.certificate.write_bytes(certificate)
    secret.write(files.key, private.decode())
    secret.write(files.both, (private + certificate).decode())
    return files


def _signed(
    name: str,
    key: EllipticCurvePrivateKey,
    authority: EllipticCurvePrivateKey,
    issuer: str,
    *,
    at: str | None = None,
    is_authority: bool = False,
) -> x509.Certificate:
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
        .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, issuer)]))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=30))
        .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
    )
    if at:
        made = made.add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address(at))]), critical=False)
    return made.sign(authority, hashes.SHA256())


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
