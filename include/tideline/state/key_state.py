"""One key while it is folded: calls the processor, checks what it has done to the state, and undoes that where it does not fit."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

import orjson

from tideline.domain.columns import SimpleType
from tideline.domain.reject_reasons import of_error
from tideline.errors import FatalError
from tideline.processors import State
from tideline.state.keys import key_reader
from tideline.state.rules import Rules
from tideline.state.typed_values import MisfitError, fit, fit_columns, or_null, restore_columns, write_columns

_SMALL = 4096
"""Bytes of JSON up to which the value of a state is kept beside it. As Python objects it takes five times as much, and a task holds thousands."""
MOST_EXPIRIES = 10_000
"""How many timers of a key may come one after the other without a record. A processor with more of them moves its timer by too little."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """The state of a key, as the ledger keeps it."""

    stream_id: int
    stream: str
    """Topic and partition, as in `orders/3`."""
    value: str | bytes
    """The columns as JSON."""
    expires_at: datetime | None
    offset: int
    """Of the last record that was folded into it."""


class Row(NamedTuple):
    """One output row."""

    stream_id: int
    offset: int
    """Of the record that made the row; of the last folded record of the key, if a timer has made it."""
    has_expired: bool
    """Whether a timer has made it."""
    values: dict[str, Any]


class Kept(NamedTuple):
    """The state of a key after it was folded. Without a value nothing is kept any more."""

    key: str
    stream_id: int
    offset: int
    value: bytes | None
    expires_at: datetime | None


class Snapshot(NamedTuple):
    """What of a key is restored if the record is rejected that has made its timer come."""

    stream_id: int
    stream: str
    offset: int
    json: bytes | None
    expires_at: datetime | None
    is_touched: bool


class Typed:
    """The checks and conversions of one pipeline's states, keys and rows."""

    def __init__(self, rules: Rules) -> None:
        self.fit: Callable[[Any], dict[str, Any]] = fit_columns(rules.columns)
        self.restore: Callable[[Any], dict[str, Any]] = restore_columns(rules.columns, rules.former)
        self.write = write_columns(rules.columns)
        self.moment: Callable[[Any], datetime | None] = or_null(fit(SimpleType("timestamp")))
        self.row: Callable[[Any], dict[str, Any]] = fit_columns(rules.rows)
        self.key = key_reader(tuple(rules.key.values()))


