"""Declare the pipeline of the records that all levels load, in a folder as users do."""

from pathlib import Path

from faults import records
from faults.actions import TOPIC
from tideline.declaration.pipelines import Pipeline

_LIMITS = ("batch_records", "run_batches", "split_records")


def declared(folder: Path, **source: object) -> Pipeline:
    """Declare a pipeline and a table with the folder's name; `source` holds more keys of that section, and those of
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
        "sink": {"table": f"ads.{name}", "item": "item"},
        "limits": limits,
        "rejects": {"fail_above": 1.0},
        "upkeep": {"events_days": 1},
        "name": name,
        "folder": folder,
    }
    (folder / "target.sql").write_text(records.TARGET.replace("ads.output", f"ads.{name}"))
    put_transform(folder, corrected=False)
    return Pipeline.model_validate(raw, context=name)


def put_transform(folder: Path, *, corrected: bool) -> None:
    """Put a pipeline's transform.py in place: the one that refuses a name, or the corrected one."""
    (folder / "transform.py").write_text(records.TRANSFORM.format(refuses=not corrected))
