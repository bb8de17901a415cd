"""A stateful pipeline whose processor is a few lines of Python: its state and its rows depend on every record before, and on their order."""

from typing import Any

from psycopg2.extras import execute_values

from brokerless_planning import Brokerless
from ledger_queries import execute, query
from ledgers import stage
from planners import NAME
from rejected_records import reject
from stateful import staged, with_state
from tideline import flow
from tideline.domain.facts import PartitionFacts
from tideline.ledger import folding, heads, publishing
from tideline.ledger.attempts import Attempt, Writer
from tideline.ledger.connection import Ledger
from tideline.ledger.publishing import Written

TARGET = (
    "CREATE SCHEMA ads; CREATE TABLE ads.output (hash bigint NOT NULL, kafka_topic_id uuid, kafka_partition integer, kafka_offset bigint,"
    " tideline_batch bigint NOT NULL, PRIMARY KEY (kafka_topic_id, kafka_partition, kafka_offset))"
)
_LISTS = {
    "states": "SELECT key, value, stream_id, expires_at, kafka_offset FROM tideline.state ORDER BY key",
    "positions": "SELECT stream_id, next_offset, max_time FROM tideline.state_position WHERE next_offset > 0 ORDER BY 1",
    "rows": "SELECT kafka_partition, kafka_offset, hash FROM ads.output ORDER BY 1, 2",
    "rejects": "SELECT stream_id, kafka_offset FROM tideline.reject ORDER BY 1, 2",
}
TABLES = "SELECT tablename FROM pg_tables WHERE schemaname = 'tideline' ORDER BY 1"


class Folded:
    """A pipeline over two partitions, in batches of `batch_records`."""

    def __init__(self, ledger: Ledger, *ends: int, batch_records: int = 8) -> None:
        self.ledger = ledger
        self.ads = Brokerless(ledger, *ends, batch_records=batch_records, run_batches=50)
        self.ads.pipeline = with_state(self.ads.pipeline)
        execute(ledger, TARGET)

    def load(self, name: str) -> list[int]:
        """Plan a run, and write its batches."""
        batch_ids = self.ads.plan(name)
        for batch_id in batch_ids:
            self.write(batch_id, name)
        heads.advance_published(self.ledger, NAME)
        return batch_ids

    def write(self, batch_id: int, name: str) -> None:
        """Claim, fold and publish one batch."""
        writer = Writer(dag_id=NAME, run_id=name, task_id="write", try_number=1)
        attempt = flow.claim(self.ledger, batch_id, writer, pipeline=NAME)
        assert isinstance(attempt, Attempt), attempt
        stage(self.ledger, attempt)
        rows, states, rejected = self.fold(attempt)
        found = staged(self.ledger, attempt, [(1, key, *state) for key, state in states.items()])
        for stream, offset in rejected:
            reject(self.ledger, attempt, stream, offset)

        def insert_output(session: Ledger) -> Written:
            folding.publish_states(session, attempt, found)
            with session.connection.cursor() as cursor:
                execute_values(cursor, "INSERT INTO ads.output VALUES %s", rows)
            written = {piece.stream_id: len(piece.offsets) for piece in attempt.ranges}
            for stream, _ in rejected:
                written[stream] -= 1
            return Written(n_written=written)

        facts = {
            piece.stream_id: PartitionFacts(partition=piece.partition, log_start=0, end=1000)
            for piece in attempt.ranges
        }
        publishing.publish(self.ledger, attempt, insert_output, facts=facts, filtered_by_difference=False)

    def fold(self, attempt: Attempt) -> tuple[list[Any], dict[str, Any], list[tuple[int, int]]]:
        """Return the rows, the changed states and the rejects of a batch. Every seventh record ends the state of its key."""
        states = dict(query(self.ledger, "SELECT key, value FROM tideline.state"))
        rows, changed, rejected = [], {}, []
        for piece in attempt.ranges:
            for offset in range(piece.offsets.start, piece.offsets.end):
                if offset % 11 == 5:
                    rejected.append((piece.stream_id, offset))
                    continue
                key = f"[{piece.partition}, {offset % 3}]"
                before = states.get(key) or {"hash": 0}
                now = {"hash": (before["hash"] * 31 + offset + 1) % 1_000_003}
                states[key] = None if offset % 7 == 6 else now
                changed[key] = (piece.stream_id, states[key], None, offset)
                rows.append((now["hash"], str(piece.topic_id), piece.partition, offset, attempt.batch_id))
        return rows, changed, rejected

    def seen(self) -> dict[str, Any]:
        """Return what readers see, without the numbers of batches."""
        return {name: query(self.ledger, text) for name, text in _LISTS.items()}

    def everything(self) -> dict[str, Any]:
        """Return all rows of all tables."""
        names = [f"tideline.{name}" for (name,) in query(self.ledger, TABLES)]
        return {name: sorted(map(repr, query(self.ledger, f"SELECT * FROM {name}"))) for name in (*names, "ads.output")}