class KeyState:
    """The state of one key, from the records before it to those after it."""

    def __init__(self, rules: Rules, typed: Typed, key: str, stored: Stored | None) -> None:
        self.key = key
        self.stream_id = stored.stream_id if stored else 0
        self.stream = stored.stream if stored else ""
        self.expires_at = stored.expires_at if stored else None
        self.is_touched = False
        self._rules = rules
        self._typed = typed
        self._author_key = typed.key(key)
        self._offset = stored.offset if stored else 0
        self._was_kept = stored is not None
        self._json = None if stored is None else _bytes(stored.value)
        self._value: dict[str, Any] | None = None
        self._is_fresh = False
        """Whether `_value` is what `_json` holds. A processor changes it in place, and may then raise."""

    @property
    def is_kept(self) -> bool:
        """Return whether something is kept for the key."""
        return self._json is not None

    def is_due(self, at: datetime) -> bool:
        """Return whether the timer of the key has come at an event time."""
        return self.expires_at is not None and self.expires_at <= at

    def snapshot(self) -> Snapshot:
        """Return the key as it is now."""
        return Snapshot(self.stream_id, self.stream, self._offset, self._json, self.expires_at, self.is_touched)

    def restore(self, before: Snapshot) -> None:
        """Make the key what it was at a snapshot."""
        self.stream_id, self.stream, self._offset, self._json, self.expires_at, self.is_touched = before
        self._is_fresh = False

    def on_record(self, record: dict[str, Any], stream_id: int, stream: str, offset: int) -> list[Row]:
        """Fold one record, and return its rows.

        Raises:
            Exception: The processor has raised, or its state or a row does not fit. The state is as before.
        """
        state = State(self._taken(), self.expires_at)
        rows = self._rows(self._rules.processor.on_record(self._author_key, record, state))
        self._keep(state.value, state.expires_at)
        self.stream_id, self.stream, self._offset = stream_id, stream, offset
        return [Row(stream_id, offset, False, row) for row in rows]

    def expire(self, until: datetime) -> Iterator[Row]:
        """Let each timer of the key come that is not after `until`, and yield the rows.

        Raises:
            FatalError: The processor has raised, its state or a row does not fit, or its timers do not move on.
        """
        n_expiries = 0
        while (fired_at := self.expires_at) is not None and fired_at <= until:
            n_expiries += 1
            try:
                rows = self._on_expiry(fired_at, n_expiries)
            except Exception as error:
                raise FatalError(
                    f"`on_expiry` of transform.py failed for key {self.key} of {self.stream} at {fired_at:%Y-%m-%dT%H:%M:%S.%fZ}, whose last "
                    f"record is at offset {self._offset}: {of_error(error)}",
                    next_step="correct transform.py and run the task again; nothing was published",
                    entry="state-cannot-be-folded",
                ) from error
            for row in rows:
                yield Row(self.stream_id, self._offset, True, row)

    def _on_expiry(self, fired_at: datetime, number: int) -> list[dict[str, Any]]:
        if number > MOST_EXPIRIES:
            raise MisfitError(f"more than {MOST_EXPIRIES} timers have come without a record between them")
        state = State(self._taken())
        rows = self._rows(self._rules.processor.on_expiry(self._author_key, state))
        if not state.is_assigned:
            state.clear()
        if state.expires_at is not None and self._typed.moment(state.expires_at) <= fired_at:  # type: ignore[operator]  # it is not None
            raise MisfitError("a new timer must be later than the one that has come")
        self._keep(state.value, state.expires_at)
        return rows

    def kept(self) -> Kept | None:
        """Return the state of the key; None if there was none and is none."""
        if not self.is_touched or not (self._was_kept or self.is_kept):
            return None
        return Kept(self.key, self.stream_id, self._offset, self._json, self.expires_at)

    def _taken(self) -> dict[str, Any] | None:
        """Return the value for the processor to change."""
        fresh, self._is_fresh = self._is_fresh, False
        if fresh:
            return self._value
        return None if self._json is None else self._typed.restore(orjson.loads(self._json))

    def _rows(self, given: Any) -> list[dict[str, Any]]:
        """Run a generator to its end, and return rows that fit."""
        return [] if given is None else [self._typed.row(row) for row in given]

    def _keep(self, value: Any, expires_at: Any) -> None:
        """Keep what a processor has set.

        Raises:
            MisfitError: It does not fit. Nothing was changed.
        """
        try:
            moment = self._typed.moment(expires_at)
        except MisfitError as error:
            raise MisfitError(f"state.expires_at: {error}") from None
        try:
            # A timer without a value keeps a value without anything in it, so that a key is kept if and only if it has a value.
            columns = None if value is None and moment is None else self._typed.fit({} if value is None else value)
        except MisfitError as error:
            raise MisfitError(f"state.value: {error}") from None
        as_bytes = None if columns is None else self._typed.write(columns)
        if as_bytes is not None and len(as_bytes) > self._rules.max_bytes:
            raise MisfitError(
                f"the state would have {len(as_bytes)} bytes, more than the {self._rules.max_bytes} of state.max_bytes"
            )
        self._json, self.expires_at, self.is_touched = as_bytes, moment, True
        self._is_fresh = as_bytes is None or len(as_bytes) <= _SMALL
        self._value = columns if self._is_fresh else None


def _bytes(text: str | bytes) -> bytes:
    return text.encode() if isinstance(text, str) else text
