"""The whole local stack in one folder. Only this module knows the order in which its parts start and stop.

Called by `python -m tideline_stack` and by test fixtures, with any folder.
"""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self

from tideline import settings
from tideline.deployment import logins
from tideline_stack import ports, spark
from tideline_stack.airflow_processes import AirflowOptions, Orchestrator
from tideline_stack.broker import LocalBroker
from tideline_stack.postgres import Postgres
from tideline_stack.processes import Child
from tideline_stack.registry import LocalRegistry

_LOCAL = settings.PROJECT / ".local"

Step = Callable[[str], AbstractContextManager[None]]


class Stack:
    """Postgres with the ledger and its roles, a Kafka broker and, optionally, Airflow and a schema registry; a context manager.

    Use it from a thread that lives as long as the stack should (see `processes.Child`).

    Args:
        directory: The folder of all files. Data stays there between starts.
        airflow: The options of Airflow; None leaves Airflow out.
        registry: Whether there is a schema registry.
        usual_ports: Use 5432, 9092, 9094, 8081 and 8080 where they are free; otherwise any free ports.
        broker_properties: Server properties for the broker.
        postgres_settings: Settings for the server of Postgres.
        variables: More variables for all clients of the stack, Airflow's tasks too.
        step: Called with the name of each step; returns a context manager that is open while the step runs.
    """

    def __init__(
        self,
        directory: Path,
        *,
        airflow: AirflowOptions | None = None,
        registry: bool = False,
        usual_ports: bool = False,
        broker_properties: Mapping[str, str] | None = None,
        postgres_settings: Mapping[str, str] | None = None,
        variables: Mapping[str, str] | None = None,
        step: Step = lambda _name: nullcontext(),
    ) -> None:
        def port(usual: int) -> int:
            return ports.choose(usual if usual_ports else 0)

        self._directory = directory = directory.absolute()
        self._step = step
        self._variables = dict(variables or {})
        self.postgres = Postgres(directory / "postgres", port=port(5432), settings=postgres_settings)
        self.broker = LocalBroker(
            directory / "kafka",
            _LOCAL / "jars" / "kafka",
            port=port(9092),
            sasl_port=port(9094),
            properties=broker_properties,
        )
        self.registry = (
            LocalRegistry(directory / "registry", _LOCAL / "jars" / "registry", port=port(8081)) if registry else None
        )
        self._airflow = (directory / "airflow", airflow, port(8080)) if airflow else None
        self._urls: dict[str, str] = {}
        self.orchestrator: Orchestrator | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Start the parts in order and wait until all of them answer. If one does not, stop those that were started."""
        try:
            self._start()
        except BaseException:
            self.stop()
            raise

    def _start(self) -> None:
        self.broker.launch()  # it boots while Postgres starts and Airflow's database is migrated
        if self.registry:
            self.registry.launch()
        with self._step("Postgres"):
            self.postgres.start()
            self.postgres.ensure_database("warehouse")
        passwords = partial(logins.kept, self.postgres.directory / "roles")
        with self._step("Ledger and its roles"):
            self._urls = logins.of_ledger(self.postgres.url("warehouse"), passwords)
        if self._airflow:
            directory, options, port = self._airflow
            self.postgres.ensure_database("airflow")
            self.orchestrator = Orchestrator(
                directory,
                metadata_url=logins.of_airflow(self.postgres.url("airflow"), passwords),
                options=options,
                environment=self._data_environment(),
                port=port,
            )
            with self._step("Airflow database"):
                self.orchestrator.migrate()
        with self._step("Kafka"):
            self.broker.wait()
        if self.registry:
            with self._step("Schema registry"):
                self.registry.wait()
        if self.orchestrator:
            with self._step("Airflow API and DAG processor"):
                self.orchestrator.start_api()
            with self._step("Airflow scheduler and triggerer"):
                self.orchestrator.start_scheduler()

    def parts(self) -> dict[str, Child]:
        """Return the parts of a stack that is up, by name. A part is before those that need it."""
        return {
            "Postgres": self.postgres.child,
            "Kafka": self.broker.child,
            **({"Schema registry": self.registry.child} if self.registry else {}),
            **(self.orchestrator.children if self.orchestrator else {}),
        }

    def failed(self) -> dict[str, str]:
        """Return the parts that have ended or hang, each with what it has done, in the order in which they should be started again."""
        silent = self.orchestrator.silent() if self.orchestrator else []
        return {
            name: "sends no heartbeat" if part.alive() else "has ended"
            for name, part in self.parts().items()
            if name in silent or not part.alive()
        }

    def start_again(self, name: str) -> None:
        """Start a part that has failed, with the same data and at the same address.

        Raises:
            RetryableError: It did not start. Postgres does not start while a session of the previous server still lives.
        """
        if name == "Postgres":
            self.postgres.start()
        elif name == "Kafka":
            self.broker.launch()
        elif self.registry and name == "Schema registry":
            self.registry.launch()
        elif self.orchestrator:
            self.orchestrator.start_again(name)

    def stop(self) -> None:
        """Stop the parts. A part is stopped before those that it needs. Do nothing when none is running."""
        if self.orchestrator:
            with self._step("Stop Airflow"):
                self.orchestrator.stop()
        if self.registry:
            with self._step("Stop the schema registry"):
                self.registry.stop()
        with self._step("Stop Kafka"):
            self.broker.stop()
        with self._step("Stop Postgres"):
            self.postgres.stop()

    def environment(self) -> dict[str, str]:
        """Return the variables with which clients connect to the stack, once it is up. They hold passwords, but not that of the administrator."""
        found = self._data_environment()
        if self.orchestrator:
            found |= {
                "TIDELINE_AIRFLOW_URL": self.orchestrator.base_url,
                "TIDELINE_AIRFLOW_USERNAME": self.orchestrator.username,
                "TIDELINE_AIRFLOW_PASSWORD": self.orchestrator.password,
            }
        return found

    def _data_environment(self) -> dict[str, str]:
        return {
            **self._urls,
            "TIDELINE_KAFKA": self.broker.bootstrap,
            **({"TIDELINE_REGISTRY": self.registry.url} if self.registry else {}),
            "TIDELINE_LAKE": str(self._directory / "lake" / "impressions"),
            "TIDELINE_PIPELINES": str(settings.pipelines_dir()),
            "TIDELINE_SPARK_PROPERTIES": str(spark.configure(self._directory / "spark")),
            **self._variables,
        }
