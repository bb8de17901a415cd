"""The tests' pipelines. All are declared before Airflow starts: a DAG that is added later is seen only when the DAG file is parsed again."""

import json
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from string import Template
from typing import Any

import notifications
import secured_login
from system import CLOSED
from tideline.settings import PROJECT

SHARED = Path(__file__).parent / "pipelines"
BACKFILLS = "backfills"
"""The pool of the pipeline `backfilled`."""
_DEFAULTS = {
    "schedule": "null",
    "wake": "false",
    "pool": "null",
    "retries": 2,
    "servers": "{env: TIDELINE_KAFKA}",
    "start": "earliest",
    "security": {},
    "batch_records": 1_000_000,
    "run_batches": 20,
    "notify": {},
    "spark": {},
    "state": "null",
}

LAST_TICK = datetime.now(UTC).replace(second=0, microsecond=0) - timedelta(minutes=5)
"""The last tick of the tests' hourly schedules. The next tick is most of an hour ahead, so that none comes while the tests run."""
HOUR = timedelta(hours=1)
_HOURLY = f'"{LAST_TICK.minute} * * * *"'


def declare_all(folder: Path) -> None:
    """Write every pipeline below `folder`; its topic and its table have the same name."""
    pipelines: dict[str, dict[str, Any]] = {
        "announced": {"batch_records": 40},
        "killed": {},
        "restarted": {},
        "unfinished": {"transform": "missing_transform.py", "batch_records": 120},
        "woken": {"wake": "true", "batch_records": 10, "run_batches": 2, **secured_login.DECLARED},
        "refused": {"retries": 0, "notify": notifications.section(folder.parent)},
        "backfilled": {"schedule": _HOURLY, "start": (LAST_TICK - HOUR).isoformat(), "pool": BACKFILLS},
        "outrun": {
            "pool": "default_pool",
            "notify": notifications.section(folder.parent),
            "spark": {"connection": "spark_default", "properties": {"spark.sql.shuffle.partitions": 3}},
        },
        # They plan, and write nothing.
        "asked": {"pool": CLOSED},
        "restored": {"pool": CLOSED},
        "rewound": {"pool": CLOSED, "batch_records": 5, "state": {"key": "id", "columns": {"seen": "bigint"}}},
    }
    for name, rest in pipelines.items():
        declare(folder / name, **rest)
    (folder / "broken").mkdir()
    broken = _filled("broken.yaml", notify=notifications.section(folder.parent))
    (folder / "broken" / "pipeline.yaml").write_text(broken)
    (folder / "broken" / "target.sql").write_text(_filled("target.sql", name="broken"))
    _take_over_impressions(folder / "impressions")
    # The DAG `ads_baseline` has its statements there.
    shutil.copytree(PROJECT / "include" / "pipelines" / "offer_anomalies", folder / "offer_anomalies")


def _take_over_impressions(folder: Path) -> None:
    """Write the shipped pipeline without its schedule: each run loads what a test has sent for it."""
    shutil.copytree(PROJECT / "include" / "pipelines" / "impressions", folder)
    declaration = (folder / "pipeline.yaml").read_text()
    assert 'schedule: "0 * * * *"' in declaration
    (folder / "pipeline.yaml").write_text(declaration.replace('"0 * * * *"', "null"))


def declare(folder: Path, *, transform: str | None = None, **words: Any) -> None:
    """Write one pipeline, or overwrite it: each task reads the declaration when it starts."""
    folder.mkdir(parents=True, exist_ok=True)
    words = {**_DEFAULTS, "name": folder.name, **words}
    for file in ("pipeline.yaml", "target.sql"):
        (folder / file).write_text(_filled(file, **words))
    if transform:
        shutil.copy(SHARED / transform, folder / "transform.py")


def _filled(file: str, **words: Any) -> str:
    """Return the file with the words filled in; mappings become JSON, which is YAML."""
    written = {word: json.dumps(value) if isinstance(value, dict) else value for word, value in words.items()}
    return Template((SHARED / file).read_text()).substitute(written)
