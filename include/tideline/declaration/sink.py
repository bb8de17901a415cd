"""The section `sink`: where the rows go. `kind` chooses one of several sections, each with its own keys."""

from typing import Annotated, Any, Literal, Self

from pydantic import Discriminator, Field, Tag, model_validator

from tideline.declaration.delta import DeltaSink
from tideline.declaration.kafka_sink import KafkaSink
from tideline.declaration.sections import Evolve, MistakeBelow, Name, Names, OutputSection, Section

MARKS = "__deleted"
"""What follows the name of an upsert table in the name of the table of its deleted keys."""
MAX_NAME = 63
"""The most characters of a name in Postgres."""
UNKNOWN_KIND = "sink_kind"
"""The type of the mistake of a kind that does not exist."""
_KIND = "one of postgres, kafka, delta"


class PostgresSink(OutputSection):
    """A table in the ledger's database."""

    kind: Literal["postgres"] = Field(default="postgres", title="What the rows are written to", description=_KIND)
    table: Annotated[str, Field(pattern=r"^[a-z_][a-z0-9_]{0,62}\.[a-z_][a-z0-9_]{0,62}$")] = Field(
        title="The target table", description="schema.table in lower case"
    )
    item: Name | None = Field(
        default=None,
        title="The column that distinguishes the rows of one record, where a record can become several rows",
        description="a column name in lower case",
    )
    shared: bool = Field(
        default=False,
        title="Whether other pipelines write this table too; each of them must set this key",
        description="true or false",
    )
    unlogged: bool = Field(
        default=False,
        title="Whether the table may be UNLOGGED: a crash of the server empties it, and the ledger does not notice",
        description="true or false",
    )
    mode: Literal["append", "upsert"] = Field(
        default="append",
        title="Whether each record is a row of its own, or the table holds the newest record of each key",
        description="append or upsert",
    )
    key: Names = Field(
        default=(),
        title="The columns of the table's primary key; required with mode upsert, and only there",
        description="a list of different column names of letters, digits and _",
    )
    order: Names = Field(
        default=(),
        title="The columns that say which of two records of a key is newer, before topic and offset do; only with mode upsert",
        description="a list of different column names of letters, digits and _",
    )

    evolve: Evolve = "none"

    @model_validator(mode="after")
    def _upsert_fits(self) -> Self:
        if self.mode == "upsert":
            if not self.key:
                raise ValueError("expected the key `key` with mode upsert: the columns of the table's primary key")
            if len(self.table.split(".")[1]) > MAX_NAME - len(MARKS):
                raise MistakeBelow(
                    ("table",),
                    f"expected a table name of at most {MAX_NAME - len(MARKS)} characters with mode upsert, found {self.table!r}",
                )
            if self.item:
                raise MistakeBelow(
                    ("item",), "expected no item with mode upsert: sink.key distinguishes the rows of one record"
                )
            if both := sorted({*self.key} & {*self.order}):
                raise MistakeBelow(
                    ("order",), f"expected other columns than those of sink.key, found {', '.join(both)} in both"
                )
        for name in ("key", "order"):
            if self.mode == "append" and getattr(self, name):
                raise MistakeBelow((name,), f"expected {name} only with mode upsert, found mode append")
        return self

    @property
    def output(self) -> str:
        """Return what people call the output, for messages."""
        return self.table

    @property
    def adds_columns(self) -> bool:
        """See `OutputSection`."""
        return self.evolve == "add"

    @property
    def newest_wins(self) -> bool:
        """See `OutputSection`."""
        return self.mode == "upsert"

    @property
    def newest_by_offset(self) -> bool:
        """See `OutputSection`."""
        return self.newest_wins and not self.order

    @property
    def marks(self) -> str | None:
        """See `OutputSection`."""
        return f"{self.table}{MARKS}" if self.newest_wins else None


KINDS: dict[str, type[Section]] = {"postgres": PostgresSink, "kafka": KafkaSink, "delta": DeltaSink}


def kind_of(section: Any) -> str | None:
    """Return the kind of a declared section, `postgres` if it names none; None if there is no such kind."""
    kind = section.get("kind", "postgres") if isinstance(section, dict) else getattr(section, "kind", "postgres")
    return kind if isinstance(kind, str) and kind in KINDS else None


Sink = Annotated[
    Annotated[PostgresSink, Tag("postgres")] | Annotated[KafkaSink, Tag("kafka")] | Annotated[DeltaSink, Tag("delta")],
    Discriminator(
        kind_of,
        custom_error_type=UNKNOWN_KIND,
        custom_error_message=_KIND,
    ),
]
