"""The section `source.security`: how to connect to the brokers."""

from typing import Literal, Self

from pydantic import Field, model_validator

from tideline.declaration.sections import ENV, FromEnvironment, Section, Text

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_PEM = f"the path of a PEM file or {ENV}"


def uses(protocol: str, key: str) -> bool:
    """Whether `protocol` has a use for `key`: SASL_SSL for all, SASL_PLAINTEXT for sasl_ keys, SSL for ssl_ keys."""
    return key.partition("_")[0].upper() in protocol.split("_")


class Security(Section):
    """How to connect to the brokers. What the protocol does not use may not be set."""

    protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] | FromEnvironment = Field(
        default="PLAINTEXT",
        title="How the connection is encrypted and who may log in",
        description=f"one of {', '.join(PROTOCOLS)}, or {ENV}",
    )
    sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] | None = Field(
        default=None,
        title="How to log in; the three sasl_ keys go together",
        description="one of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512",
    )
    sasl_username: Text | FromEnvironment | None = Field(
        default=None, title="Who logs in", description=f"text or {ENV}"
    )
    sasl_password: FromEnvironment | None = Field(
        default=None, title="A password in the file itself is refused", description=ENV
    )
    ssl_ca_location: Text | FromEnvironment | None = Field(
        default=None, title="The authorities to trust", description=_PEM
    )
    ssl_certificate_location: Text | FromEnvironment | None = Field(
        default=None, title="The client's certificate; together with its key", description=_PEM
    )
    ssl_key_location: Text | FromEnvironment | None = Field(
        default=None, title="The key of the client's certificate, PKCS#8", description=_PEM
    )
    ssl_key_password: FromEnvironment | None = Field(
        default=None, title="Where the key is encrypted; a password in the file itself is refused", description=ENV
    )

    @model_validator(mode="after")
    def _fits_the_protocol(self) -> Self:
        """A password that no protocol uses, or a protocol without its password, shows up as a timeout otherwise."""
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
