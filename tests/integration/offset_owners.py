"""Queries for the owners of a pipeline's offsets and for its output, shared by the tests of replay, backfill and re-drive."""

from typing import Any

from loading import Loading
from tideline.domain.requests import NamedRange, Ranges

# Changes each record's name, so that the output shows which transform has written it.
RENAMING = """\
import pyarrow as pa, pyarrow.compute as pc

def records(batch):
    names = pc.binary_join_element_wise("new", batch["name"], " ")
    return batch.set_column(batch.schema.get_field_index("name"), "name", names)
"""


def ranges(*texts: str, replace: bool = False) -> Ranges:
    """Parse ranges as people write them."""
    return Ranges(ranges=tuple(map(NamedRange.parse, texts)), replace=replace)


def coverage(loading: Loading, partition: int = 0) -> list[tuple[int, int, int | str]]:
    """Return (start, end, batch or hole) of one partition, ascending."""
    return loading.rows(
        "SELECT lower(offsets), upper(offsets), coalesce(to_jsonb(batch_id), to_jsonb(hole)) FROM tideline.coverage"
        " JOIN tideline.stream USING (stream_id) WHERE partition = %s ORDER BY offsets",
        partition,
    )


def batches(loading: Loading) -> dict[int, tuple[str, str]]:
    """Return kind and state of each batch."""
    rows = loading.rows("SELECT batch_id, kind::text, state::text FROM tideline.batch ORDER BY batch_id")
    return {row[0]: row[1:] for row in rows}


def actions(loading: Loading, batch_id: int) -> list[str]:
    """Return the actions in a batch's history, in order."""
    rows = loading.rows("SELECT action FROM tideline.event WHERE batch_id = %s ORDER BY event_id", batch_id)
    return [row[0] for row in rows]


def owners(loading: Loading) -> dict[int, int]:
    """Return by offset the batch that each row of the output names; fail if partitions share an offset."""
    rows = loading.rows("SELECT kafka_offset, tideline_batch FROM ads.output")
    found = dict(rows)
    assert len(found) == len(rows)
    return found


def names(loading: Loading) -> dict[int, str]:
    """Return by offset the name in each row of the output; fail if an offset is there twice."""
    rows = loading.rows("SELECT kafka_offset, name FROM ads.output")
    found = dict(rows)
    assert len(found) == len(rows)
    return found


def everything(loading: Loading) -> tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]:
    """Return all columns of output and rejects except the batch, and for rejects also without attempt and time."""
    return (
        loading.rows(
            "SELECT to_jsonb(o) - 'tideline_batch' FROM ads.output o ORDER BY kafka_topic_id, kafka_partition, kafka_offset"
        ),
        loading.rows(
            "SELECT to_jsonb(r) - 'batch_id' - 'attempt_id' - 'rejected_at' FROM tideline.reject r ORDER BY stream_id, kafka_offset"
        ),
    )


def counts_of(loading: Loading, batch_id: int) -> dict[str, int]:
    """Return the sums over the ranges of one batch."""
    columns = ("n_read", "n_written", "n_rejected", "n_filtered", "n_gap")
    sums = ", ".join(f"sum({column})::int" for column in columns)
    row = loading.rows(f"SELECT {sums} FROM tideline.batch_range WHERE batch_id = %s", batch_id)[0]
    return dict(zip(columns, row, strict=True))
