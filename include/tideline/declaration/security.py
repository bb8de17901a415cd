"""The section `source.security`: how to connect to the brokers."""

from typing import Literal, Self

from pydantic import Field, model_validator

from tideline.declaration.sections import ENV, FromEnvironment, Section, Text

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_PEM = f"the path of a PEM file or {ENV}"


def uses(protocol: str, key: str) -> bool:
    """Return whether `protocol` uses `key`: SASL_SSL uses all keys, SASL_PLAINTEXT sasl_ keys, and SSL ssl_ keys."""
    return key.partition("_")[0].upper() in protocol.split("_")


class Security(Section):
    """How to connect to the brokers. Keys that the protocol does not use must not be set."""

    protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] | FromEnvironment = Field(
        default="PLAINTEXT",
        title="Encryption and authentication of the connection",
        description=f"one of {', '.join(PROTOCOLS)}, or {ENV}",
    )
    sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] | None = Field(
        default=None,
        title="The SASL mechanism; the three sasl_ keys must be set together",
        description="one of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512",
    )
    sasl_username: Text | FromEnvironment | None = Field(
        default=None, title="The user name", description=f"text or {ENV}"
    )
    sasl_password: FromEnvironment | None = Field(
        default=None, title="The password of the user; a password in this file is refused", description=ENV
    )
    ssl_ca_location: Text | FromEnvironment | None = Field(
        default=None, title="The certificate authorities to trust", description=_PEM
    )
    ssl_certificate_location: Text | FromEnvironment | None = Field(
        default=None, title="The client's certificate; it must be set together with its key", description=_PEM
    )
    ssl_key_location: Text | FromEnvironment | None = Field(
        default=None, title="The key of the client's certificate, PKCS#8", description=_PEM
    )
    ssl_key_password: FromEnvironment | None = Field(
        default=None,
        title="The password of the key, if the key is encrypted; a password in this file is refused",
        description=ENV,
    )

    @model_validator(mode="after")
    def _fits_the_protocol(self) -> Self:
        """Refuse keys that the protocol does not use, and sasl_ keys or a certificate that are incomplete: the client would only report a timeout."""
        declared = {key for key in type(self).model_fields if getattr(self, key) is not None}
        protocol = self.protocol if isinstance(self.protocol, str) else None
        if protocol:
            unused = sorted(key for key in declared - {"protocol"} if not uses(protocol, key))
            if unused:
                raise ValueError(f"expected only what protocol {protocol} uses, found {', '.join(unused)}")
        sasl = {"sasl_mechanism", "sasl_username", "sasl_password"}
        if (declared & sasl or "SASL" in (protocol or "")) and not sasl <= declared:
            raise ValueError(
                f"expected {', '.join(sorted(sasl))} together, missing {', '.join(sorted(sasl - declared))}"
            )
        pair = {"ssl_certificate_location", "ssl_key_location"}
        if len(declared & pair) == 1:
            raise ValueError(f"expected {' and '.join(sorted(pair))} together, missing {(pair - declared).pop()}")
        return self
