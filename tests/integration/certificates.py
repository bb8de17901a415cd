"""Certificates for servers and clients of the tests, from an authority that is made for one run of the tests."""

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

from tideline.local import secret

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
