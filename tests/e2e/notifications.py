"""The notifier that some pipelines of the tests declare, and the notifications that it has received."""

import json
import shutil
from pathlib import Path
from typing import Any, NamedTuple

import recording_notifier
from system import System
from tideline.settings import PROJECT

_FILE = "notifications.jsonl"
SECRET = "PAGER_TOKEN"
"""The variable with the notifier's secret. It is no secret of the ledger, because Airflow hides what a notifier logs in the task's log only."""


class Notification(NamedTuple):
    """One notification, with its texts as Airflow has rendered them."""

    pipeline: str
    run_id: str
    task_id: str
    event: str
    message: str


def section(folder: Path) -> dict[str, Any]:
    """Return the section `notify` of a declaration. One argument is a secret, which the notifier logs and does not store."""
    return {
        "notifier": "recording_notifier.RecordingNotifier",
        "arguments": {
            "path": str(folder / _FILE),
            "text": "{{ tideline.message }}",
            "about": ["{{ tideline.pipeline }}", "{{ run_id }}", "{{ ti.task_id }}", "{{ tideline.event }}"],
            "secret": {"env": SECRET},
        },
    }


def install(plugins: Path) -> None:
    """Copy the notifier to the project's plugins in the folder of Airflow's plugins, from where every process of Airflow can import it."""
    shutil.copytree(PROJECT / "plugins", plugins, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(recording_notifier.__file__, plugins)


def notified(system: System, run_id: str) -> list[Notification]:
    """Return the notifications about a run, in the order in which they were sent."""
    received = [json.loads(line) for line in (system.folder / _FILE).read_text().splitlines()]
    found = [Notification._make([*one["about"], one["text"]]) for one in received]
    return [one for one in found if one.run_id == run_id]
