"""Keeps what the brokers have answered for some seconds, so that many open pages ask them no more often than one.

A broker that is down is asked again only after half a minute. The ledger's figures never wait for a broker.
"""

import threading
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Generic, TypeVar

from tideline.declaration import pipelines
from tideline.declaration.pipelines import Broken, Pipeline
from tideline.errors import FatalError, RetryableError, TidelineError
from tideline.inspection.brokers import Answer, declaration
from tideline.inspection.comparison import against
from tideline.ledger import queries
from tideline.ledger.queries import Row
from tideline.ledger.sessions import looking
from tideline.reports.overview import compared

T = TypeVar("T")
_FRESH_SECONDS = 10
_DECLARED_SECONDS = 20
_AWAY_SECONDS = 30
"""How long brokers that did not answer are left alone: each question to them takes ten seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """The streams of a pipeline as the ledger has them, compared with its brokers."""

    rows: tuple[Row, ...]
    problem: TidelineError | None
    """Why the brokers did not answer; None if they did."""
    missing: tuple[TidelineError, ...]
    """Declared topics that do not exist."""

    @property
    def has_begun(self) -> bool:
        """Return whether the ledger has streams. A pipeline without any has never loaded, so a missing topic has lost nothing."""
        return any(row["stream_id"] is not None for row in self.rows)

    @property
    def is_away(self) -> bool:
        """Return whether the brokers were asked in vain. Else a problem is one of the declaration, or there is no declaration."""
        return isinstance(self.problem, RetryableError)


@dataclass(slots=True)
class _Kept(Generic[T]):
    """Answers by key, each with the moment of its question."""

    ask: Callable[[str], T]
    seconds: Callable[[T], float]
    """How long an answer is good."""
    found: dict[str, tuple[datetime, T]] = field(default_factory=dict)
    locks: defaultdict[str, threading.Lock] = field(default_factory=lambda: defaultdict(threading.Lock))

    def get(self, key: str) -> tuple[datetime, T]:
        with self.locks[key]:  # those who ask meanwhile get the same answer
            at, answer = self.found.get(key, (None, None))
            if at is None or answer is None or self.is_due(at, answer):
                answer = self.ask(key)
                at = datetime.now(UTC)
                self.found[key] = at, answer
            return at, answer

    def is_due(self, at: datetime, answer: T) -> bool:
        return (datetime.now(UTC) - at).total_seconds() > self.seconds(answer)


def _ask(name: str) -> Compared:
    try:
        rows, answer = compared(name)
    except FatalError as error:  # a broken declaration of a pipeline that has never planned
        return Compared(rows=(), problem=error, missing=())
    return Compared(rows=tuple(rows), problem=answer.problem, missing=tuple(answer.missing.values()))


def _good_for(found: Compared) -> float:
    return _AWAY_SECONDS if found.problem else _FRESH_SECONDS


_answers = _Kept(ask=_ask, seconds=_good_for)
_declared: _Kept[list[Pipeline | Broken]] = _Kept(
    ask=lambda _: pipelines.declared(), seconds=lambda _: _DECLARED_SECONDS
)


def streams(name: str) -> tuple[datetime, Compared]:
    """Return a pipeline's streams compared with its brokers, and the moment of that. Asks the brokers unless they were asked just now.

    Raises:
        TidelineError: The ledger does not answer, or neither it nor the declarations know the pipeline.
    """
    if name not in declared() and kept(name) is None:
        with looking() as session:
            declaration(session, name)  # else every name that a person makes up would be kept
    return _answers.get(name)


def kept(name: str) -> tuple[datetime, Compared] | None:
    """Return the last answer, however old; None if nothing was asked yet. Asks no broker."""
    return _answers.found.get(name)


def is_due(at: datetime, found: Compared) -> bool:
    """Return whether `streams` would ask the brokers again instead of returning this answer."""
    return _answers.is_due(at, found)


def of_ledger(name: str) -> tuple[datetime, Compared]:
    """Return a pipeline's streams without asking its brokers: the ends of the logs are unknown."""
    with looking() as session:
        rows = against(queries.streams(session, name), Answer())
    return datetime.now(UTC), Compared(rows=tuple(rows), problem=None, missing=())


def forget(name: str) -> None:
    """Ask anew the next time, because something was changed."""
    _answers.found.pop(name, None)


def declared() -> dict[str, Pipeline | Broken]:
    """Return the declared pipelines by name, as of some seconds ago: reading fifty takes a sixth of a second."""
    return {one.name: one for one in _declared.get("")[1]}
