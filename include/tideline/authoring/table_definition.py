"""Describe the table of a parsed CREATE TABLE, as far as a load depends on it."""

from collections.abc import Iterator, Sequence

from sqlglot import exp

from tideline.authoring import column_types
from tideline.authoring.column_types import identifier
from tideline.authoring.created_types import created_types
from tideline.authoring.statements import Statement
from tideline.sinks.postgres.fitting import Described


def described(create: Statement, found: Sequence[Statement]) -> Described:
    """Return the columns and keys of a table.

    Args:
        create: The statement that creates it, which was parsed.
        found: All statements of the file, which may add unique indexes and partitions.
    """
    parsed = create.parsed
    schema = parsed.this if parsed else exp.Schema()
    primary = [_names(key.expressions) for key in schema.find_all(exp.PrimaryKey)]
    of_primary = {name for key in primary for name in key}
    definitions = [part for part in schema.expressions if isinstance(part, exp.ColumnDef)]
    types = created_types(found)
    columns = [
        column_types.described(one, create.text, types, in_key=identifier(one.this) in of_primary)
        for one in definitions
    ]
    keys = [
        *primary,
        *(_names(key.this.expressions) for key in schema.find_all(exp.UniqueColumnConstraint) if key.this),
        *([identifier(one.this)] for one in definitions if _is_key(one)),
        *_unique_indexes(_table(schema), found),
    ]
    by = [*_partitioned_by(found)]
    return Described(
        columns={column.name: column for column in columns},
        keys=keys,
        partition_keys=[(key, by) for key in keys] if by else (),
    )


def _table(statement: exp.Expr) -> str | None:
    """Return the table of a statement, without its schema; None if it names none."""
    table = statement.find(exp.Table)
    return identifier(table.this) if table else None


def _names(parts: Sequence[exp.Expr]) -> list[str]:
    """Return the names of the columns of a key; an empty one for an expression."""
    plain = [part.this if isinstance(part, exp.Ordered) else part for part in parts]
    plain = [part.this if isinstance(part, exp.Column) else part for part in plain]
    return [identifier(part) if isinstance(part, exp.Identifier) else "" for part in plain]


def _is_key(definition: exp.ColumnDef) -> bool:
    kinds = (exp.PrimaryKeyColumnConstraint, exp.UniqueColumnConstraint)
    return any(isinstance(constraint.kind, kinds) for constraint in definition.constraints)


def _unique_indexes(table: str | None, found: Sequence[Statement]) -> Iterator[list[str]]:
    for one in found:
        create = one.parsed
        if isinstance(create, exp.Create) and create.args.get("unique") and _table(create) == table:
            index = create.find(exp.IndexParameters)
            if index and not index.args.get("where"):
                yield _names(index.args.get("columns") or ())


def _partitioned_by(found: Sequence[Statement]) -> Iterator[str]:
    """Yield the columns that the table is partitioned by, on all levels: a partition may be partitioned itself."""
    for one in found:
        for partitioning in one.parsed.find_all(exp.PartitionedByProperty) if one.parsed else ():
            yield from (identifier(part.this) for part in partitioning.this.expressions if isinstance(part, exp.Column))
