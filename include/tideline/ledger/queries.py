"""Read the ledger for people and programs. Rows are dictionaries, whose keys are the columns of the query.

Read-only: takes no locks, changes nothing, queries no broker. Called by the command line, the page, the lineage and the job, never by the flow.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from psycopg2.errors import ReadOnlySqlTransaction

from tideline.domain.schemas import Part, Schema
from tideline.ledger.connection import Ledger
from tideline.ledger.database_errors import written_while_reading
from tideline.ledger.schemas import schema_of

Row = dict[str, Any]


@contextmanager
def reading(ledger: Ledger) -> Iterator[None]:
    """Run the queries inside the block on one snapshot of the ledger, so that two lists of one page never contradict each other.

    Raises:
        FatalError: One of them writes, such as a view that calls a function or locks rows. On a primary too it would be refused again.
    """
    with ledger.transaction():
        ledger.run("begin_reading")
        try:
            yield
        except ReadOnlySqlTransaction as error:
            raise written_while_reading(error) from error


def names(ledger: Ledger) -> list[str]:
    """Return the names of all pipelines that have ever planned."""
    return [row["pipeline"] for row in ledger.rows("view_pipeline_names")]


def retired(ledger: Ledger) -> set[str]:
    """Return the names of the pipelines that a decision has taken out of sight. One that a folder declares is shown nevertheless."""
    return {row["pipeline"] for row in ledger.rows("view_pipeline_names") if row["retired_at"]}


def pipelines(ledger: Ledger) -> list[Row]:
    """Return every pipeline that has ever planned, with the numbers of its streams and unfinished batches."""
    return _dicts(ledger.rows("view_pipelines"))


def streams(ledger: Ledger, pipeline: str) -> list[Row]:
    """Return the streams of a pipeline, including retired ones."""
    return _dicts(ledger.rows("view_streams", pipeline=pipeline))


def recent(ledger: Ledger, *, n_batches: int) -> list[Row]:
    """Return the newest batch of every pipeline, and the records that its newest batches have read and rejected."""
    return _dicts(ledger.rows("view_recent", n_batches=n_batches))


def cells(ledger: Ledger, pipeline: str, stretches: dict[int, tuple[int, int]], *, n_cells: int) -> list[Row]:
    """Return what accounts for stretches of streams, each cut into at most `n_cells` cells: a row for each, with arrays that hold its cells."""
    starts, ends = ([stretch[edge] for stretch in stretches.values()] for edge in (0, 1))
    return _dicts(
        ledger.rows(
            "view_cells", pipeline=pipeline, stream_ids=list(stretches), starts=starts, ends=ends, n_cells=n_cells
        )
    )


def stretch(ledger: Ledger, stream_id: int, start: int, end: int, *, limit: int) -> list[Row]:
    """Return the batches and holes that account for a stretch of one stream."""
    return _dicts(ledger.rows("view_stretch", stream_id=stream_id, start=start, end=end, limit=limit))


def throughput(ledger: Ledger, pipeline: str, *, limit: int) -> list[Row]:
    """Return the newest published batches, oldest first, with their duration and the records that were left after them."""
    return _dicts(ledger.rows("view_throughput", pipeline=pipeline, limit=limit))


def run(ledger: Ledger, dag_id: str, run_id: str) -> list[Row]:
    """Return the batches that a DAG run was given."""
    return _dicts(ledger.rows("view_run", dag_id=dag_id, run_id=run_id))


def decisions(ledger: Ledger, pipeline: str, *, limit: int) -> list[Row]:
    """Return the newest events that have a reason, newest first: what people have decided, and what followed at once."""
    return _dicts(ledger.rows("view_decisions", pipeline=pipeline, limit=limit))


def batches(
    ledger: Ledger, pipeline: str, *, state: str | None = None, kind: str | None = None, limit: int = 20
) -> list[Row]:
    """Return the newest batches, with their counts summed over their ranges."""
    return _dicts(ledger.rows("view_batches", pipeline=pipeline, state=state, kind=kind, limit=limit))


def batch(ledger: Ledger, batch_id: int) -> Row | None:
    """Return one batch with `ranges`, `owns`, `attempts`, `schemas`, undeclared `fields` and `events`; None if there is no such batch."""
    found = ledger.row("view_batch", batch_id=batch_id)
    if found is None:
        return None
    return {
        **found,
        "ranges": _dicts(ledger.rows("view_batch_ranges", batch_id=batch_id)),
        "owns": _dicts(ledger.rows("view_batch_owned", batch_id=batch_id)),
        "attempts": attempts(ledger, batch_id),
        "schemas": _dicts(ledger.rows("view_batch_schemas", batch_id=batch_id)),
        "fields": _dicts(ledger.rows("view_batch_fields", batch_id=batch_id)),
        "events": _dicts(ledger.rows("view_batch_events", batch_id=batch_id)),
    }


def used_schemas(ledger: Ledger, pipeline: str, registry: str) -> list[tuple[Part, int, Schema]]:
    """Return the schemas of a registry that batches of a pipeline have used: the part of the records, the id, and the schema."""
    rows = ledger.rows("view_used_schemas", pipeline=pipeline, registry=registry)
    return [(row["part"], row["schema_id"], schema_of(row)) for row in rows]


def attempts(ledger: Ledger, batch_id: int) -> list[Row]:
    """Return the attempts of a batch, with what their heartbeats have recorded."""
    return _dicts(ledger.rows("view_batch_attempts", batch_id=batch_id))


def coverage(ledger: Ledger, pipeline: str) -> list[Row]:
    """Return, for each stream, what accounts for its offsets; `missing` holds those that nothing accounts for."""
    return _dicts(ledger.rows("view_coverage", pipeline=pipeline))


def holes(ledger: Ledger, pipeline: str) -> list[Row]:
    """Return the offsets that were skipped or lost, with the reason and the name of the decider."""
    return _dicts(ledger.rows("view_holes", pipeline=pipeline))


def reject_reasons(
    ledger: Ledger, pipeline: str, *, batch_id: int | None = None, reason_like: str | None = None, limit: int = 20
) -> list[Row]:
    """Return how many records were rejected for each reason."""
    return _dicts(
        ledger.rows("view_reject_reasons", pipeline=pipeline, batch_id=batch_id, reason_like=reason_like, limit=limit)
    )


def rejects(
    ledger: Ledger, pipeline: str, *, batch_id: int | None = None, reason_like: str | None = None, limit: int = 20
) -> list[Row]:
    """Return rejected records, with key, value and headers as `bytes`."""
    found = _dicts(
        ledger.rows("view_rejects", pipeline=pipeline, batch_id=batch_id, reason_like=reason_like, limit=limit)
    )
    for row in found:
        for name in ("key", "value", "headers"):
            row[name] = None if row[name] is None else bytes(row[name])  # the driver returns a memoryview
    return found


def state(ledger: Ledger, pipeline: str) -> list[Row]:
    """Return, for each stream of a stateful pipeline, how far it is folded and what it keeps."""
    return _dicts(ledger.rows("view_state", pipeline=pipeline))


def key_history(ledger: Ledger, pipeline: str, keys: list[str]) -> list[Row]:
    """Return the states of keys after each batch that has changed them, newest first, as far back as undo is kept."""
    return _dicts(ledger.rows("view_key", pipeline=pipeline, state_keys=keys))


def _dicts(rows: list[Any]) -> list[Row]:
    return [dict(row) for row in rows]


def output_columns(ledger: Ledger, table: str) -> list[tuple[str, str]]:
    """Return the names and types of an output table's columns, in order; nothing if there is no such table."""
    with ledger.transaction():
        return [(row["name"], row["type"]) for row in ledger.rows("view_output_columns", output=table)]
