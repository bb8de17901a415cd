"""As much of a Kubernetes API server as Spark and Airflow use: the objects of a namespace, watches of them, and the rights of service accounts.

It accepts no web sockets, as behind many proxies, so clients watch by HTTP.
"""

import json
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from tideline_stack.ports import LOOPBACK

Object = dict[str, Any]
_PATH = re.compile(
    r"/(?:api/v1|apis/(?P<group>[^/]+)/v1)/namespaces/(?P<space>[^/]+)/(?P<kind>\w+)(?:/(?P<name>[^/]+))?(?P<part>/\w+)?"
)
_TERM = re.compile(r"([^=!]+)(!?)==?(.*)")
_VERBS = {"POST": "create", "PATCH": "patch", "PUT": "update"}
_PATIENCE_S = 1.0
"""How long a watch waits before it looks whether the server still runs."""


@dataclass(frozen=True, slots=True)
class Right:
    """A verb that a service account may use on a kind of objects."""

    group: str
    kind: str
    verb: str


@dataclass(slots=True)
class Objects:
    """The objects of one namespace, and all that has happened to them."""

    space: str
    changed: threading.Condition = field(default_factory=threading.Condition)
    events: list[tuple[str, str, Object]] = field(default_factory=list)
    """Kind of object, kind of event and the object as it was then. The number of an event is the object's resource version."""
    _now: dict[tuple[str, str], Object] = field(default_factory=dict)
    _numbers: Iterator[int] = field(default_factory=lambda: count(1))

    def put(self, kind: str, given: Object) -> Object:
        """Create or replace an object; return it as it is stored."""
        with self.changed:
            name = given["metadata"]["name"]
            old = self._now.get((kind, name))
            meta = {
                **given["metadata"],
                "namespace": self.space,
                "uid": old["metadata"]["uid"] if old else f"uid-{next(self._numbers)}",
                "creationTimestamp": "2030-01-01T00:00:00Z",
                "resourceVersion": str(len(self.events) + 1),
            }
            new = {"status": {"phase": "Pending"}} if kind == "pods" else {}
            stored = {**new, **given, "metadata": meta}
            self._now[kind, name] = stored
            self._happened(kind, "MODIFIED" if old else "ADDED", stored)
            return stored

    def change(self, kind: str, name: str, change: Mapping[str, Any]) -> None:
        """Replace parts of an object, if it is still there."""
        with self.changed:
            if found := self.get(kind, name):
                self.put(kind, {**found, **change})

    def get(self, kind: str, name: str) -> Object | None:
        """Return an object as it is now; None if there is none."""
        with self.changed:
            return self._now.get((kind, name))

    def data(self, kind: str, name: str, part: str = "data") -> dict[str, str]:
        """Return what a ConfigMap or a Secret holds, which must be there."""
        found = self.get(kind, name)
        if found is None:
            raise LookupError(f"{kind} {name}")
        return dict(found[part])

    def all_of(self, kind: str, chosen: Callable[[Object], bool] = lambda _: True) -> list[Object]:
        """Return the chosen objects of a kind."""
        with self.changed:
            return [found for (of, _), found in self._now.items() if of == kind and chosen(found)]

    def delete(self, kind: str, name: str) -> Object | None:
        """Remove an object and all that it owns; return it as it was."""
        with self.changed:
            gone = self._now.pop((kind, name), None)
            if gone:
                self._happened(kind, "DELETED", gone)
                for (of, owned), found in list(self._now.items()):
                    if gone["metadata"]["uid"] in [
                        owner["uid"] for owner in found["metadata"].get("ownerReferences", [])
                    ]:
                        self.delete(of, owned)
            return gone

    def news(self, since: int, *, seconds: float) -> tuple[list[tuple[str, str, Object]], int]:
        """Return the events since a number of them, and the number now. Wait at most so long for the first one."""
        with self.changed:
            self.changed.wait_for(lambda: len(self.events) > since, seconds)
            return self.events[since:], max(since, len(self.events))

    def _happened(self, kind: str, event: str, found: Object) -> None:
        self.events.append((kind, event, found))
        self.changed.notify_all()


