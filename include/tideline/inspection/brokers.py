"""Asks the brokers of pipelines about their topics, and handles one that does not answer.

If a broker does not answer, only its own figures are missing. The ledger's figures are shown together with the problem, so that a broker that
is down is not mistaken for an empty topic.
"""

from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from tideline.declaration import pipelines
from tideline.declaration.pipelines import Pipeline
from tideline.domain.facts import PartitionFacts, Place, TopicFacts
from tideline.errors import FatalError, TidelineError
from tideline.ledger import queries
from tideline.ledger.connection import Ledger
from tideline.ledger.queries import Row

if TYPE_CHECKING:
    from tideline.kafka.broker import Broker

_MAX_PARALLEL = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The facts that the brokers of a pipeline report, or the reason why there are none."""

    topics: tuple[TopicFacts, ...] = ()
    missing: Mapping[str, TidelineError] = field(default_factory=dict)
    """Declared topics that do not exist, each with the error to report."""
    held: frozenset[Place] = frozenset()
    """The partitions in which a transaction hangs: what it holds back is unread, and nothing can read it."""
    problem: TidelineError | None = None
    broker: "Broker | None" = None
    """The client for further queries; None if there is no answer."""
    _found: dict[tuple[object, int], PartitionFacts] = field(
        init=False, repr=False, compare=False, default_factory=dict
    )

    def __post_init__(self) -> None:
        # A pipeline may have a thousand partitions: searching all of them for each would take a million steps.
        self._found.update({(t.topic_id, facts.partition): facts for t in self.topics for facts in t.partitions})

    def facts(self, topic_id: object, partition: int) -> PartitionFacts | None:
        """Return the facts of one partition of one topic incarnation; None if the brokers do not have it, or did not answer."""
        return self._found.get((topic_id, partition))

    def unread(self, row: Row) -> int | None:
        """Return the offsets of a stream that are not loaded, with those that a hanging transaction holds back; None if the brokers do not say."""
        facts = self.facts(row["topic_id"], row["partition"])
        if facts is None:
            return None
        held = facts.n_unstable if self.holds(row) else 0
        head: int = row["next_offset"]
        return max(0, facts.end + held - head)

    def holds(self, row: Row) -> bool:
        """Return whether a transaction hangs in the partition of a stream."""
        return (row["topic"], row["partition"]) in self.held and self.facts(
            row["topic_id"], row["partition"]
        ) is not None


def declaration(session: Ledger, name: str) -> Pipeline | FatalError:
    """Return the declared pipeline. If the ledger knows the name but its declaration is missing or broken, return that error.

    Raises:
        FatalError: The declaration is missing or broken, and the ledger does not know the name.
    """
    try:
        return pipelines.load_named(name)
    except FatalError as error:
        if name not in queries.names(session):
            raise
        return error


def ask(pipeline: Pipeline | FatalError, known: Iterable[str] = ()) -> Answer:
    """Query the brokers of a pipeline about its topics. Return problems in the answer instead of raising them.

    Args:
        pipeline: The declaration, or the error why there is none.
        known: Topics that the ledger knows.
    """
    from tideline.kafka.broker import Broker  # noqa: PLC0415 - commands that ask no broker need not wait until its client is loaded
    from tideline.kafka.timeline import Timeline  # noqa: PLC0415 - as below

    if isinstance(pipeline, FatalError):
        return Answer(problem=pipeline)
    try:
        broker = Broker(pipeline.source)
        topics = broker.topic_facts()
        missing = broker.missing(topics, known)
        held = Timeline(broker, datetime.now(UTC)).held(topics)
        return Answer(topics=tuple(topics), missing=missing, held=held, broker=broker)
    except TidelineError as error:
        return Answer(problem=error)


def ask_all(declared: Iterable[Pipeline], known: Mapping[str, Iterable[Row]]) -> dict[str, Answer]:
    """Query the brokers of several pipelines in parallel, so that timeouts of brokers that are down do not add up.

    Args:
        declared: The pipelines.
        known: The streams that the ledger knows, by pipeline.

    Returns:
        The answers, by pipeline name.
    """
    asked = list(declared)
    topics = [{row["topic"] for row in known.get(pipeline.name, ())} for pipeline in asked]
    with ThreadPoolExecutor(max_workers=_MAX_PARALLEL) as pool:
        answers = pool.map(ask, asked, topics)
        return {pipeline.name: answer for pipeline, answer in zip(asked, answers, strict=True)}
