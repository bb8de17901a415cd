"""The processor that stateful schedules fold with. The checker does not import it: `checker.visits` folds by a loop of its own."""

from collections.abc import Iterator, Mapping
from typing import Any

from faults.visit_rules import LONG_PAUSE, PAUSE, REFUSED, SEVERAL, TOO_EXPENSIVE
from tideline.processors import Processor, State

COLUMNS = {"first": "bigint", "records": "bigint", "paid": "bigint", "shown": "int", "last": "timestamp"}
"""Of the state."""


class Visits(Processor):
    """Counts the records of a visit, and shows it after a pause.

    A record with two copies makes a row of its own; one with none ends the visit without a row.

    Args:
        refuses: Whether some names are refused.
    """

    rows = {"id": "bigint", "item": "int", "name": "string", "price": "decimal(12,4)"}  # noqa: RUF012 - as authors write it

    def __init__(self, *, refuses: bool) -> None:
        self._refuses = refuses

    def on_record(self, key: Any, record: dict[str, Any], state: State) -> Iterator[Mapping[str, Any]]:
        """Count a record."""
        value = state.value or {"first": record["id"], "records": 0, "paid": 0, "shown": 0}
        value["records"] += 1
        value["paid"] += int(record["price"] * 2)
        if record["price"] >= TOO_EXPENSIVE or (self._refuses and record["name"] == REFUSED):
            raise ValueError("the record is refused")
        if not record["copies"]:
            state.clear()
            return
        at = record["kafka"]["timestamp"]
        state.value, state.expires_at = {**value, "last": at}, at + PAUSE
        if record["copies"] > 1:
            yield {"id": record["id"], "item": 0, "name": record["name"], "price": value["paid"]}

    def on_expiry(self, key: Any, state: State) -> Iterator[Mapping[str, Any]]:
        """Show the visit."""
        value = state.value
        assert value is not None
        shown = value["shown"] + 1
        yield {"id": value["first"], "item": shown, "name": f"{key} {value['records']}", "price": value["paid"]}
        if value["records"] >= SEVERAL and shown == 1:
            state.value, state.expires_at = {**value, "shown": shown}, value["last"] + LONG_PAUSE
