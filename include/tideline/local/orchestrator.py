"""Airflow's components on loopback, each a process: API server, DAG processor, scheduler, triggerer.

Owns AIRFLOW_HOME and the order in which the components start and stop. Its tasks inherit the environment it is given.
Never changes the metadata database but through Airflow. Called by the stack.
"""

import base64
import json
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import cast

import httpx
import psycopg2

from tideline.local import ports, secret, surroundings
from tideline.local.processes import Child, end

_COMPONENTS = {
    "api-server": ("--workers", "1"),
    "dag-processor": (),
    "scheduler": ("--skip-serve-logs",),
    "triggerer": ("--skip-serve-logs",),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class AirflowOptions:
    """What one Airflow is to run."""

    dags: Path
    """The folder of the DAG files."""
    plugins: Path
    """The folder of the plugins."""
    unpaused: bool = False
    """Whether new DAGs start without being switched on by a person."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """AIRFLOW__SECTION__KEY variables beside the defaults of this module."""


class Orchestrator:
    """One Airflow in one folder.

    Args:
        directory: AIRFLOW_HOME.
        metadata_url: The libpq URI of the metadata database, which exists already.
        options: What it is to run.
        environment: Variables for every component, and so for every task.
        port: The port of the API server; 0 asks for a free one.
    """

    username = "admin"

    def __init__(
        self,
        directory: Path,
        *,
        metadata_url: str,
        options: AirflowOptions,
        environment: Mapping[str, str],
        port: int = 0,
    ) -> None:
        self._directory = directory.absolute()
        self._metadata_url = metadata_url
        self._options = options
        self._given = dict(environment)
        self._children: dict[str, Child] = {}
        self.port = port or ports.choose()

    @property
    def children(self) -> dict[str, Child]:
        """The components that were started, by name."""
        return dict(self._children)

    @property
    def base_url(self) -> str:
        """Where the UI and the REST API are."""
        return f"http://{ports.LOOPBACK}:{self.port}"

    @property
    def password(self) -> str:
        """The password of `username`."""
        return secret.keep(self._directory / "password", size=8)

    def start(self) -> None:
        """Start everything and wait until it works."""
        self.migrate()
        self.start_api()
        self.start_scheduler()

    def migrate(self) -> None:
        """Bring the metadata database up to date, unless this version of Airflow has done so."""
        self._directory.mkdir(parents=True, exist_ok=True)
        secret.write(self._directory / "passwords.json", json.dumps({self.username: self.password}))
        done = self._directory / "migrated"  # asking Airflow itself takes as long as a migration
        version = metadata.version("apache-airflow")
        if not (done.exists() and done.read_text() == version and self._has_tables()):
            self._run("db", "migrate").finish(seconds=300)
            done.write_text(version)

    def start_api(self) -> None:
        """Start the API server and the DAG processor and wait until the API answers."""
        api = self._launch("api-server")
        self._launch("dag-processor")
        api.wait_until(lambda: self._get("/api/v2/monitor/health") is not None, seconds=180)
        # The first call of the execution API takes seconds, longer than a task that made it would wait.
        api.wait_until(lambda: self._get("/execution/health") is not None, seconds=180)

    def start_scheduler(self) -> None:
        """Start the scheduler and the triggerer and wait until every component reports in."""
        since = datetime.now(UTC)
        scheduler = self._launch("scheduler")
        triggerer = self._launch("triggerer")
        scheduler.wait_until(lambda: self._reports("scheduler", since), seconds=180)
        triggerer.wait_until(lambda: self._reports("triggerer", since), seconds=180)
        self._children["dag-processor"].wait_until(lambda: self._reports("dag_processor", since), seconds=180)

    def start_again(self, component: str) -> None:
        """Start a component that has ended, without waiting until it works.

        What it left behind ends first, as with a container: workers of a dead scheduler would wait for work for ever.
        """
        self._children[component].stop()
        self._launch(component)

    def stop(self) -> None:
        """Stop the components, the scheduler first: its running tasks still report to the API."""
        if scheduler := self._children.pop("scheduler", None):
            scheduler.stop()
        # The triggerer would wait ten seconds for its own child, with nothing to save here: after five it is killed.
        end([child.identity for child in self._children.values()], patience=5)
        for child in self._children.values():
            child.stop()
        self._children.clear()

    def environment(self) -> dict[str, str]:
        """The environment of every component. It holds secrets."""
        return {
            **surroundings.clean(self._directory / "spark"),
            **self._settings(),
            **self._options.settings,
            **self._given,
        }

    def _settings(self) -> dict[str, str]:
        fernet = base64.urlsafe_b64encode(bytes.fromhex(secret.keep(self._directory / "fernet-key"))).decode()
        sections = {
            "CORE": {
                "DAGS_FOLDER": str(self._options.dags.absolute()),
                "PLUGINS_FOLDER": str(self._options.plugins.absolute()),
                "LOAD_EXAMPLES": "False",
                "DAGS_ARE_PAUSED_AT_CREATION": str(not self._options.unpaused),
                "EXECUTOR": "LocalExecutor",
                "PARALLELISM": "4",  # that many worker processes are forked at once
                "FERNET_KEY": fernet,
                "EXECUTION_API_SERVER_URL": f"{self.base_url}/execution/",
                "AUTH_MANAGER": "airflow.api_fastapi.auth.managers.simple.simple_auth_manager.SimpleAuthManager",
                "SIMPLE_AUTH_MANAGER_USERS": f"{self.username}:admin",
                "SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(self._directory / "passwords.json"),
            },
            "DATABASE": {"SQL_ALCHEMY_CONN": self._metadata_url.replace("postgresql://", "postgresql+psycopg2://", 1)},
            "API": {"HOST": ports.LOOPBACK, "PORT": str(self.port), "BASE_URL": self.base_url},
            "API_AUTH": {"JWT_SECRET": secret.keep(self._directory / "jwt-secret")},
            # A laptop that is busy with Spark answers late; a task must not die of it.
            "WORKERS": {
                "EXECUTION_API_TIMEOUT": "30",
                "EXECUTION_API_RETRIES": "8",
                "SOCKET_CLEANUP_TIMEOUT": "10",
            },
            # By default a second, which each step of a run waits for. Ten times a second took a sixth of a processor from those who do the work.
            "SCHEDULER": {"SCHEDULER_IDLE_SLEEP_TIME": "0.25"},
            "DAG_PROCESSOR": {"REFRESH_INTERVAL": "5", "MIN_FILE_PROCESS_INTERVAL": "5", "PARSING_PROCESSES": "1"},
            "USAGE_DATA_COLLECTION": {"ENABLED": "False"},
        }
        return {
            "AIRFLOW_HOME": str(self._directory),
            "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps({"conn_type": "spark", "host": "local[*]"}),
            **{
                f"AIRFLOW__{section}__{key}": value for section, keys in sections.items() for key, value in keys.items()
            },
        }

    def _launch(self, component: str) -> Child:
        self._children[component] = self._run(component, *_COMPONENTS[component])
        return self._children[component]

    def _run(self, command: str, *arguments: str) -> Child:
        return Child(
            f"airflow {command}",
            [str(surroundings.BIN / "airflow"), command, *arguments],
            log=self._directory / f"{command}.log",
            cwd=self._directory,
            environment=self.environment(),
        )

    def _has_tables(self) -> bool:
        with closing(psycopg2.connect(self._metadata_url)) as connection, connection.cursor() as cursor:
            cursor.execute("SELECT to_regclass('alembic_version') IS NOT NULL")
            return cursor.fetchone() == (True,)

    def _reports(self, component: str, since: datetime) -> bool:
        """Whether a heartbeat came after `since`: an older one may be that of a component stopped a moment ago."""
        health = self._get("/api/v2/monitor/health") or {}
        heartbeat = health.get(component, {}).get(f"latest_{component}_heartbeat")
        return heartbeat is not None and datetime.fromisoformat(heartbeat) >= since

    def _get(self, path: str) -> dict[str, dict[str, str | None]] | None:
        try:
            answer = httpx.get(self.base_url + path, timeout=30, trust_env=False)
        except httpx.TransportError:
            return None
        return cast("dict[str, dict[str, str | None]]", answer.json()) if answer.is_success else None
