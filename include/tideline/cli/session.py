"""Where a command's facts come from: the ledger, the declarations, the brokers, and what to do when one of them is silent.

A broker that does not answer costs its own figures only: the ledger's are shown all the same, and the problem is kept
beside them, so that nobody takes silence for an empty topic.
"""

from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import psycopg2

from tideline import settings
from tideline.declaration import pipelines
from tideline.declaration.pipelines import Pipeline
from tideline.domain.facts import PartitionFacts, TopicFacts
from tideline.errors import FatalError, TidelineError
from tideline.ledger import queries
from tideline.ledger.connection import Ledger
from tideline.ledger.queries import Row
from tideline.ledger.versions import require_current

if TYPE_CHECKING:
    from tideline.kafka.broker import Broker

_ASKED_AT_ONCE = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What the brokers of a pipeline say, or why they say nothing."""

    topics: tuple[TopicFacts, ...] = ()
    missing: Mapping[str, TidelineError] = field(default_factory=dict)
    """Declared topics that do not exist, with what to say about each."""
    problem: TidelineError | None = None
    broker: "Broker | None" = None
    """For further questions; None where there is no answer."""

    def facts(self, topic_id: object, partition: int) -> PartitionFacts | None:
        """Of one partition of one topic incarnation; None where the brokers have none such, or did not answer."""
        for topic in self.topics:
            if topic.topic_id == topic_id:
                return next((facts for facts in topic.partitions if facts.partition == partition), None)
        return None


@contextmanager
def ledger(*, of_any_release: bool = False) -> Iterator[Ledger]:
    """A session in the name of the person at the keyboard.

    Args:
        of_any_release: Whether the ledger may be older or newer than this code, for a command that finds out why.

    Raises:
        FatalError: The ledger refused a statement: its user may not do it, or a law forbids it. Or it is of another release.
        RetryableError: The ledger did not answer.
    """
    with Ledger(settings.ledger_url(), actor=settings.actor()) as session, _refusals():
        if not of_any_release:
            require_current(session)
        yield session


@contextmanager
def moment(session: Ledger) -> Iterator[None]:
    """One moment of the ledger, in which nothing can be changed. Raises what `ledger` raises."""
    with _refusals(), queries.reading(session):
        yield


@contextmanager
def looking() -> Iterator[Ledger]:
    """A session that sees one moment, for commands that only look. Raises what `ledger` raises."""
    with ledger() as session, moment(session):
        yield session


@contextmanager
def _refusals() -> Iterator[None]:
    try:
        yield
    except psycopg2.Error as error:
        raise FatalError(
            f"the ledger's database refused: {str(error).strip().splitlines()[0]}",
            next_step="`tideline doctor` checks its migrations and what its user may do",
            entry="ledger-refuses",
        ) from error


def declaration(session: Ledger, name: str) -> Pipeline | FatalError:
    """The pipeline as it is declared; for one that the ledger alone knows, why there is no declaration that holds.

    Raises:
        FatalError: Neither the declarations nor the ledger know the name.
    """
    try:
        return pipelines.load_named(name)
    except FatalError as error:
        if name not in queries.names(session):
            raise
        return error


def ask(pipeline: Pipeline | FatalError, known: Iterable[str] = ()) -> Answer:
    """Ask the brokers of a pipeline about its topics; never fails.

    Args:
        pipeline: The declaration, or why there is none.
        known: Topics that the ledger knows.
    """
    from tideline.kafka.broker import Broker

    if isinstance(pipeline, FatalError):
        return Answer(problem=pipeline)
    try:
        broker = Broker(pipeline.source)
        topics = broker.topic_facts()
        return Answer(topics=tuple(topics), missing=broker.missing(topics, known), broker=broker)
    except TidelineError as error:
        return Answer(problem=error)


def ask_all(declared: Iterable[Pipeline], known: Mapping[str, Iterable[Row]]) -> dict[str, Answer]:
    """The same for several pipelines at once, by name: the silent ones are waited for side by side.

    Args:
        declared: The pipelines.
        known: The streams that the ledger knows, by pipeline.
    """
    asked = list(declared)
    topics = [{row["topic"] for row in known.get(pipeline.name, ())} for pipeline in asked]
    with ThreadPoolExecutor(max_workers=_ASKED_AT_ONCE) as pool:
        answers = pool.map(ask, asked, topics)
        return {pipeline.name: answer for pipeline, answer in zip(asked, answers, strict=True)}
