"""Hold the partitions that a known topic gains, for pipelines whose meaning depends on which partition a key is in. Called by `surveying.survey`.

The law: no record of a key is loaded from one partition while records of the same key from another one may be older and unread, unless a person
says that no key has moved. Where partitions are added, Kafka's own partitioners send keys elsewhere from then on. What was written before stays
where it is, and is loaded on.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

from tideline.declaration.pipelines import Pipeline
from tideline.domain.streams import ADDED, DIVIDED_ANEW, Comparison, Stream, is_of_growth
from tideline.ledger import decisions, reservations
from tideline.ledger.connection import Ledger


def depends_on_partitions(pipeline: Pipeline) -> bool:
    """Return whether the pipeline compares the records of a key by their offsets: it folds them into a state, or keeps the newest one."""
    sink = pipeline.sink
    if pipeline.state is not None:
        return True
    return sink.newest_by_offset or (sink.newest_wins and pipeline.source.tombstones == "delete")


def hold(ledger: Ledger, pipeline: Pipeline, known: Iterable[Stream], comparison: Comparison) -> Comparison:
    """Begin the partitions that a known topic has gained as streams that must stop, and return the comparison with them.

    Where the number of partitions is no multiple of the former one, keys move between the former partitions, too. So these must stop as well: what
    earlier plans have reserved of them is from before.
    """
    before = Counter(stream.topic_id for stream in known if not stream.retired)
    added = [(topic, facts) for topic, facts in comparison.unseen if before[topic.topic_id]]
    if not added or not depends_on_partitions(pipeline):
        return comparison
    divided_anew = {topic.topic_id for topic, _ in added if len(topic.partitions) % before[topic.topic_id]}
    begun = [reservations.start_stream(ledger, pipeline.name, topic, facts, facts.log_start) for topic, facts in added]
    return replace(
        comparison,
        ready=tuple(part for part in comparison.ready if part[1].topic_id not in divided_anew),
        inconsistent=(
            *comparison.inconsistent,
            *((stream, DIVIDED_ANEW) for stream, topic, _ in comparison.ready if topic.topic_id in divided_anew),
            *((stream, ADDED) for stream in begun),
        ),
        unseen=tuple(part for part in comparison.unseen if not before[part[0].topic_id]),
    )


def let_go(ledger: Ledger, pipeline: Pipeline, known: Iterable[Stream]) -> list[Stream]:
    """Return the streams, without the stops that the declaration does not need any more.

    A stream of a topic that is not declared must not fail the runs of the others: it is compared again when it is declared again. A partition that
    was held retires instead, and is asked about again then.
    """
    found = []
    for stream in known:
        is_held, names = is_of_growth(stream.stopped_because), pipeline.source.names(stream.topic)
        if stream.stopped_because is None or stream.retired or (names and not is_held):
            found.append(stream)
        elif stream.stopped_because == ADDED and not names:
            decisions.retire(ledger, stream)
            found.append(replace(stream, stopped_because=None, retired=True))
        elif not names:
            decisions.resume(ledger, stream, accepted_end=None)
            found.append(stream)
        elif depends_on_partitions(pipeline):
            found.append(stream)
        else:
            decisions.resume(ledger, stream, accepted_end=stream.accepted_end)
            found.append(replace(stream, stopped_because=None))
    return found
