"""Ask the broker whether it still holds what a batch is to read: before the read, and again when the read has failed.

Spark does not notice a topic that was created again, waits half a minute for offsets that will never come, and does not say which are gone.
"""

from tideline.domain.facts import TopicFacts
from tideline.errors import NeedsOperatorError
from tideline.kafka import Broker
from tideline.ledger.attempts import Attempt, Range


def check_source(broker: Broker, attempt: Attempt) -> None:
    """Make sure that every range of the attempt can be read from its first offset to its last.

    Raises:
        NeedsOperatorError: Offsets are gone, or the topic is another one by now; names each range.
        FatalError: The topic does not exist.
        RetryableError: The broker did not answer.
    """
    topics = {topic.topic: topic for topic in broker.topic_facts()}
    problems = [
        f"{piece}: {problem}" for piece in attempt.ranges if (problem := _problem(piece, topics.get(piece.topic)))
    ]
    if problems:
        raise NeedsOperatorError(
            f"{attempt} cannot be read as it was planned:\n    " + "\n    ".join(problems),
            next_step="decide what becomes of these offsets: docs/guarantees.md, section 'When a stream stops'. "
            "Nothing was published, and the batch keeps its ranges",
        )


def _problem(piece: Range, topic: TopicFacts | None) -> str | None:
    if topic is None:
        return "the declaration no longer names the topic"
    if (topic.cluster_id, topic.topic_id) != (piece.cluster_id, piece.topic_id):
        return (
            "the topic was deleted and created again, or another cluster answers: "
            f"planned from topic id {piece.topic_id} in cluster {piece.cluster_id}, "
            f"found {topic.topic_id} in {topic.cluster_id}"
        )
    # A topic of the same id has never fewer partitions than before.
    facts = next(facts for facts in topic.partitions if facts.partition == piece.partition)
    if facts.log_start > piece.offsets.start:
        gone = piece.offsets.first(facts.log_start - piece.offsets.start)
        return f"offsets {gone} are gone unread: retention has deleted everything before {facts.log_start}"
    if facts.end < piece.offsets.end:
        return f"the log ends at {facts.end}: it was cut, or restored from a copy"
    return None
