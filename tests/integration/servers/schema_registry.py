"""A schema registry in this process, with the routes that readers and writers use, and with faults on demand."""

import json
from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from servers.tls import Certificates
from servers.web_server import Answer, WebServer


@dataclass(slots=True)
class Registered:
    """A schema of the registry."""

    subject: str
    version: int
    schema: str
    kind: str = "AVRO"
    references: Sequence[Mapping[str, Any]] = ()

    def body(self) -> dict[str, Any]:
        kind = {} if self.kind == "AVRO" else {"schemaType": self.kind}
        references = {"references": self.references} if self.references else {}
        return {"schema": self.schema, **kind, **references}


class SchemaRegistry(WebServer):
    """Keeps schemas by their ids.

    Args:
        certificates: Serve by TLS with these; without them by plain HTTP.
        login: The user and password, or the token, without which it answers 401.
    """

    def __init__(self, certificates: Certificates | None = None, login: tuple[str, str] | str | None = None) -> None:
        super().__init__(certificates)
        self.schemas: dict[int, Registered] = {}
        self.asked: list[str] = []
        """The path of each request."""
        self.refuses: Callable[[str, str], bool] = lambda _subject, _text: False
        """Whether a schema is not compatible with those of a subject."""
        self.fault: Callable[[str], Answer | None] = lambda _path: None
        """What it answers to a path instead of the truth."""
        self._authorization = _authorization(login)

    def register(
        self,
        subject: str,
        schema: Any,
        kind: str = "AVRO",
        references: Iterable[tuple[str, str, int]] = (),
        schema_id: int | None = None,
    ) -> int:
        """Register a schema, and return its id.

        Args:
            subject: Under which name.
            schema: Its text, or what its text is in JSON.
            kind: AVRO, JSON or PROTOBUF.
            references: Name, subject and version of each schema that it refers to.
            schema_id: The id; by default one above the highest.
        """
        text = schema if isinstance(schema, str) else json.dumps(schema)
        version = 1 + sum(one.subject == subject for one in self.schemas.values())
        given = [dict(zip(("name", "subject", "version"), one, strict=True)) for one in references]
        number = schema_id or max(self.schemas, default=0) + 1
        self.schemas[number] = Registered(subject, version, text, kind, given)
        return number

    def _answer(self, path: str, body: bytes) -> Answer:
        given = json.loads(body or b"{}")
        match path.strip("/").split("/"):
            case ["subjects", subject] if body:
                return self._known(subject, given)
            case ["subjects", subject, "versions"] if body:
                return self._registered(subject, given)
            case ["compatibility", "subjects", subject, "versions", "latest"] if body:
                return 200, {"is_compatible": not self.refuses(subject, given["schema"])}
            case ["schemas", "ids", text, *rest]:
                return self._of_id(int(text), rest)
            case ["subjects", subject, "versions", version]:
                return self._of_subject(subject, version)
            case _:
                return 404, b"<html>not found</html>"

    def _known(self, subject: str, given: Mapping[str, Any]) -> Answer:
        if subject not in {one.subject for one in self.schemas.values()}:
            return 404, {"error_code": 40401, "message": "Subject not found"}
        for number, one in self.schemas.items():
            if (one.subject, one.kind, one.schema) == (subject, given.get("schemaType", "AVRO"), given["schema"]):
                return 200, one.body() | {"subject": subject, "version": one.version, "id": number}
        return 404, {"error_code": 40403, "message": "Schema not found"}

    def _registered(self, subject: str, given: Mapping[str, Any]) -> Answer:
        if self.refuses(subject, given["schema"]):
            return 409, {"error_code": 409, "message": "Schema being registered is incompatible with an earlier schema"}
        status, known = self._known(subject, given)
        if status == 200:
            return 200, {"id": known["id"]}
        references = [(one["name"], one["subject"], one["version"]) for one in given.get("references", ())]
        return 200, {"id": self.register(subject, given["schema"], given.get("schemaType", "AVRO"), references)}

    def _of_id(self, number: int, rest: list[str]) -> Answer:
        if number not in self.schemas:
            return 404, {"error_code": 40403, "message": "Schema not found"}
        found = self.schemas[number]
        return 200, [{"subject": found.subject, "version": found.version}] if rest else found.body()

    def _of_subject(self, subject: str, version: str) -> Answer:
        for number, one in sorted(self.schemas.items(), reverse=True):
            if one.subject == subject and version in ("latest", str(one.version)):
                return 200, one.body() | {"subject": subject, "version": one.version, "id": number}
        return 404, {"error_code": 40402, "message": "Version not found"}

    def answered(self, path: str, headers: Mapping[str, str], body: bytes) -> Answer:
        """Return what it says to a path, once the login is right."""
        self.asked.append(path)
        if self._authorization not in (None, headers.get("Authorization")):
            return 401, {"error_code": 401, "message": "Unauthorized"}
        return self.fault(path) or self._answer(path, body)


def _authorization(login: tuple[str, str] | str | None) -> str | None:
    if isinstance(login, tuple):
        return f"Basic {b64encode(':'.join(login).encode()).decode()}"
    return None if login is None else f"Bearer {login}"
