"""Who owns what a pipeline has loaded, and what stands in the output: the questions that a replay, a backfill and a re-drive have in common."""

import psycopg2

from loading import Loading
from tideline.domain.requests import NamedRange, Ranges

# Gives each record another name, so that it shows by which transform it was written.
RENAMING = """\
import pyarrow as pa, pyarrow.compute as pc

def records(batch):
    names = pc.binary_join_element_wise("new", batch["name"], " ")
    return batch.set_column(batch.schema.get_field_index("name"), "name", names)
"""


def ranges(*texts: str, replace: bool = False) -> Ranges:
    """Ranges as people write them."""
    return Ranges(ranges=tuple(map(NamedRange.parse, texts)), replace=replace)


def coverage(loading: Loading, partition: int = 0) -> list[tuple[int, int, int | str]]:
    """(start, end, batch or hole) of one partition, ascending."""
    return loading.rows(
        "SELECT lower(offsets), upper(offsets), coalesce(to_jsonb(batch_id), to_jsonb(hole)) FROM tideline.coverage"
        " JOIN tideline.stream USING (stream_id) WHERE partition = %s ORDER BY offsets",
        partition,
    )


def batches(loading: Loading) -> dict[int, tuple[str, str]]:
    """Kind and state of each batch."""
    rows = loading.rows("SELECT batch_id, kind::text, state::text FROM tideline.batch ORDER BY batch_id")
    return {row[0]: row[1:] for row in rows}


def actions(loading: Loading, batch_id: int) -> list[str]:
    """What has happened to a batch, in order."""
    rows = loading.rows("SELECT action FROM tideline.event WHERE batch_id = %s ORDER BY event_id", batch_id)
    return [row[0] for row in rows]


def owners(loading: Loading) -> dict[int, int]:
    """By offset, the batch that each row of the output names; fails where partitions share an offset."""
    rows = loading.rows("SELECT kafka_offset, tideline_batch FROM ads.output")
    found = dict(rows)
    assert len(found) == len(rows)
    return found


def names(loading: Loading) -> dict[int, str]:
    """By offset, the name in each row of the output; fails where an offset is there twice."""
    rows = loading.rows("SELECT kafka_offset, name FROM ads.output")
    found = dict(rows)
    assert len(found) == len(rows)
    return found


def everything(loading: Loading) -> tuple[list, list]:
    """All columns of output and rejects but the batch, and of rejects the attempt and the time."""
    return (
        loading.rows(
            "SELECT to_jsonb(o) - 'tideline_batch' FROM ads.output o ORDER BY kafka_topic_id, kafka_partition, kafka_offset"
        ),
        loading.rows(
            "SELECT to_jsonb(r) - 'batch_id' - 'attempt_id' - 'rejected_at' FROM tideline.reject r ORDER BY stream_id, kafka_offset"
        ),
    )


def counts_of(loading: Loading, batch_id: int) -> dict[str, int]:
    """The sums over the ranges of one batch."""
    columns = ("n_read", "n_written", "n_rejected", "n_filtered", "n_gap")
    sums = ", ".join(f"sum({column})::int" for column in columns)
    row = loading.rows(f"SELECT {sums} FROM tideline.batch_range WHERE batch_id = %s", batch_id)[0]
    return dict(zip(columns, row, strict=True))


def execute(loading: Loading, statement: str) -> None:
    """One statement, committed."""
    connection = psycopg2.connect(loading.url)
    with connection, connection.cursor() as cursor:
        cursor.execute(statement)
    connection.close()
