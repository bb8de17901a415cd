"""Every address and every decision of the page, and who may use it: what is expected, what real requests find, and the table of both.

The addresses are those of the app itself, so a new one without an expectation is an error here.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import partial

import httpx
from fastapi.routing import APIRoute

from tideline.web.app import build
from tideline.web.decisions import DECISIONS
from website import SCRAPER, Website

HEADER = {"X-Tideline": "page"}
WHY = "a door that was open"
OPEN, CLOSED = "allowed", "refused"
DOES_NOT_FIT = 409
_NONE, _HIDDEN = "-", "not shown"


class Right(Enum):
    """What a person needs for an address."""

    LOGIN = "a login"
    TOKEN = "a login, or the token"
    READ = "read"
    EDIT = "edit"
    RUN = "start runs"


@dataclass(frozen=True, slots=True)
class Person:
    """A column of the table. `own` says whether the pipeline that is asked for is the one that the person may see."""

    heading: str
    role: str | None
    """The user to log in as."""
    own: bool = True
    of_one_dag: bool = False

    def may(self, right: Right) -> bool:
        """Return whether this person is expected to have a right, by what Airflow says about its roles."""
        if self.role is None:
            return False
        if self.role == SCRAPER:
            return right is Right.TOKEN
        if right in (Right.LOGIN, Right.TOKEN):
            return True
        return self.own and (right is Right.READ or self.role not in ("viewer", "guest"))


PEOPLE = (
    Person("no login", None),
    Person("metrics token", SCRAPER),
    Person("viewer", "viewer"),
    Person("user", "user"),
    Person("op", "op"),
    Person("admin", "admin"),
    Person("one DAG: this one", "partner", of_one_dag=True),
    Person("one DAG: another", "partner", own=False, of_one_dag=True),
    Person("one DAG to read: this one", "guest", of_one_dag=True),
    Person("one DAG to read: another", "guest", own=False, of_one_dag=True),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Door:
    """One row of the table: an address with a method, and what it needs."""

    method: str
    route: str
    """As the app has it, with the name of the decision."""
    right: Right
    path: str
    """With the values of a pipeline that exists."""
    of_pipeline: str = ""
    form: dict[str, str] = field(default_factory=dict)
    """That of a decision that the ledger would carry out."""
    part: str = ""
    """What of the page is shown only with the right; empty for all of it."""
    part_text: str = ""
    """How that part is recognised."""
    fits: bool = True
    """Whether the form is of this pipeline. Else the ledger refuses the decision of a person who may act, with DOES_NOT_FIT."""

    @property
    def name(self) -> str:
        return f"`{self.method} {self.route}`{self.part}"

    def knock(self, client: httpx.Client, *, reason: str = "") -> httpx.Response:
        """Send the request. Without a reason no decision is carried out."""
        sent = {**self.form, "reason": reason} if reason else self.form
        data = sent if self.method == "POST" else None
        return client.request(self.method, f"/tideline{self.path}", data=data, headers=HEADER)


_PAGES = {
    "/": Right.LOGIN,
    "/metrics": Right.TOKEN,
    "/runs/{dag_id}/{run_id:path}": Right.LOGIN,
    "/static/{name}": Right.LOGIN,
    "/pipelines/{pipeline}": Right.READ,
    "/pipelines/{pipeline}/batches": Right.READ,
    "/pipelines/{pipeline}/batches/{batch_id}": Right.READ,
    "/pipelines/{pipeline}/checks": Right.RUN,
    "/pipelines/{pipeline}/coverage": Right.READ,
    "/pipelines/{pipeline}/decisions": Right.READ,
    "/pipelines/{pipeline}/lag": Right.READ,
    "/pipelines/{pipeline}/open": Right.READ,
    "/pipelines/{pipeline}/partitions/{stream_id}": Right.READ,
    "/pipelines/{pipeline}/reasons": Right.READ,
    "/pipelines/{pipeline}/rejects": Right.READ,
    "/pipelines/{pipeline}/throughput": Right.READ,
    "/pipelines/{pipeline}/decisions/{decision}": Right.RUN,
    "/pipelines/{pipeline}/decisions/{decision}/dry-run": Right.RUN,
}
"""What each address needs. One that is missing here fails the test."""


def _decisions(site: Website) -> dict[str, tuple[str, dict[str, str]]]:
    """Return for each decision a pipeline and a form that the ledger would carry out."""
    newest = {
        str(name): str(batch)
        for name, batch in site.rows("SELECT pipeline, max(batch_id) FROM tideline.batch GROUP BY 1")
    }
    first = {
        str(name): str(batch)
        for name, batch in site.rows("SELECT pipeline, min(batch_id) FROM tideline.batch GROUP BY 1")
    }
    return {
        "replay": ("clicks", {"batch": first["clicks"]}),
        "redrive": ("clicks", {"batch": first["clicks"]}),
        "retry": ("orders", {"batch": newest["orders"]}),
        "abandon": ("orders", {"batch": newest["orders"]}),
        "skip": ("clicks", {"range": f"{site.prefix}clicks/1 [131, 132)"}),
        "accept-loss": ("payments", {"topic": f"{site.prefix}payments"}),
        "accept-partitions": ("grown", {"topic": f"{site.prefix}grown"}),
        "adopt-topic": ("moved", {"topic": f"{site.prefix}moved"}),
        "rewind": ("visits", {"to_batch": first["visits"]}),
    }


def doors(site: Website) -> Iterator[Door]:
    """Yield each address of the app, and each decision at its three addresses.

    Raises:
        KeyError: Nothing is expected of an address or of a decision.
    """
    decisions = _decisions(site)
    for route in _routes():
        (method,) = route.methods
        right = _PAGES[route.path]
        for decision in DECISIONS if "{decision}" in route.path else [""]:
            pipeline, form = decisions[decision] if decision else ("clicks", {})
            door = Door(
                method=method,
                route=route.path.replace("{decision}", decision).replace(":path", ""),
                right=right,
                path=_filled(site, route.path, pipeline).replace("{decision}", decision),
                of_pipeline=pipeline if "{pipeline}" in route.path else "",
                form=form,
            )
            yield door
            if route.path.endswith("/rejects"):
                yield replace(door, right=Right.EDIT, part=": keys and values", part_text='<th scope="col">Value</th>')


def _routes() -> list[APIRoute]:
    every = build().routes
    strange = [route for route in every if not isinstance(route, APIRoute)]
    if strange:  # a mounted app, or a route of Starlette, has no dependency that asks for rights
        raise TypeError(f"expected only routes of FastAPI, found {strange}")
    return sorted((route for route in every if isinstance(route, APIRoute)), key=lambda route: route.path)


def _filled(site: Website, path: str, pipeline: str) -> str:
    ((batch, stream),) = site.rows(
        "SELECT (SELECT min(batch_id) FROM tideline.batch WHERE pipeline = %s),"
        " (SELECT min(stream_id) FROM tideline.stream WHERE pipeline = %s)",
        pipeline,
        pipeline,
    )
    values = {"pipeline": pipeline, "batch_id": batch, "stream_id": stream, "name": "page.css", "dag_id": pipeline}
    for name, value in values.items():
        path = path.replace(f"{{{name}}}", str(value))
    return path.replace("{run_id:path}", "manual__first")


def of_person(door: Door, person: Person) -> Door | None:
    """Return the door that a person knocks at: one of the pipeline that this person may see, or one of another; None if there is no such door."""
    if not person.of_one_dag:
        return door
    if not door.of_pipeline:
        return door if person.own else None
    wanted = "clicks" if person.own else ("orders" if door.of_pipeline == "clicks" else door.of_pipeline)
    path = door.path.replace(f"/pipelines/{door.of_pipeline}", f"/pipelines/{wanted}")
    return replace(door, path=path, of_pipeline=wanted, fits=wanted == door.of_pipeline)


Found = dict[str, dict[str, httpx.Response | None]]
"""Answers, by the name of the door and the heading of the person."""


def knock(site: Website) -> Found:
    """Knock at every door as every person, the persons at the same time.

    Those who should be refused send decisions that would be carried out. The others leave the reason out, so that nothing changes.
    """
    every = list(doors(site))
    with ThreadPoolExecutor(len(PEOPLE)) as pool:
        by_person = list(pool.map(partial(_as_person, site, every), PEOPLE))
    return {
        door.name: {person.heading: answers[door.name] for person, answers in zip(PEOPLE, by_person, strict=True)}
        for door in every
    }


def _as_person(site: Website, every: list[Door], person: Person) -> dict[str, httpx.Response | None]:
    found = {}
    with site.client(person.role) as client:
        for door in every:
            asked = of_person(door, person)
            found[door.name] = asked.knock(client, reason="" if person.may(door.right) else WHY) if asked else None
    return found


def cell(door: Door | None, answer: httpx.Response | None) -> str:
    """Return what the table says of an answer at a door that a person has knocked at."""
    if door is None or answer is None:
        return _NONE
    if answer.status_code in (401, 403):
        return f"{CLOSED} ({answer.status_code})"
    refused_as_expected = answer.status_code == DOES_NOT_FIT and not door.fits
    if not (
        answer.is_success or answer.is_redirect or refused_as_expected
    ):  # also a decision without a reason: the page then asks for one
        return f"error {answer.status_code}"
    return OPEN if door.part_text in answer.text else _HIDDEN


def expected(door: Door, person: Person) -> str:
    """Return what the table should say."""
    if of_person(door, person) is None:
        return _NONE
    if person.may(door.right):
        return OPEN
    if door.right is Right.EDIT and person.may(Right.READ):
        return _HIDDEN
    return f"{CLOSED} ({401 if person.role is None else 403})"


def row(door: Door, found: Found) -> list[str]:
    """Return the cells of a door."""
    answers = found[door.name].values()
    return [cell(of_person(door, person), answer) for person, answer in zip(PEOPLE, answers, strict=True)]


def table(site: Website, found: Found) -> str:
    """Return the table of what was found, as Markdown."""
    headings = [person.heading for person in PEOPLE]
    lines = [f"| address | needs | {' | '.join(headings)} |", f"|---|---|{'---|' * len(headings)}"]
    lines += [f"| {door.name} | {door.right.value} | {' | '.join(row(door, found))} |" for door in doors(site)]
    return "\n".join(lines) + "\n"
