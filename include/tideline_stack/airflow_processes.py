"""Airflow's components on loopback, each a process: API server, DAG processor, scheduler, triggerer.

Owns AIRFLOW_HOME and the order in which the components start and stop. Airflow's tasks inherit the given environment.
Changes the metadata database only through Airflow's own commands. Called by the stack.
"""

import base64
import json
import time
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path

import httpx
import psycopg2

from tideline.deployment import secret
from tideline_stack import heartbeats, ports, program_environment
from tideline_stack.processes import Child, end

_SOON_S = 5
"""Time limit in seconds for an answer that is not waited for."""
_COMPONENTS = {
    "api-server": ("--workers", "1"),
    "dag-processor": (),
    "scheduler": ("--skip-serve-logs",),
    "triggerer": ("--skip-serve-logs",),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class AirflowOptions:
    """The DAGs, plugins and settings of one Airflow."""

    dags: Path
    """The folder of the DAG files."""
    plugins: Path
    """The folder of the plugins."""
    unpaused: bool = False
    """Whether new DAGs are created unpaused."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """AIRFLOW__SECTION__KEY variables that add to, or override, the defaults of this module."""


class Orchestrator:
    """One Airflow in one folder.

    Args:
        directory: AIRFLOW_HOME.
        metadata_url: The libpq URI of the metadata database, which must exist.
        options: The DAGs, plugins and settings.
        environment: Variables for every component, and so for every task.
        port: The port of the API server; 0 means any free port.
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
        self._heartbeats = heartbeats.Heartbeats()
        self._asked = time.monotonic()

    @property
    def children(self) -> dict[str, Child]:
        """The components that were started, by name."""
        return dict(self._children)

    @property
    def base_url(self) -> str:
        """The address of the UI and the REST API."""
        return f"http://{ports.LOOPBACK}:{self.port}"

    @property
    def password(self) -> str:
        """The password of `username`, and of the users that the options add."""
        return secret.keep(self._directory / "password", size=8)

    def start(self) -> None:
        """Migrate the metadata database, start all components and wait until they are healthy."""
        self.migrate()
        self.start_api()
        self.start_scheduler()

    def migrate(self) -> None:
        """Migrate the metadata database, unless this version of Airflow has already migrated it."""
        self._directory.mkdir(parents=True, exist_ok=True)
        # Airflow chooses the passwords of users that have none, and writes them to its log.
        users = self.environment()["AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS"].split(",")
        passwords = {user.partition(":")[0]: self.password for user in users}
        secret.write(self._directory / "passwords.json", json.dumps(passwords))
        done = self._directory / "migrated"  # a command of Airflow that checks this takes as long as a migration
        version = metadata.version("apache-airflow")
        if not (done.exists() and done.read_text() == version and self._has_tables()):
            self._run("db", "migrate").finish(seconds=300)
            done.write_text(version)

    def start_api(self) -> None:
        """Start the API server and the DAG processor and wait until the API answers."""
        api = self._launch("api-server")
        self._launch("dag-processor")
        with self._client() as client:
            api.wait_until(lambda: heartbeats.answer(client, heartbeats.HEALTH) is not None, seconds=180)
            # The first call of the execution API takes seconds, longer than a task waits for it. So it is made here.
            api.wait_until(lambda: heartbeats.answer(client, "/execution/health") is not None, seconds=180)

    def start_scheduler(self) -> None:
        """Start the scheduler and the triggerer, and wait for a new heartbeat of each, and of the DAG processor."""
        since = datetime.now(UTC)
        scheduler = self._launch("scheduler")
        triggerer = self._launch("triggerer")
        with self._client() as client:
            scheduler.wait_until(lambda: heartbeats.reports(client, "scheduler", since), seconds=180)
            triggerer.wait_until(lambda: heartbeats.reports(client, "triggerer", since), seconds=180)
            self._children["dag-processor"].wait_until(
                lambda: heartbeats.reports(client, "dag_processor", since), seconds=180
            )

    def start_again(self, component: str) -> None:
        """Start a component that has ended or hangs, without waiting until it is healthy.

        Its remaining child processes are killed first, as they would be with a container. Without that, the workers of a
        dead scheduler would wait for work for ever.
        """
        self._children[component].stop()
        self._heartbeats.forget(component)
        self._launch(component)

    def silent(self) -> list[str]:
        """Return the components that have sent no heartbeat for minutes. Asks Airflow, but not each time."""
        if time.monotonic() - self._asked > heartbeats.ASK_EVERY_S:
            with self._client(timeout=_SOON_S) as client:
                health = heartbeats.answer(client, heartbeats.HEALTH) or {}
            found = {name: heartbeats.last_heartbeat(health, name.replace("-", "_")) for name in self._children}
            self._asked = time.monotonic()
            self._heartbeats.note(found, self._asked)
        return self._heartbeats.silent(time.monotonic())

    def stop(self) -> None:
        """Stop the components. The scheduler is first, because its running tasks still report to the API."""
        if scheduler := self._children.pop("scheduler", None):
            scheduler.stop()
        # The triggerer waits ten seconds for its own child. There is nothing to save here, so it is killed after five.
        end([child.identity for child in self._children.values()], patience=5)
        for child in self._children.values():
            child.stop()
        self._children.clear()

    def environment(self) -> dict[str, str]:
        """Return the environment of every component. It holds secrets."""
        return {
            **program_environment.clean(self._directory / "spark"),
            **self._settings(),
            **self._options.settings,
            **self._given,
        }

    def _settings(self) -> dict[str, str]:
        sections = {
            "CORE": {
                "DAGS_FOLDER": str(self._options.dags.absolute()),
                "PLUGINS_FOLDER": str(self._options.plugins.absolute()),
                "LOAD_EXAMPLES": "False",
                "DAGS_ARE_PAUSED_AT_CREATION": str(not self._options.unpaused),
                "EXECUTOR": "LocalExecutor",
                "PARALLELISM": "4",  # so many worker processes are forked at the start
                "FERNET_KEY": fernet_key(self._directory),
                "EXECUTION_API_SERVER_URL": f"{self.base_url}/execution/",
                "AUTH_MANAGER": "airflow.api_fastapi.auth.managers.simple.simple_auth_manager.SimpleAuthManager",
                "SIMPLE_AUTH_MANAGER_USERS": f"{self.username}:admin",
                "SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(self._directory / "passwords.json"),
            },
            "DATABASE": {"SQL_ALCHEMY_CONN": self._metadata_url.replace("postgresql://", "postgresql+psycopg2://", 1)},
            "API": {"HOST": ports.LOOPBACK, "PORT": str(self.port), "BASE_URL": self.base_url},
            "API_AUTH": {"JWT_SECRET": secret.keep(self._directory / "jwt-secret")},
            # On a laptop that is busy with Spark the API answers late. A task must not fail because of that.
            "WORKERS": {
                "EXECUTION_API_TIMEOUT": "30",
                "EXECUTION_API_RETRIES": "8",
                "SOCKET_CLEANUP_TIMEOUT": "10",
            },
            # The default is a second, and each step of a run waits that long. With 0.1 seconds the scheduler used a sixth of a processor.
            "SCHEDULER": {"SCHEDULER_IDLE_SLEEP_TIME": "0.25"},
            # Each parsing is a process that imports Tideline, for half a second of processor time. Every five seconds that took an eighth of a
            # processor.
            "DAG_PROCESSOR": {"REFRESH_INTERVAL": "5", "MIN_FILE_PROCESS_INTERVAL": "15", "PARSING_PROCESSES": "1"},
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
            [str(program_environment.BIN / "airflow"), command, *arguments],
            log=self._directory / f"{command}.log",
            cwd=self._directory,
            environment=self.environment(),
        )

    def _has_tables(self) -> bool:
        with closing(psycopg2.connect(self._metadata_url)) as connection, connection.cursor() as cursor:
            cursor.execute("SELECT to_regclass('alembic_version') IS NOT NULL")
            return cursor.fetchone() == (True,)

    def _client(self, *, timeout: float = 30) -> httpx.Client:
        """Return a client of the API server. One serves all questions of a wait: each new one reads the trusted certificates, for 50 ms."""
        return httpx.Client(base_url=self.base_url, timeout=timeout, trust_env=False)


def fernet_key(directory: Path) -> str:
    """Return the key of the connections and Variables of the Airflow in a folder. It is a secret without a mark: its form leaves no place for one."""
    kept = secret.keep(directory / "fernet-key").replace(secret.MARK, "")
    return base64.urlsafe_b64encode(bytes.fromhex(kept)).decode()
