"""The target table, and the staging tables that executors COPY to. `insertion` inserts staged rows into the target.

The sink guarantees that each row of a batch is in the table exactly once, or that none of them is. Two things would
break this guarantee: a table in another database than the ledger, or another program that writes rows with the same
coordinates.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import psycopg2.errors
import pyarrow as pa
from psycopg2.extras import DictRow
from psycopg2.sql import SQL, Composable, Identifier

from tideline.declaration.pipelines import Pipeline
from tideline.declaration.sink import MARKS
from tideline.errors import FatalError, RetryableError
from tideline.ledger import staged
from tideline.ledger.attempts import Attempt
from tideline.ledger.connection import Ledger
from tideline.sinks.postgres import fitting
from tideline.sinks.postgres.column_types import Column
from tideline.sinks.postgres.fitting import Described, Upsert
from tideline.sinks.staging_tables import STAGING_SCHEMA, staging_name
from tideline.statements import statement

OF_A_ROW = ("22", "23", "38", "39", "44", "54", "P0")
"""Classes of SQLSTATE that are the fault of a row and not of the server: data errors, constraints, errors of functions
in checks and triggers, and limits such as a text that is nested too deep for `jsonb`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The target table, with the columns that this pipeline fills."""

    schema: str
    table: str
    columns: tuple[Column, ...]
    """The columns that the transform produces, in its order."""
    item: str | None
    lacks: tuple[Column, ...] = ()
    """Those of the columns that the table did not have before anything was read: the batch adds them as it is published."""
    partitioned_by: tuple[str, ...] = ()
    """Columns that the table is partitioned by. They follow coordinates and item in its key."""
    deferred: tuple[tuple[str, str], ...] = ()
    """Schema and name of the table's own constraints that Postgres would check only at COMMIT."""
    referring: tuple[tuple[str, str], ...] = ()
    """Schema and name of such deferred constraints by which other tables refer to its rows."""
    refers_to_itself: bool = False
    """Whether a foreign key of the table refers to the table itself."""
    upsert: Upsert | None = None
    """How the table keeps the newest record of each key; None if each record is a row."""
    deletes: bool = False
    """Whether tombstones delete rows."""

    @property
    def name(self) -> str:
        """Return the table's name as `schema.table`, for messages."""
        return f"{self.schema}.{self.table}"

    @property
    def key_columns(self) -> tuple[Column, ...]:
        """Return the columns of the key of an upsert table, in the declared order."""
        found = {column.name: column for column in self.columns}
        return tuple(found[name] for name in self.upsert.key) if self.upsert else ()

    @property
    def order_columns(self) -> tuple[Column, ...]:
        """Return the columns that say which of two deletions is newer, in the declared order; none where only the offset does."""
        found = {column.name: column for column in self.columns}
        return tuple(found[name] for name in self.upsert.order) if self.upsert and self.deletes else ()

    @property
    def deletion_columns(self) -> tuple[Column, ...]:
        """Return what is staged and kept of a deletion. The columns of `sink.order` are null where its record does not say them."""
        return (*self.key_columns, *self.order_columns)

    @property
    def marks_table(self) -> str:
        """Return the name of the table of deleted keys."""
        return f"{self.table}{MARKS}"

    @property
    def marks(self) -> Composable:
        """Return the qualified name of the table of deleted keys for a statement."""
        return Identifier(self.schema, self.marks_table)

    @property
    def identifier(self) -> Composable:
        """Return the table's qualified name for a statement."""
        return Identifier(self.schema, self.table)


def prepare(ledger: Ledger, pipeline: Pipeline, produced: pa.Schema) -> Target:
    """Create the target table if it does not exist, and check that the columns that the transform produces fit it.

    Raises:
        FatalError: `target.sql` fails or creates another table, or columns, types or
            the key do not fit. The message names all columns that do not fit.
    """
    place = _place(pipeline)
    with ledger.transaction():
        found = fitting.kept(described(ledger, pipeline), pipeline)
        if not found.columns:
            _create(ledger, pipeline)
            found = fitting.kept(described(ledger, pipeline), pipeline)
        (laws,) = _laws(ledger, place)
    upsert, lacks = fitting.upsert_of(pipeline.table_sink), fitting.lacking(found, produced, pipeline)
    if problems := fitting.problems(found, produced, pipeline.table_sink, lacks):
        raise FatalError(
            f"{pipeline.name}: table {pipeline.table_sink.table} does not fit what the transform produces: "
            + "; ".join(problems),
            next_step=f"alter the table, or correct {pipeline.folder.name}/transform.py and target.sql; nothing was read",
            entry="table-does-not-fit",
        )
    columns = {**found.columns, **{column.name: column for column in lacks}}
    return Target(
        **place,
        columns=tuple(columns[name] for name in fitting.written(produced).names),
        lacks=lacks,
        item=pipeline.table_sink.item,
        partitioned_by=() if upsert else fitting.partitioned_by(found, pipeline.table_sink.item) or (),
        upsert=upsert,
        deletes=pipeline.source.tombstones == "delete",
        deferred=tuple((name, constraint) for name, constraint in laws["deferred"]),
        referring=tuple((name, constraint) for name, constraint in laws["referring"]),
        refers_to_itself=laws["refers_to_itself"],
    )


def described(ledger: Ledger, pipeline: Pipeline) -> Described:
    """Return what the pipeline's table has, within a transaction. It has no columns if it does not exist."""
    place = _place(pipeline)
    laws = _laws(ledger, place)
    return Described(
        columns=columns_of(ledger, place),
        keys=[row["columns"] for row in ledger.rows_of(sink_sql("list_keys"), place)],
        partition_keys=[
            (row["columns"], row["partitioned_by"]) for row in ledger.rows_of(sink_sql("list_partition_keys"), place)
        ],
        row_security=any(row["row_security"] for row in laws),
        kind=next((row["kind"] for row in laws), None),
        rules=[(name, event) for row in laws for name, event in row["rules"]],
        unlogged=[name for row in laws for name in row["unlogged"]],
        is_owned=all(row["is_owned"] for row in laws),
    )


