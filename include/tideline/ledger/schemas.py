"""Keep the schemas that records name by an id of a registry, and which of them an attempt has used.

Called by tasks of Spark, before they stage a row.
"""

from collections.abc import Mapping, Sequence
from uuid import UUID

from psycopg2.extras import DictRow

from tideline.domain.schemas import Part, Reference, Schema
from tideline.ledger.connection import Ledger


def use_schemas(
    ledger: Ledger, attempt: UUID, part: Part, registry: str, schema_ids: Sequence[int]
) -> dict[int, Schema]:
    """Return the kept schemas of these ids, as the pipeline of the attempt has found them in its registry, and record that it uses them."""
    bound = {"attempt": attempt, "part": part, "registry": registry, "schema_ids": list(schema_ids)}
    with ledger.transaction():
        found = ledger.rows("use_schemas", **bound)
    return {row["schema_id"]: schema_of(row) for row in found}


def schema_of(row: DictRow) -> Schema:
    """Return the schema of a row with its `kind`, `schema`, `reference_names`, `reference_texts` and `subjects`."""
    return Schema(
        kind=row["kind"],
        text=row["schema"],
        references=tuple(map(Reference, row["reference_names"], row["reference_texts"])),
        subjects=tuple(row["subjects"]),
    )


def keep_schemas(ledger: Ledger, attempt: UUID, registry: str, schemas: Mapping[int, Schema]) -> None:
    """Keep what ids mean to the pipeline of the attempt. One that is kept already, by another task, stays as it is."""
    with ledger.transaction():
        for schema_id, schema in sorted(schemas.items()):
            ledger.rows(
                "keep_schema",
                attempt=attempt,
                registry=registry,
                schema_id=schema_id,
                kind=schema.kind,
                schema=schema.text,
                reference_names=[one.name for one in schema.references],
                reference_texts=[one.text for one in schema.references],
                subjects=list(schema.subjects),
            )
