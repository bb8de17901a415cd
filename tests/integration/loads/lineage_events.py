"""The events of the task `write`, as Airflow's OpenLineage provider extracts them and writes them with its file transport."""

import json
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest
from airflow.providers.openlineage.extractors.manager import ExtractorManager
from airflow.providers.openlineage.plugins.adapter import OpenLineageAdapter
from airflow.utils.state import TaskInstanceState
from openlineage.client import OpenLineageClient
from openlineage.client.transport.file import FileConfig, FileTransport
from psycopg2.extensions import parse_dsn

from loads.loading import Loading
from tideline.airflow.spark_submit import write

Event = Callable[..., dict[str, Any]]


def reading(loading: Loading, patch: pytest.MonkeyPatch, folder: Path) -> Event:
    """Return a function that returns the event of the task `write` for batches. No event has a password."""
    patch.setenv("TIDELINE_PIPELINES", str(loading.folder.parent))
    patch.setenv("TIDELINE_LEDGER_URL", loading.url)

    def emitted(batch_ids: Iterable[int], state: TaskInstanceState = TaskInstanceState.SUCCESS) -> dict[str, Any]:
        task = write("loads")
        task.application_args = ["--pipeline=loads", f"--batches={','.join(map(str, batch_ids))}", "--run-id=a=b"]
        found = ExtractorManager().extract_metadata(SimpleNamespace(run_id="one"), task, state, None)
        file = folder / f"{uuid4()}.json"
        transport = FileTransport(FileConfig(log_file_path=str(file), append=True))
        OpenLineageAdapter(OpenLineageClient(transport=transport)).complete_task(
            run_id=str(uuid4()),
            job_name="loads.write",
            end_time=datetime.now(UTC).isoformat(),
            task=found,
            nominal_start_time=None,
            nominal_end_time=None,
            owners=[],
            tags=[],
            job_description=None,
        )
        text = file.read_text()
        assert parse_dsn(loading.url)["password"] not in text
        event: dict[str, Any] = json.loads(text)
        return event

    return emitted