def _place(pipeline: Pipeline) -> dict[str, str]:
    schema, table = pipeline.table_sink.table.split(".")
    return {"schema": schema, "table": table}


def _laws(ledger: Ledger, place: Mapping[str, str]) -> Sequence[DictRow]:
    """Return one row about the table; none if it does not exist."""
    return ledger.rows_of(sink_sql("describe_laws"), place)


def columns_of(ledger: Ledger, place: Mapping[str, str]) -> dict[str, Column]:
    """Return the columns of a table by name, in order; none if it does not exist."""
    rows = ledger.rows_of(sink_sql("describe_table"), place)
    return {
        row["name"]: Column(
            name=row["name"],
            type_name=row["type_name"],
            precision=row["precision"],
            scale=row["scale"],
            length=row["length"],
            digits=row["digits"],
            filled=row["filled"],
            required=row["required"],
            not_null=row["not_null"],
        )
        for row in rows
    }


def _create(ledger: Ledger, pipeline: Pipeline) -> None:
    """Run target.sql, unless another session has just done so."""
    text = (pipeline.folder / "target.sql").read_text(encoding="utf-8")
    # Of two first batches at the same time, the second waits here and then finds the table.
    ledger.rows_of(sink_sql("lock_creation"), {})
    place = _place(pipeline)
    if columns_of(ledger, place):
        return
    try:
        ledger.run_sql(SQL(text.replace("%", "%%")), {})
    except psycopg2.OperationalError:
        raise  # a fault of the server, not of the file
    except psycopg2.Error as error:
        raise FatalError(
            f"{pipeline.name}: target.sql failed: {str(error).splitlines()[0]}",
            next_step="correct target.sql",
            entry="table-does-not-fit",
        ) from error
    if not columns_of(ledger, place):
        raise FatalError(
            f"{pipeline.name}: target.sql ran, but there is no table {pipeline.table_sink.table}",
            next_step="make target.sql create the table that sink.table names",
            entry="table-does-not-fit",
        )


def create_staging(ledger: Ledger, target: Target, attempt: Attempt) -> str:
    """Create the attempt's staging table and return its name. It has the target's columns, NOT NULLs and checks, no index, and is unlogged.

    If tombstones delete rows, also create the table in which their keys are staged.
    """
    with ledger.transaction():
        return create_staging_in_transaction(ledger, target, attempt)


def create_staging_in_transaction(ledger: Ledger, target: Target, attempt: Attempt) -> str:
    """Do the same as `create_staging`, within the transaction of the caller."""
    name = staging_name(attempt)
    _create_staging(ledger, target, name, target.columns)
    if target.deletes:
        _create_staging(ledger, target, deletions_name(name), target.deletion_columns)
        nullable = [SQL("ALTER COLUMN {} DROP NOT NULL").format(quoted(one.name)) for one in target.order_columns]
        if nullable:
            staging = Identifier(STAGING_SCHEMA, deletions_name(name))
            ledger.run_sql(sink_sql("allow_nulls").format(staging=staging, nullable=SQL(", ").join(nullable)), {})
    return name


def _create_staging(ledger: Ledger, target: Target, name: str, columns: Sequence[Column]) -> None:
    kept = {*(column.name for column in columns), "kafka_offset"}
    ledger.run_sql(sink_sql("keep_columns").format(target=target.identifier), {})
    there = columns_of(ledger, {"schema": target.schema, "table": target.table})
    check_unaltered(target, columns, there)
    others = [column for column in there if column not in kept]
    added = [column for column in columns if column.name not in there]
    ledger.run_sql(
        sink_sql("create_staging").format(
            staging=Identifier(STAGING_SCHEMA, name),
            target=target.identifier,
            drop_others=SQL(", ").join(SQL("DROP COLUMN {}").format(quoted(column)) for column in others),
            add_columns=SQL("").join(
                SQL(", ADD COLUMN {} {}").format(quoted(one.name), SQL(one.sql_type)) for one in added
            ),
        ),
        {},
    )
    staged.let_stager_in(ledger, name)


def check_unaltered(target: Target, columns: Sequence[Column], there: Mapping[str, Column]) -> None:
    """Refuse rows for columns that are others now. COPY in binary form would take the bytes of one type for a value of another one.

    Raises:
        RetryableError: A column is gone, has another type, or one that the batch was to add is there with another type.
    """
    lacks = {column.name for column in target.lacks}
    for column in columns:
        found = there.get(column.name)
        if (found is None and column.name not in lacks) or (found is not None and not found.holds_the_same(column)):
            raise RetryableError(
                f"{target.name} was altered since the attempt has looked at it: expected its column {column.name} with type "
                f"{column.sql_type}, found {'no such column' if found is None else f'type {found.sql_type}'}",
                next_step="run the task again: it looks at the table anew",
                entry="table-does-not-fit",
            )


def deletions_name(staging: str) -> str:
    """Return the name of the table for the keys that an attempt deletes, beside its staging table."""
    return f"{staging}_deleted"


def sink_sql(name: str) -> SQL:
    """Return one of the sink's statements."""
    return SQL(statement("tideline.sinks.postgres", name))


def quoted(*parts: str) -> Identifier:
    """Return a column's name for a statement with parameters, in which a percent sign has to be doubled."""
    return Identifier(*(part.replace("%", "%%") for part in parts))
