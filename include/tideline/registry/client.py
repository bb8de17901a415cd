"""Ask a schema registry for the schema of an id, by the HTTP API that Confluent's, Apicurio, Karapace and Redpanda have in common.

Law: an id is unknown only if a registry says so in its own words. A proxy's page, a login that is refused or a server that is down
says nothing about an id, and must not make rejects of good records.
"""

import ssl
from collections.abc import Mapping
from typing import Any, Self
from urllib.parse import quote

import httpx

from tideline.declaration.registry import RegistryAccess
from tideline.domain.schemas import Reference, Schema
from tideline.errors import FatalError, RetryableError

_UNKNOWN = {40401, 40402, 40403}
"""What a registry says with 404 if it has no such subject, version or schema."""
_REFUSED = {httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN}
_REFUSED_SCHEMA = {httpx.codes.CONFLICT, httpx.codes.UNPROCESSABLE_ENTITY}
"""A registry answers so to a schema that is not compatible with those of its subject, or is none."""
_MOST_REFERENCES = 1_000
_Place = tuple[str, str, int]
"""What a schema calls another one, and its subject and version."""


class RegistryClient:
    """A session with a registry.

    Args:
        access: Its addresses, and how to log in.
    """

    def __init__(self, access: RegistryAccess) -> None:
        self._access = access
        headers = {"Accept": "application/vnd.schemaregistry.v1+json, application/json"}
        if access.token:
            headers["Authorization"] = f"Bearer {access.token}"
        login = (access.username, access.password) if access.username and access.password else None
        self._client = httpx.Client(
            auth=login, headers=headers, timeout=access.timeout_seconds, verify=_trusted(access), follow_redirects=False
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def schema(self, schema_id: int) -> Schema | None:
        """Return the schema of an id, with those that it refers to; None if the registry has none.

        Raises:
            RetryableError: No address answers, or the registry has lost a schema that this one refers to.
            FatalError: The registry refuses the login, or the address is none of a registry.
        """
        found = self._asked(f"/schemas/ids/{schema_id}")
        if found is None:
            return None
        versions = self._asked(f"/schemas/ids/{schema_id}/versions") or []  # some registries have no such route
        subjects = {str(one["subject"]) for one in versions if isinstance(one, dict) and "subject" in one}
        return Schema(
            kind=str(found.get("schemaType") or "AVRO"),
            text=self._text(found, f"schema id {schema_id}"),
            references=self._references(found, f"schema id {schema_id}"),
            subjects=tuple(sorted(subjects)),
        )

    def newest(self, subject: str) -> tuple[int, Schema] | None:
        """Return id and schema of the newest version of a subject; None if the registry has no such subject.

        Raises:
            RetryableError: As `schema`.
            FatalError: As `schema`.
        """
        found = self._asked(f"/subjects/{quote(subject, safe='')}/versions/latest")
        if found is None:
            return None
        what = f"subject {subject}"
        text = self._text(found, what)
        return int(found.get("id", 0)), Schema(
            kind=str(found.get("schemaType") or "AVRO"),
            text=text,
            references=self._references(found, what),
            subjects=(subject,),
        )

    def id_of(self, subject: str, schema: Schema) -> int | None:
        """Return the id of a schema, if it is one of this subject.

        Raises:
            RetryableError: As `schema`.
            FatalError: As `schema`.
        """
        found = self._asked(f"/subjects/{quote(subject, safe='')}", _posted(schema))
        return None if found is None else self._id(found, f"a schema of subject {subject}")

    def register(self, subject: str, schema: Schema) -> int:
        """Register a schema as the newest of a subject, unless it is one of it, and return its id.

        Raises:
            RetryableError: As `schema`.
            FatalError: The registry refuses the schema, such as one that is not compatible with earlier ones; or as `schema`.
        """
        found = self._asked(f"/subjects/{quote(subject, safe='')}/versions", _posted(schema))
        return self._id(found, f"the schema registered as {subject}")

    def is_compatible(self, subject: str, schema: Schema) -> bool:
        """Return whether the registry would take a schema as the newest of a subject that it has.

        Raises:
            RetryableError: As `schema`.
            FatalError: As `schema`.
        """
        path = f"/compatibility/subjects/{quote(subject, safe='')}/versions/latest"
        found = self._asked(path, _posted(schema))
        return found is None or (isinstance(found, dict) and found.get("is_compatible") is True)

    def _id(self, found: Any, what: str) -> int:
        if not isinstance(found, dict) or not isinstance(found.get("id"), int):
            raise self._wrong(f"expected the id of {what}, found something else")
        return int(found["id"])

    def _references(self, found: Mapping[str, Any], what: str) -> tuple[Reference, ...]:
        """Return the schemas to which one refers, each behind those to which it refers itself."""
        texts: dict[_Place, str] = {}
        self._add_references(texts, found, what, ())
        return tuple(Reference(name, text) for (name, _, _), text in texts.items())

    def _add_references(
        self, texts: dict[_Place, str], found: Mapping[str, Any], what: str, path: tuple[_Place, ...]
    ) -> None:
        for reference in found.get("references") or ():
            place = str(reference.get("name")), str(reference.get("subject")), int(reference.get("version", 0))
            if place in texts:
                continue
            if place in path or len(texts) + len(path) > _MOST_REFERENCES:
                raise self._wrong(f"{what} refers to itself, or to more than {_MOST_REFERENCES} others")
            _, subject, version = place
            inner = self._asked(f"/subjects/{quote(subject, safe='')}/versions/{version}")
            if inner is None:
                raise RetryableError(
                    f"pipeline {self._access.pipeline}, schema registry {self._access.name}: "
                    f"{what} refers to version {version} of subject {subject}, which is not there",
                    next_step="register it again, and run the task again",
                    entry="schema-registry",
                )
            self._add_references(texts, inner, what, (*path, place))
            texts[place] = self._text(inner, f"version {version} of subject {subject}")

    def _text(self, found: Any, what: str) -> str:
        if not isinstance(found, dict) or not isinstance(found.get("schema"), str):
            raise self._wrong(f"expected a schema for {what}, found something else")
        return str(found["schema"])

    def _asked(self, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """Return what the first address that answers says; None if it says that there is no such thing.

        Args:
            path: What is asked for.
            body: What is sent; None to send nothing.
        """
        failed = []
        for url in self._access.urls:
            try:
                answer = self._client.request("GET" if body is None else "POST", url.rstrip("/") + path, json=body)
            except (httpx.RequestError, httpx.InvalidURL) as error:
                failed.append(f"{url}: {type(error).__name__}: {error}")
                continue
            if answer.status_code in _REFUSED:
                raise self._wrong(f"{url} refuses the login with status {answer.status_code}")
            said = _json(answer)
            if answer.status_code == httpx.codes.OK and said is not None:
                return said
            if answer.status_code in _REFUSED_SCHEMA and isinstance(said, dict):
                raise self._wrong(
                    f"{url} refuses the schema for {path}: {said.get('message')}",
                    next_step="correct the schema, or the compatibility that the registry asks of the subject; then run the task again",
                )
            if answer.status_code == httpx.codes.NOT_FOUND:
                return self._unknown(said, url + path)
            failed.append(f"{url}: status {answer.status_code}")
        raise RetryableError(
            f"pipeline {self._access.pipeline}, schema registry {self._access.name}: no address answers {path}: {'; '.join(failed)}",
            next_step=f"look after the registry, or correct {self._access.section}.registry.urls; then run the task again: nothing is lost",
            entry="schema-registry",
        )

    def _unknown(self, said: Any, url: str) -> None:
        """Return None, if a registry itself says that it has no such thing. The version's list of an id is a route that some have not."""
        code = said.get("error_code") if isinstance(said, dict) else None
        if code not in _UNKNOWN and not url.endswith("/versions"):
            raise self._wrong(f"expected a schema registry at {url}, found a server that answers 404 in other words")

    def _wrong(self, found: str, *, next_step: str | None = None) -> FatalError:
        return FatalError(
            f"pipeline {self._access.pipeline}, schema registry {self._access.name}: {found}",
            next_step=next_step
            or f"correct {self._access.section}.registry, or what the registry allows its user; then run the task again",
            entry="schema-registry",
        )


def _trusted(access: RegistryAccess) -> ssl.SSLContext:
    """Return whom TLS trusts, and the client's own certificate.

    Raises:
        FatalError: A file cannot be read, or holds no certificate.
    """
    try:
        context = ssl.create_default_context(cafile=access.ssl_ca_location)
        if access.ssl_certificate_location:
            context.load_cert_chain(access.ssl_certificate_location, access.ssl_key_location)
    except (OSError, ssl.SSLError) as error:
        raise FatalError(
            f"pipeline {access.pipeline}, schema registry {access.name}: "
            f"expected PEM files at the ssl_ keys of {access.section}.registry, found: {type(error).__name__}: {error}",
            next_step="correct the paths; each machine that runs executors needs the files",
            entry="schema-registry",
        ) from error
    return context


def _posted(schema: Schema) -> dict[str, Any]:
    return {"schema": schema.text} | ({} if schema.kind == "AVRO" else {"schemaType": schema.kind})


def _json(answer: httpx.Response) -> Any:
    try:
        return answer.json()
    except ValueError:
        return None
