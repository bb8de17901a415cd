"""The section `state`: what a stateful pipeline keeps for each key, and how long it can go back."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from tideline.declaration.sections import AboveZero, Columns, MistakeBelow, Section, Text, ZeroOrAbove
from tideline.declaration.source import ColumnType

_MAX_BYTES = 16 << 20
_MAX_AHEAD = 100 * 366 * 24 * 60
"""A hundred years in minutes: so much can be added to any time."""


class Stateful(Section):
    """What is kept for each key between batches."""

    key: Text | Annotated[Columns, Field(min_length=1)] = Field(
        title="The columns whose values are the key of a record",
        description="a column name, or a list of different ones",
    )
    columns: Annotated[Mapping[Text, ColumnType], Field(min_length=1)] = Field(
        title="The columns of the state of a key", description="column names with Spark SQL types, at least one"
    )
    event_time: Text | None = Field(
        default=None,
        title="The timestamp column that says when a record happened; by default the timestamp of the Kafka record",
        description="a column name, or null",
    )
    lateness_minutes: ZeroOrAbove = Field(
        default=0,
        title="How many minutes the watermark of a stream is behind its largest event time",
        description="an integer, 0 or above",
    )
    ahead_minutes: Annotated[int, Field(gt=0, le=_MAX_AHEAD)] = Field(
        default=60,
        title="How many minutes the event time of a record may be after its Kafka timestamp, and after the time at which it was first planned",
        description=f"an integer from 1 to {_MAX_AHEAD}",
    )
    late: Literal["reject", "process"] = Field(
        default="reject",
        title="What becomes of a record whose event time is before the watermark at which its batch begins",
        description="reject or process",
    )
    on_gap: Literal["keep", "reset"] = Field(
        default="keep",
        title="Whether the keys of a stream keep their states, or begin anew, where offsets were skipped or lost",
        description="keep or reset",
    )
    undo_batches: AboveZero = Field(
        default=500, title="How many batches can be rewound", description="an integer above 0"
    )
    max_bytes: Annotated[int, Field(gt=0, le=_MAX_BYTES)] = Field(
        default=65_536,
        title="The most bytes that the state of one key has as JSON",
        description=f"an integer from 1 to {_MAX_BYTES}",
    )
    renamed: Mapping[Text, Text] = Field(
        default={},
        title="For each column that had another name: the name that stored states know it by",
        description="new column names with the old ones",
    )

    @model_validator(mode="after")
    def _renamed_fits(self) -> Self:
        for new, old in self.renamed.items():
            if new not in self.columns:
                raise MistakeBelow(("renamed", new), f"expected one of state.columns, found {new!r}")
            if old in self.columns:
                raise MistakeBelow(
                    ("renamed", new),
                    f"expected a name that is no column any more, found {old!r}, which state.columns has",
                )
        if len(set(self.renamed.values())) < len(self.renamed):
            raise MistakeBelow(("renamed",), "expected a different old name for each column")
        return self

    @property
    def key_columns(self) -> tuple[str, ...]:
        """Return the columns of the key, in order."""
        return (self.key,) if isinstance(self.key, str) else self.key

    @property
    def lateness(self) -> timedelta:
        """Return how far the watermark is behind the largest event time."""
        return timedelta(minutes=self.lateness_minutes)

    @property
    def ahead(self) -> timedelta:
        """Return how far the event time of a record may be ahead."""
        return timedelta(minutes=self.ahead_minutes)
