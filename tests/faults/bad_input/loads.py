"""The three pipelines over one topic, each with its own folder and table, in one database."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from confluent_kafka import TopicCollection
from confluent_kafka.admin import AdminClient

import records
from faults.bad_input.comparing import Loaded
from faults.bad_input.fates import Case
from faults.bad_input.pipelines import PIPELINES, Declared
from faults.bad_input.sending import CONFIG, PARTITIONS, send
from loads.loading import Loading
from tideline.domain.offsets import OffsetRange
from tideline.domain.requests import KeptRejects, NamedRange, Ranges
from tideline.kafka.broker import topic_uuid


@dataclass(frozen=True, slots=True)
class Load:
    """One pipeline: its operations, and its expected result."""

    verbs: Loading
    loaded: Loaded
    topic: str

    def run(self) -> list[int]:
        """Load the new records."""
        return self.verbs.run()

    def replay(self) -> list[int]:
        """Load everything again, replacing the rows."""
        ends = [0] * PARTITIONS
        for partition, offset in self.loaded.sent:
            ends[partition] = max(ends[partition], offset + 1)
        ranges = tuple(NamedRange(self.topic, n, OffsetRange(0, end)) for n, end in enumerate(ends) if end)
        return self.verbs.run(Ranges(ranges=ranges, replace=True), reason="to see that nothing changes")

    def redrive(self) -> list[int]:
        """Re-drive all rejects."""
        return self.verbs.run(KeptRejects(), reason="to see that nothing changes")

    def counts(self) -> dict[str, int]:
        """Return sums over the counts of all batches that own offsets."""
        sql = """
            SELECT sum(n_read)::int, sum(n_written)::int, sum(n_rejected)::int, sum(n_filtered)::int
            FROM tideline.batch_range JOIN tideline.batch USING (batch_id)
            WHERE pipeline = %s AND state = 'advanced' AND kind IN ('live', 'replay')"""
        (found,) = self.verbs.rows(sql, self.loaded.declared.name)
        return dict(zip(("read", "written", "rejected", "filtered"), found, strict=True))


def loads(loading: Loading, cases: Sequence[tuple[str, Case]], pipelines: Sequence[Declared] = PIPELINES) -> list[Load]:
    """Create a topic with the records, and pipelines over it that have loaded nothing yet."""
    topic = records.create(loading.bootstrap, partitions=PARTITIONS, **CONFIG)
    sent = send(loading.bootstrap, topic, cases)
    admin = AdminClient({"bootstrap.servers": loading.bootstrap})
    topic_id = topic_uuid(admin.describe_topics(TopicCollection([topic]))[topic].result(180))
    made = []
    for declared in pipelines:
        verbs = replace(loading, folder=loading.folder.parent / declared.name)
        verbs.declare(
            topic,
            columns=declared.columns,
            value_format=declared.value_format,
            transform=declared.transform,
            target=declared.target,
            table=declared.table,
            item=declared.item,
            batch_records=len(sent),
            fail_above=1.0,
        )
        made.append(Load(verbs, Loaded(declared=declared, url=loading.url, topic_id=topic_id, sent=sent), topic))
    return made
