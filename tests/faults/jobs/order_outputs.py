"""Define the outputs that orders are loaded into: one of each kind of sink. The same rows arrive in each of them."""

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

PRICE_LIMIT = 1000
UNDO_BATCHES = 6
"""Batches that a pipeline with a state can rewind after upkeep."""

_TARGET = """\
CREATE SCHEMA IF NOT EXISTS orders;
CREATE TABLE {table} (
    id bigint NOT NULL,
    name text NOT NULL,
    price numeric(14, 4) CHECK (price < {limit}),
    item integer NOT NULL,
    note text,
    kafka_topic_id uuid{required},
    kafka_partition integer{required},
    kafka_offset bigint{required},
    tideline_batch bigint NOT NULL,
    PRIMARY KEY ({key})
);
"""
_PLACE = "kafka_topic_id, kafka_partition, kafka_offset"
# The checker reads rows in the order of their places, and this table's own key is another one.
_INDEX = f"CREATE INDEX ON {{table}} ({_PLACE});\n"


class Sink(StrEnum):
    """What the rows are written to."""

    APPEND = "appended table"
    UPSERT = "upserted table"
    TOPIC = "topic"
    LAKE = "Delta table"
    FOLDED = "table of a processor with a state"


IN_TURN = tuple(Sink)
OUTSIDE = frozenset({Sink.TOPIC, Sink.LAKE})


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """The output of one pipeline."""

    pipeline: str
    sink: Sink
    lakes: Path
    """The folder of the Delta tables."""
    has_letters: bool = False
    """Whether rejects are sent to a topic too."""

    @property
    def is_outside(self) -> bool:
        """Return whether it is outside of the ledger's database."""
        return self.sink in OUTSIDE

    @property
    def table(self) -> str:
        """Return the table of its rows. For an outside sink it is a copy of what readers of the output see."""
        return f"orders.{self.pipeline}"

    @property
    def watched(self) -> str | None:
        """Return the table that changes with each published batch; None for an outside sink."""
        return None if self.is_outside else self.table

    @property
    def topic(self) -> str:
        """Return the output topic."""
        return f"{self.pipeline}_out"

    @property
    def letters(self) -> str:
        """Return the topic of rejects."""
        return f"{self.pipeline}_rejects"

    @property
    def lake(self) -> str:
        """Return the folder of the Delta table."""
        return str(self.lakes / self.pipeline)

    def section(self) -> dict[str, object]:
        """Return the section `sink` of the declaration."""
        match self.sink:
            case Sink.APPEND | Sink.FOLDED:
                return {"table": self.table, "item": "item"}
            case Sink.UPSERT:  # by what distinguishes all rows, so no row replaces another one
                return {"table": self.table, "mode": "upsert", "key": ["id", "item"]}
            case Sink.TOPIC:
                own = {"key": ["id"], "headers": ["name"], "item": "item", "replay": "append"}
                return {"kind": "kafka", "topic": self.topic, **own}
            case Sink.LAKE:
                return {"kind": "delta", "path": self.lake, "item": "item"}

    def state(self) -> dict[str, object]:
        """Return the section `state`, by name; nothing if there is none."""
        if self.sink is not Sink.FOLDED:
            return {}
        columns = {"first": "bigint", "records": "bigint"}
        return {"state": {"key": "lane", "columns": columns, "event_time": "at", "undo_batches": UNDO_BATCHES}}

    def target(self) -> str | None:
        """Return the text of target.sql; None for an outside sink, which has no such file."""
        if self.is_outside:
            return None
        upserts = self.sink is Sink.UPSERT
        text = _TARGET + (_INDEX if upserts else "")
        return text.format(
            table=self.table,
            limit=PRICE_LIMIT,
            required=" NOT NULL" if upserts else "",
            key="id, item" if upserts else f"{_PLACE}, item",
        )