class KubernetesApi:
    """The server, for one namespace.

    Args:
        space: The name of the namespace.
        rights: What each service account may do, by its token.
    """

    def __init__(self, space: str, rights: Mapping[str, frozenset[Right]]) -> None:
        self.objects = Objects(space)
        self.rights = rights
        self.used: dict[str, set[Right]] = {token: set() for token in rights}
        """The rights that were used, by token."""
        self.refused: list[tuple[str, Right]] = []
        self.has_ended = threading.Event()
        self._server = ThreadingHTTPServer((LOOPBACK, 0), type("Handler", (_Handler,), {"api": self}))
        self._server.daemon_threads = True

    @property
    def url(self) -> str:
        """Return the address."""
        return f"http://{LOOPBACK}:{self._server.server_port}"

    @contextmanager
    def running(self) -> Iterator["KubernetesApi"]:
        """Answer until the end of the context."""
        thread = threading.Thread(target=self._server.serve_forever, args=(0.1,))
        thread.start()
        try:
            yield self
        finally:
            self.has_ended.set()
            self._server.shutdown()
            thread.join()
            self._server.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    api: KubernetesApi

    def log_message(self, *_: object) -> None:
        """Write nothing to the output of the tests."""

    def _answer(self) -> None:
        parts = urlsplit(self.path)
        asked = dict(parse_qsl(parts.query))
        given = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        where = _PATH.fullmatch(parts.path)
        if where is None or where["space"] != self.api.objects.space:
            self._say(HTTPStatus.NOT_FOUND, _status(HTTPStatus.NOT_FOUND, parts.path))
            return
        kind, name = where["kind"], where["name"]
        verb = self._verb(name, asked)
        old = self.api.objects.get(kind, name) if name else None
        # To apply an object that is not there needs the right to create it, too.
        needed = [verb, "create"] if verb == "patch" and old is None else [verb]
        if not self._may([Right(where["group"] or "", kind + (where["part"] or ""), each) for each in needed]):
            return
        if verb == "watch":
            self._watch(kind, asked)
        elif verb in _VERBS.values():
            new = _merged(old or {"metadata": {"name": name}}, json.loads(given))
            self._say(HTTPStatus.CREATED if verb == "create" else HTTPStatus.OK, self.api.objects.put(kind, new))
        else:
            self._read_or_delete(verb, kind, name, asked)

    def _may(self, needed: list[Right]) -> bool:
        token = str(self.headers.get("Authorization")).removeprefix("Bearer ")
        if missing := [right for right in needed if right not in self.api.rights.get(token, ())]:
            self.api.refused += [(token, right) for right in missing]
            self._say(HTTPStatus.FORBIDDEN, _status(HTTPStatus.FORBIDDEN, f"{token} may not: {missing}"))
            return False
        self.api.used[token].update(needed)
        return True

    do_GET = do_POST = do_PATCH = do_PUT = do_DELETE = _answer  # noqa: N815 - the names that the standard library calls

    def _verb(self, name: str | None, asked: Mapping[str, str]) -> str:
        if self.command == "DELETE":
            return "delete" if name else "deletecollection"
        if self.command == "GET":
            return "watch" if asked.get("watch") else "get" if name else "list"
        return _VERBS[self.command]

    def _read_or_delete(self, verb: str, kind: str, name: str | None, asked: Mapping[str, str]) -> None:
        objects = self.api.objects
        if name is None:
            found = objects.all_of(kind, _chosen(asked))
            if verb == "deletecollection":
                for one in found:
                    objects.delete(kind, one["metadata"]["name"])
            version = {"resourceVersion": str(len(objects.events))}
            self._say(HTTPStatus.OK, {"kind": "List", "apiVersion": "v1", "metadata": version, "items": found})
            return
        named = objects.delete(kind, name) if verb == "delete" else objects.get(kind, name)
        if named is None:
            self._say(HTTPStatus.NOT_FOUND, _status(HTTPStatus.NOT_FOUND, f"{kind} {name}"))
        else:
            self._say(HTTPStatus.OK, named)

    def _watch(self, kind: str, asked: Mapping[str, str]) -> None:
        if self.headers.get("Upgrade"):
            self._say(HTTPStatus.SERVICE_UNAVAILABLE, _status(HTTPStatus.SERVICE_UNAVAILABLE, "no web sockets"))
            return
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        chosen, objects = _chosen(asked), self.api.objects
        told = int(asked.get("resourceVersion") or 0)
        while not self.api.has_ended.is_set():
            news, told = objects.news(told, seconds=_PATIENCE_S)
            lines = [
                json.dumps({"type": event, "object": one}) + "\n"
                for of, event, one in news
                if of == kind and chosen(one)
            ]
            try:
                for line in lines:
                    self.wfile.write(f"{len(line.encode()):x}\r\n{line}\r\n".encode())
                self.wfile.flush()
            except OSError:  # the client has gone
                break
        self.close_connection = True

    def _say(self, status: HTTPStatus, answer: Object) -> None:
        text = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)


def _merged(old: Object, new: Object) -> Object:
    both = {
        name: _merged(old[name], value)
        for name, value in new.items()
        if isinstance(value, dict) and isinstance(old.get(name), dict)
    }
    return {**old, **new, **both}


def _status(status: HTTPStatus, about: str) -> Object:
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "code": status,
        "reason": status.phrase.replace(" ", ""),
        "message": about,
    }


def _chosen(asked: Mapping[str, str]) -> Callable[[Object], bool]:
    """Return whether an object has the labels and the name that a request asks for."""
    labels = _terms(asked.get("labelSelector", ""))
    fields = _terms(asked.get("fieldSelector", ""))
    if unknown := {name for name, _, _ in fields} - {"metadata.name"}:
        raise NotImplementedError(f"selectors of fields: {unknown}")

    def has(one: Object) -> bool:
        own = one["metadata"].get("labels", {})
        name = {"metadata.name": one["metadata"]["name"]}
        return all(
            (of.get(key) == value) is equal
            for of, terms in ((own, labels), (name, fields))
            for key, equal, value in terms
        )

    return has


def _terms(selector: str) -> list[tuple[str, bool, str]]:
    """Return the terms of a selector: a name, whether it must have the value, and the value."""
    found = [(part, _TERM.fullmatch(part)) for part in selector.split(",") if part]
    if strange := [part for part, term in found if term is None]:
        raise NotImplementedError(f"terms of a selector: {strange}")
    return [(term[1], not term[2], term[3]) for _, term in found if term]


def rights_of(role: Mapping[str, Any]) -> frozenset[Right]:
    """Return the rights of a role, as a manifest declares it."""
    rules: Sequence[Mapping[str, Sequence[str]]] = role["rules"]
    return frozenset(
        Right(group, kind, verb)
        for rule in rules
        for group in rule["apiGroups"]
        for kind in rule["resources"]
        for verb in rule["verbs"]
    )
