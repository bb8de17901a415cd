"""The section `source.security`: how to connect to the brokers."""

from collections.abc import Mapping
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from tideline.declaration.sections import ENV, FromEnvironment, Section, Text
from tideline.settings import WEB_ADDRESS

_BY_PASSWORD = frozenset({"sasl_username", "sasl_password"})
_BY_TOKEN = frozenset({"sasl_oauth_token_url", "sasl_oauth_client_id", "sasl_oauth_client_secret"})
_BY_AWS = frozenset({"sasl_aws_region"})
_MORE = {
    "OAUTHBEARER": frozenset({"sasl_oauth_scope", "sasl_oauth_ca_location", "sasl_oauth_extensions"}),
    "AWS_MSK_IAM": frozenset({"sasl_aws_role_arn"}),
}
"""By mechanism: the keys that it may have besides."""
_REQUIRED = {"OAUTHBEARER": _BY_TOKEN, "AWS_MSK_IAM": _BY_AWS}
"""By mechanism: the keys that it needs. The others need a user name and a password."""
_OF_MECHANISMS = _BY_PASSWORD.union(*_REQUIRED.values(), *_MORE.values())
PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_PEM = f"the path of a PEM file or {ENV}"


def uses(protocol: str, key: str) -> bool:
    """Return whether `protocol` uses `key`: SASL_SSL uses all keys, SASL_PLAINTEXT sasl_ keys, and SSL ssl_ keys."""
    return key.partition("_")[0].upper() in protocol.split("_")


_ExtensionName = Annotated[str, Field(pattern=r"^[A-Za-z]+$")]
_ExtensionValue = Annotated[str, Field(pattern=r"^[^,=\s\x00-\x1f]+$")]


def _address(given: str) -> str:
    if not WEB_ADDRESS.fullmatch(given):  # not quoted: it may hold a password
        raise ValueError("expected http(s)://host[:port][/path] without user and password, found something else")
    return given


AwsRegion = Annotated[str, Field(pattern=r"^[a-z]{2}(-[a-z0-9]+)+$")]
RoleArn = Annotated[str, Field(pattern=r"^arn:[a-z-]+:iam::[0-9]+:role/[A-Za-z0-9+=,.@_/-]+$")]


class Security(Section):
    """How to connect to the brokers. Keys that the protocol does not use must not be set."""

    protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] | FromEnvironment = Field(
        default="PLAINTEXT",
        title="Encryption and authentication of the connection",
        description=f"one of {', '.join(PROTOCOLS)}, or {ENV}",
    )
    sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "AWS_MSK_IAM"] | None = Field(
        default=None,
        title="The SASL mechanism: by user name and password, OAUTHBEARER by tokens of an OIDC issuer, or AWS_MSK_IAM by a role in AWS",
        description="one of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER, AWS_MSK_IAM",
    )
    sasl_username: Text | FromEnvironment | None = Field(
        default=None, title="The user name", description=f"text or {ENV}"
    )
    sasl_password: FromEnvironment | None = Field(
        default=None, title="The password of the user; a password in this file is refused", description=ENV
    )
    sasl_oauth_token_url: Annotated[Text, AfterValidator(_address)] | FromEnvironment | None = Field(
        default=None,
        title="For OAUTHBEARER: where the issuer gives tokens for client credentials",
        description=f"http(s)://host[:port][/path] or {ENV}",
    )
    sasl_oauth_client_id: Text | FromEnvironment | None = Field(
        default=None, title="For OAUTHBEARER: the client's id", description=f"text or {ENV}"
    )
    sasl_oauth_client_secret: FromEnvironment | None = Field(
        default=None, title="For OAUTHBEARER: the client's secret; a secret in this file is refused", description=ENV
    )
    sasl_oauth_scope: Text | FromEnvironment | None = Field(
        default=None, title="For OAUTHBEARER: the scope to ask for", description=f"text or {ENV}"
    )
    sasl_oauth_ca_location: Text | FromEnvironment | None = Field(
        default=None,
        title="For OAUTHBEARER: the certificate authorities to trust at the issuer; without it those of the machine",
        description=_PEM,
    )
    sasl_oauth_extensions: Mapping[_ExtensionName, _ExtensionValue] | None = Field(
        default=None,
        title="For OAUTHBEARER: extensions that some brokers ask for, such as logicalCluster",
        description="a mapping of names in letters to values without commas",
    )
    sasl_aws_region: AwsRegion | FromEnvironment | None = Field(
        default=None,
        title="For AWS_MSK_IAM: the region of the cluster",
        description=f"a region such as eu-central-1, or {ENV}",
    )
    sasl_aws_role_arn: RoleArn | FromEnvironment | None = Field(
        default=None,
        title="For AWS_MSK_IAM: the role to assume; without it, the role or the user that the process has",
        description=f"arn:aws:iam::ACCOUNT:role/NAME or {ENV}",
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
        self._check_login(declared, protocol)
        pair = {"ssl_certificate_location", "ssl_key_location"}
        if len(declared & pair) == 1:
            raise ValueError(f"expected {' and '.join(sorted(pair))} together, missing {(pair - declared).pop()}")
        return self

    def _check_login(self, declared: set[str], protocol: str | None) -> None:
        """Refuse a login that is incomplete, or keys of another mechanism."""
        mechanism = self.sasl_mechanism or ""
        required = _REQUIRED.get(mechanism, _BY_PASSWORD)
        login = {"sasl_mechanism", *required}
        if foreign := declared & _OF_MECHANISMS - required - _MORE.get(mechanism, frozenset()):
            found = ", ".join(sorted(foreign))
            uses = f"what the mechanism {mechanism} uses" if mechanism else "sasl_mechanism as well"
            raise ValueError(f"expected {'only ' if mechanism else ''}{uses}, found {found}")
        if (declared & login or "SASL" in (protocol or "")) and not login <= declared:
            missing = ", ".join(sorted(login - declared))
            raise ValueError(f"expected {', '.join(sorted(login))} together, missing {missing}")
