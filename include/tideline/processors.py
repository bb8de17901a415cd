"""What the `transform.py` of a stateful pipeline imports: `from tideline.processors import Processor, State`.

from datetime import timedelta
from tideline.processors import Processor

class Visits(Processor):
    rows = {"user_id": "string", "clicks": "bigint"}

    def on_record(self, key, record, state):
        clicks = state.value["clicks"] if state.value else 0
        state.value = {"clicks": clicks + 1}
        state.expires_at = record["at"] + timedelta(minutes=30)

    def on_expiry(self, key, state):
        yield {"user_id": key, "clicks": state.value["clicks"]}


processor = Visits()
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, ClassVar

import pyarrow as pa

__all__ = ["Processor", "State"]

Rows = Iterable[Mapping[str, Any]] | None
"""Output rows, each with its columns by name. A column that is left out is null."""


class State:
    """The state of one key, as `on_record` and `on_expiry` see and change it."""

    __slots__ = ("_expires_at", "_value", "is_assigned")

    def __init__(self, value: dict[str, Any] | None = None, expires_at: datetime | None = None) -> None:
        self._value = value
        self._expires_at = expires_at
        self.is_assigned = False
        """Whether value or timer were assigned. The engine asks this after `on_expiry`."""

    @property
    def value(self) -> dict[str, Any] | None:
        """Return the declared columns by name, each null where it was not set; None if nothing is kept for the key."""
        return self._value

    @value.setter
    def value(self, value: dict[str, Any] | None) -> None:
        self._value = value
        self.is_assigned = True

    @property
    def expires_at(self) -> datetime | None:
        """Return the event time at which `on_expiry` is called; None for never."""
        return self._expires_at

    @expires_at.setter
    def expires_at(self, expires_at: datetime | None) -> None:
        self._expires_at = expires_at
        self.is_assigned = True

    def clear(self) -> None:
        """Keep nothing for the key: no value and no timer."""
        self.value = None
        self.expires_at = None


class Processor(ABC):
    """Folds the records of each key into a state, and returns rows.

    The same records must give the same rows and states each time: an attempt that fails is repeated. So a processor
    keeps nothing in itself but its reference tables, and reads no clock. `state` is all that it remembers.
    """

    rows: ClassVar[Mapping[str, str]]
    """The columns of the rows, with types as in the declaration, such as `bigint` or `decimal(12,2)`."""
    tables: ClassVar[Mapping[str, str]] = {}
    """The reference tables that `open` is given, as `schema.table` of the ledger's database, by a name for each."""

    def open(self, tables: Mapping[str, pa.Table]) -> None:  # noqa: B027 - a processor without reference tables needs none
        """Keep what `on_record` and `on_expiry` look up. Called in each task before anything is folded.

        The tables are read once for each attempt, at one moment, so all its tasks see the same rows. They are not part
        of the state: a batch that is loaded again after a rewind sees those of that day.

        Args:
            tables: The rows of `tables`, by the same names. `to_pylist()` returns them as dicts.
        """

    @abstractmethod
    def on_record(self, key: Any, record: dict[str, Any], state: State) -> Rows:
        """Fold one record of a key into its state, and return or yield rows.

        If it raises, the record becomes a reject, and the state is as before.

        Args:
            key: The value of the key's column; a tuple of values if `state.key` names several.
            record: The columns of the record, and `kafka` with its topic, partition, offset, timestamp and headers.
            state: The state of the key. It may be changed in place.
        """

    def on_expiry(self, key: Any, state: State) -> Rows:  # noqa: B027 - most processors without a timer need none
        """Return or yield rows when the event time of `state.expires_at` has come. The state is kept only if its value or its timer is assigned.

        A new timer must be later than the one that has come. If this raises, the batch fails.

        Args:
            key: As for `on_record`.
            state: The state of the key, without its timer.
        """
