"""Counts the records of three lanes. It begins with a mistake: it counts each record twice."""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tideline.processors import Processor, State

STEP = 2


def records(batch: pa.Table) -> pa.Table:
    number = batch["id"]
    return batch.append_column("lane", pc.subtract(number, pc.multiply(pc.divide(number, 3), 3)))


class Counting(Processor):
    rows = {"id": "bigint", "name": "string", "price": "decimal(12,4)"}  # noqa: RUF012 - as authors write it

    def on_record(self, key: int, record: dict[str, Any], state: State) -> Iterator[dict[str, Any]]:
        seen = (state.value["seen"] if state.value else 0) + STEP
        state.value = {"seen": seen}
        yield {"id": record["id"], "name": f"lane {key}", "price": seen}


processor = Counting()
