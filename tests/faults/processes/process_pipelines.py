"""Declare the pipeline of the records that all levels load, in a folder as users do."""

from enum import StrEnum
from pathlib import Path
from typing import Any

from faults import records
from faults.actions import TOPIC
from tideline.declaration.pipelines import Pipeline

_LIMITS = ("batch_records", "run_batches", "split_records")
UNDO_BATCHES = 3
"""Batches that a pipeline with a state can rewind."""
_STATE = {"key": "lane", "columns": {"first": "bigint", "records": "bigint"}, "undo_batches": UNDO_BATCHES}
_LAKE = "lake"
"""The folder of a Delta table, below that of its pipeline."""
_BANDED = records.TRANSFORM.replace(
    '.append_column("item", item)',
    '.append_column("item", item).append_column("band", pc.if_else(pc.less(rows["price"], 1000), "paid", ""))',
)
"""The transform of a Delta table, which has no check of the price: it is partitioned by a column whose value is empty,
and so refused, where the check would refuse the row."""


class Output(StrEnum):
    """What a pipeline writes to. All hold the same rows: what is tried is how they get there."""

    APPENDED = "a table that is appended to"
    UPSERTED = "a table with the newest record of each key, where the key is what distinguishes all rows"
    LAKE = "a Delta table"
    FOLDED = "a table that is appended to, by a processor with a state"


def lake_of(folder: Path) -> Path:
    """Return the folder of the pipeline's Delta table. The first attempt creates it."""
    return folder / _LAKE


def declared(folder: Path, output: Output = Output.APPENDED, **source: object) -> Pipeline:
    """Declare a pipeline, and an output with the folder's name; `source` holds more keys of that section, and those of
    `limits`."""
    folder.mkdir()
    name = folder.name
    limits = {key: source.pop(key) for key in _LIMITS if key in source}
    raw = {
        "description": "A test",
        "source": {
            "bootstrap_servers": "nowhere:9092",
            "topics": [TOPIC],
            "value": {"format": "json", "columns": records.COLUMNS},
            **source,
        },
        "sink": _sink(folder, output),
        "limits": limits,
        "rejects": {"fail_above": 1.0},
        "upkeep": {"events_days": 1},
        "name": name,
        "folder": folder,
        **({"state": _STATE} if output is Output.FOLDED else {}),
    }
    if output is not Output.LAKE:
        target = records.UPSERT_TARGET if output is Output.UPSERTED else records.TARGET
        (folder / "target.sql").write_text(target.replace("ads.output", f"ads.{name}"))
    pipeline = Pipeline.model_validate(raw, context=name)
    put_transform(pipeline, corrected=False)
    return pipeline


def _sink(folder: Path, output: Output) -> dict[str, Any]:
    table = f"ads.{folder.name}"
    match output:
        case Output.APPENDED | Output.FOLDED:
            return {"table": table, "item": "item"}
        case Output.UPSERTED:
            return {"table": table, "mode": "upsert", "key": ["id", "item"]}
        case Output.LAKE:
            return {"kind": "delta", "path": str(lake_of(folder)), "item": "item", "partition_by": ["band"]}


def put_transform(pipeline: Pipeline, *, corrected: bool) -> None:
    """Put a pipeline's transform.py in place: the one that refuses a name, or the corrected one."""
    folded = records.STATEFUL_TRANSFORM if pipeline.state else records.TRANSFORM
    text = _BANDED if pipeline.sink.kind == "delta" else folded
    (pipeline.folder / "transform.py").write_text(text.format(refuses=not corrected))
