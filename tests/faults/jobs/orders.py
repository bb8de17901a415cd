"""Define the pipeline that is loaded under faults: its records, its declaration, and the expected outcome of each
record.

The expected outcomes are computed from a record's bytes alone; this module imports no code under test.
"""

import json
from collections.abc import Iterator
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from random import Random

from faults.checker.facts import FILTERED, REJECTED, WRITTEN, Expected, Record
from faults.jobs.order_outputs import PRICE_LIMIT, Output

COLUMNS = ("id", "name", "price", "item", "note")
"""Columns of the output that are compared, in the order of `expected`."""

_DECLARED = {"id": "bigint", "name": "string", "price": "decimal(14,4)", "lines": "int", "note": "string"}
# All give the same rows: one in the executors' Python, one as a Spark plan that needs the whole batch, and one with a state. A lane has every tenth
# offset of a partition, so its timer comes when one of them is left out. The offset is the event time: it never goes back.
_TRANSFORMS = {
    "records": """\
import pyarrow as pa
import pyarrow.compute as pc

PRICE = pa.decimal128(14, 4)


def records(batch):
    kept = batch.filter(pc.not_equal(batch["name"], "not this one"))
    twice = kept.filter(pc.equal(kept["lines"], 2))
    return pa.concat_tables([numbered(kept, 0), numbered(twice, 1)])


def numbered(table, item):
    dearer = pc.add(table["price"], pa.scalar(item, pa.decimal128(1, 0))).cast(PRICE)
    table = table.set_column(table.schema.get_field_index("price"), "price", dearer).drop(["lines"])
    return table.append_column("item", pa.repeat(pa.scalar(item, pa.int32()), len(table)))
""",
    "frame": """\
from pyspark.sql import functions


def frame(df):
    lines = functions.sequence(functions.lit(0), functions.col("lines") - 1)
    both = df.where("name <> 'not this one'").withColumn("item", functions.explode(lines))
    return both.withColumn("price", functions.expr("cast(price + item AS decimal(14,4))")).drop("lines")
""",
    "processor": """\
from datetime import timedelta

import pyarrow as pa
import pyarrow.compute as pc

from tideline.processors import Processor

LIMIT = 1000


def records(batch):
    kept = batch.filter(pc.not_equal(batch["name"], "not this one"))
    offset, partition = (pc.struct_field(kept["kafka"], name) for name in ("offset", "partition"))
    of_ten = pc.subtract(offset, pc.multiply(pc.divide(offset, 10), 10))
    at = pc.multiply(offset, 1_000_000).cast(pa.timestamp("us", "UTC"))
    kept = kept.append_column("lane", pc.add(pc.multiply(partition.cast(pa.int64()), 100), of_ten))
    return kept.append_column("at", at)


class Lanes(Processor):
    rows = {"id": "bigint", "name": "string", "price": "decimal(14,4)", "item": "int", "note": "string"}

    def on_record(self, key, record, state):
        value = state.value or {"first": record["id"], "records": 0}
        value["records"] += 1
        state.value, state.expires_at = value, record["at"] + timedelta(seconds=15)
        if record["price"] + record["lines"] - 1 >= LIMIT:
            raise ValueError("too expensive")
        for item in range(record["lines"]):
            yield {**{name: record[name] for name in ("id", "name", "note")}, "price": record["price"] + item, "item": item}

    def on_expiry(self, key, state):
        yield {"id": state.value["first"], "name": "a run", "price": state.value["records"], "item": -1}


processor = Lanes()
""",
}
SILENCE = timedelta(seconds=15)
"""After it the timer of a lane comes."""


def declare(
    folder: Path,
    topic: str,
    output: Output,
    *,
    transform: str = "records",
    gaps: str = "refused",
    limits: dict[str, int],
) -> None:
    """Write the folder of a pipeline; the pipeline has the folder's name.

    Args:
        folder: A new folder below the folder of the pipelines.
        topic: The source topic.
        output: What the rows are written to.
        transform: `records` or `frame`, or `processor` for an output with a state; all give the same rows.
        gaps: `allowed` if producers use transactions.
        limits: The section `limits`.
    """
    declaration = {
        "description": "Orders under faults",
        "schedule": None,
        "source": {
            "bootstrap_servers": {"env": "TIDELINE_KAFKA"},
            "topics": [topic],
            "gaps": gaps,
            "value": {"format": "json", "columns": _DECLARED},
        },
        "sink": output.section(),
        **output.state(),
        "rejects": {"topic": output.letters} if output.has_letters else {},
        "limits": limits,
    }
    folder.mkdir(parents=True)
    (folder / "pipeline.yaml").write_text(json.dumps(declaration))  # JSON is YAML
    if target := output.target():
        (folder / "target.sql").write_text(target)
    (folder / "transform.py").write_text(_TRANSFORMS[transform])


def records(rng: Random, count: int, *, smallest: int = 0, largest: int = 60) -> Iterator[Record]:
    """Yield `count` records whose offset is their number. Most are good; the others are bad in each way that the
    pipeline distinguishes.

    Args:
        rng: The source of what varies.
        count: The number of records.
        smallest: Fewest characters of a note.
        largest: Most characters of a note.
    """
    for number in range(count):
        note = f"{rng.getrandbits(240):060x}" * (1 + largest // 60)
        yield Record(
            offset=number,
            key=None if number % 29 == 0 else b"k%d" % (number % 97),
            value=_value(number, rng.getrandbits(60), note[: rng.randint(smallest, largest)]),
            headers=(("cause", b"\x00\xff"), ("empty", None)) if number % 5 == 0 else None,
        )


def _value(number: int, order_id: int, note: str) -> bytes | None:
    order = {"id": order_id, "name": f"order {number}", "price": f"{number % 900}.{number % 10_000:04}", "lines": 1}
    match number % 29:
        case 1 | 2 | 3:
            order["name"] = "not this one"
        case 4 | 5 | 6 | 7:
            order["lines"] = 2
        case 8:
            order["id"] = "no number"
    # Rare: to find a row that the table refuses, COPY has to be repeated.
    match number % 1044:
        case 43:
            order["price"] = str(PRICE_LIMIT)
        case 44:  # only its second row is refused, and both must be missing
            order |= {"price": f"{PRICE_LIMIT - 1}.5", "lines": 2}
        case 45:
            return None
    value = json.dumps(order | {"note": note}).encode()
    return value[:-4] if number % 29 == 9 else value


def expected(record: Record, output: Output) -> Expected:
    """Return the expected outcome of a record, with its rows if it is written. Only tables refuse a price."""
    try:
        order = json.loads(record.value or b"")
    except ValueError:
        return Expected(frozenset({REJECTED}))
    if not isinstance(order["id"], int):
        return Expected(frozenset({REJECTED}))
    if order["name"] == "not this one":
        return Expected(frozenset({FILTERED}))
    price = Decimal(order["price"])
    items = range(order["lines"])
    if price + items[-1] >= PRICE_LIMIT and not output.is_outside:
        return Expected(frozenset({REJECTED}))
    return Expected(
        frozenset({WRITTEN}), tuple((order["id"], order["name"], price + item, item, order["note"]) for item in items)
    )
