"""The sections `source.registry` and `sink.registry`: the schema registry whose ids records carry, and how to log in to it."""

from dataclasses import dataclass
from typing import Annotated, Any, Self

from pydantic import AfterValidator, Field, model_validator

from tideline import environment
from tideline.declaration.sections import ENV, AboveZero, FromEnvironment, Name, Section, Text
from tideline.errors import FatalError
from tideline.settings import WEB_ADDRESS

_URL_EXPECTED = "http(s)://host[:port][/path] without user and password"


def _urls(given: tuple[str, ...]) -> tuple[str, ...]:
    if not all(map(WEB_ADDRESS.fullmatch, given)):  # not quoted: one may hold a password
        raise ValueError(f"expected addresses such as {_URL_EXPECTED}, found something else")
    return given


Urls = Annotated[tuple[Text, ...], Field(strict=False, min_length=1), AfterValidator(_urls)]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class RegistryAccess:
    """A registry with the values of its variables. It travels to the executors, and is never printed: it holds secrets."""

    pipeline: str
    name: str
    urls: tuple[str, ...]
    timeout_seconds: float
    section: str = "source"
    """Where it is declared: source or sink."""
    username: str | None = None
    password: str | None = None
    token: str | None = None
    ssl_ca_location: str | None = None
    ssl_certificate_location: str | None = None
    ssl_key_location: str | None = None


class Registry(Section):
    """A schema registry with Confluent's API, and how to log in to it."""

    urls: Urls | FromEnvironment = Field(
        title="The addresses of the registry; the next is asked if one does not answer",
        description=f"a list of {_URL_EXPECTED}, or {ENV}",
    )
    name: Name = Field(
        default="default",
        title="What the ledger calls the registry: another one, whose ids mean other schemas, has another name",
        description="lower case letters, digits and _",
    )
    username: Text | FromEnvironment | None = Field(
        default=None, title="The user name, for a login by user and password", description=f"text or {ENV}"
    )
    password: FromEnvironment | None = Field(
        default=None, title="The password of the user; a password in this file is refused", description=ENV
    )
    token: FromEnvironment | None = Field(
        default=None, title="The bearer token, for a login by token; a token in this file is refused", description=ENV
    )
    ssl_ca_location: Text | FromEnvironment | None = Field(
        default=None,
        title="The certificate authorities to trust; without it those of the machine",
        description=f"the path of a PEM file or {ENV}",
    )
    ssl_certificate_location: Text | FromEnvironment | None = Field(
        default=None,
        title="The client's certificate; it must be set together with its key",
        description=f"the path of a PEM file or {ENV}",
    )
    ssl_key_location: Text | FromEnvironment | None = Field(
        default=None, title="The key of the client's certificate", description=f"the path of a PEM file or {ENV}"
    )
    timeout_seconds: AboveZero = Field(
        default=10, title="The most seconds that one address takes to answer", description="a whole number above 0"
    )

    @model_validator(mode="after")
    def _is_complete(self) -> Self:
        if (self.username is None) != (self.password is None):
            raise ValueError("expected username and password together, found only one of them")
        if self.token is not None and self.username is not None:
            raise ValueError("expected either a token or username and password, found both")
        if (self.ssl_certificate_location is None) != (self.ssl_key_location is None):
            raise ValueError("expected ssl_certificate_location and ssl_key_location together, found only one of them")
        return self

    def access(self, pipeline: str, section: str = "source") -> RegistryAccess:
        """Return the registry with the values of its variables.

        Args:
            pipeline: The name of the pipeline that declares it, for messages.
            section: The section that declares it, for messages.

        Raises:
            FatalError: A variable is not set, or holds no addresses.
        """
        why = f"of pipeline {pipeline}"
        values: dict[str, Any] = {
            key: environment.secret(value.env, f"{section}.registry.{key} {why}", masked=key in ("password", "token"))
            if isinstance(value, FromEnvironment)
            else value
            for key in type(self).model_fields
            if (value := getattr(self, key)) is not None
        }
        urls = values.pop("urls")
        addresses = tuple(part.strip() for part in urls.split(",")) if isinstance(urls, str) else urls
        if not all(map(WEB_ADDRESS.fullmatch, addresses)):
            raise FatalError(
                f"pipeline {pipeline}, key {section}.registry.urls: expected {_URL_EXPECTED}, found something else",
                next_step="correct the environment variable that the key names; what it holds is not shown",
                entry="environment",
            )
        return RegistryAccess(pipeline=pipeline, section=section, urls=addresses, **values)
