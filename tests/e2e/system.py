"""Operations of the tests on the whole system: run a DAG, and read what readers of the warehouse and of the ledger see."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

import psycopg2
from confluent_kafka import Consumer, KafkaError, TopicPartition
from httpx import HTTPStatusError

import records
from tideline.settings import WRITER_URL
from tideline_stack.airflow_user import AirflowUser
from tideline_stack.stack import Stack

T = TypeVar("T")
Place = tuple[int, int]
"""Partition and offset."""

CLOSED = "closed"
"""An Airflow pool without slots: a run of a pipeline that declares it plans, and does not write."""
_ENDED = {"success", "failed", "skipped", "upstream_failed"}
COUNTS = ("n_read", "n_written", "n_rejected", "n_filtered", "n_gap")


@dataclass(frozen=True, slots=True, kw_only=True)
class System:
    """The stack. A pipeline, its DAG, its topic and its table share one name."""

    folder: Path
    stack: Stack = field(repr=False)
    bootstrap: str
    url: str = field(repr=False)
    """The URL of the administrator, for what tests look at and hold. No process of the stack has it."""
    environment: Mapping[str, str] = field(repr=False)  # holds passwords
    """Environment of a shell in which people work with the stack."""
    airflow: AirflowUser

    # Kafka

    def fill(self, name: str, count: int, *, partitions: int = 1, **rest: Any) -> dict[Place, bytes | None]:
        """Create the topic of a pipeline with `count` good records, and return them by place."""
        records.create(self.bootstrap, name=name, partitions=partitions)
        return records.produce(self.bootstrap, name, map(records.record, range(count)), partitions=partitions, **rest)

    def consumed(self, topic: str, *, partitions: int = 1) -> dict[Place, bytes | None]:
        """Return every record of a topic by place, as a plain consumer of committed records reads it."""
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": "test", "enable.partition.eof": True})
        consumer.assign([TopicPartition(topic, partition, 0) for partition in range(partitions)])
        found = {}
        ended: set[int] = set()
        while len(ended) < partitions:
            for message in consumer.consume(1000, timeout=1):
                if message.error():
                    assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
                    ended.add(message.partition())
                else:
                    found[message.partition(), message.offset()] = message.value()
        consumer.close()
        return found

    # Airflow

    def start(self, name: str, **conf: Any) -> str:
        """Switch a DAG on and start a manual run; return its id."""
        self.airflow.unpause(name)
        return self.airflow.trigger(name, **conf)

    def look_for_records(self, name: str) -> None:
        """Switch on a DAG whose runs are started by records. Airflow begins to watch only when it parses the file again, which is requested here."""
        self.airflow.unpause(name)
        self.airflow.call("PUT", f"parseDagFile/{self.airflow.call('GET', f'dags/{name}')['file_token']}")

    def run(self, name: str, **conf: Any) -> str:
        """Run a DAG to its end, which must be success; return the run's id."""
        run_id = self.start(name, **conf)
        self.succeed(name, run_id)
        return run_id

    def scheduled(self, name: str) -> str:
        """Switch a DAG with a schedule on, and return the id of the run that Airflow starts at once: that of the newest interval."""
        self.airflow.unpause(name)

        def found() -> str | None:
            runs = self.airflow.call("GET", f"dags/{name}/dagRuns?run_type=scheduled&order_by=run_after&limit=1")
            return next((str(run["dag_run_id"]) for run in runs["dag_runs"]), None)

        return self.wait(found, f"the scheduled run of {name}")

    def await_plan(self, name: str, run_id: str) -> list[int]:
        """Wait until the plan of a run has succeeded, and return its batches."""
        self.wait(lambda: self.states(name, run_id).get("plan") in _ENDED, f"the plan of {run_id} of {name} to end")
        assert self.states(name, run_id)["plan"] == "success", self.log(name, run_id, "plan")
        return self.planned(name, run_id)

    def plan_only(self, name: str, run_id: str) -> list[int]:
        """Wait until the plan of a run has succeeded, end the run before it writes, and return its batches.

        The pipeline has the pool CLOSED, so that nothing has begun to write.
        """
        batch_ids = self.await_plan(name, run_id)
        self.wait(
            lambda: self._accepts_the_end_of(name, run_id),
            f"Airflow to end {run_id} of {name} without a database error",
        )
        return batch_ids

    def _accepts_the_end_of(self, name: str, run_id: str) -> bool:
        try:
            self.airflow.call("PATCH", f"dags/{name}/dagRuns/{quote(run_id, safe='')}", state="failed")
        except HTTPStatusError as error:
            # Airflow's API and its scheduler change a run and its tasks at once: Postgres may refuse one of them.
            if "Database error" not in error.response.text:
                raise
            return False
        return True

    def succeed(self, name: str, run_id: str) -> None:
        """Wait for the end of a run; if it is not success, show the logs of the failed tasks."""
        if self.airflow.finished(name, run_id) != "success":
            failed = [task_id for task_id, state in self.states(name, run_id).items() if state == "failed"]
            raise AssertionError("\n".join(f"{task_id}:\n{self.log(name, run_id, task_id)}" for task_id in failed))

    def fail(self, name: str, **conf: Any) -> str:
        """Run a DAG to its end, which must be failure; return the run's id."""
        run_id = self.start(name, **conf)
        assert self.airflow.finished(name, run_id) == "failed"
        return run_id

    def states(self, name: str, run_id: str) -> dict[str, str]:
        """Return the state of each task of a run."""
        return {task_id: task["state"] for task_id, task in self.airflow.tasks(name, run_id).items()}

    def log(self, name: str, run_id: str, task_id: str) -> str:
        """Return the log of a task's last try."""
        try_number = self.airflow.tasks(name, run_id)[task_id]["try_number"]
        return "\n".join(self.airflow.log(name, run_id, task_id, try_number))

    def planned(self, name: str, run_id: str) -> list[int]:
        """Return the batches that `plan` handed to `write`."""
        found: list[int] = self.airflow.returned(name, run_id, "plan")
        return found

    def pool(self, name: str, *, slots: int) -> None:
        """Create a pool with so many slots, or give an existing one so many."""
        pools = self.airflow.call("GET", "pools?limit=100")["pools"]
        wanted = {"slots": slots, "description": "of a test", "include_deferred": False}
        if name in {pool["name"] for pool in pools}:
            self.airflow.call("PATCH", f"pools/{name}", pool=name, **wanted)
        else:
            self.airflow.call("POST", "pools", name=name, **wanted)

    # Postgres

    def rows(self, sql: str, *parameters: Any, url: str = "") -> list[tuple[Any, ...]]:
        """Return the rows that the administrator sees, or another user; an empty list for a statement that returns no rows."""
        connection = psycopg2.connect(url or self.url)
        try:
            with connection, connection.cursor() as cursor:
                cursor.execute(sql, parameters or None)
                return cursor.fetchall() if cursor.description else []
        finally:
            connection.close()

    def prepare(self, sql: str) -> None:
        """Run statements on output tables, as the role to which they belong: that of Spark drivers."""
        self.rows(sql, url=self.environment[WRITER_URL])

    def output(self, name: str) -> dict[Place, tuple[Any, ...]]:
        """Return the table's rows by place; fail if a place is there twice."""
        rows = self.rows(f"SELECT kafka_partition, kafka_offset, id, name, price FROM e2e.{name}")
        found = {(row[0], row[1]): row[2:] for row in rows}
        assert len(found) == len(rows)
        return found

    def counts(self, name: str) -> dict[int, tuple[int, ...]]:
        """Return the sums of COUNTS over all batches, by partition."""
        sums = ", ".join(f"sum({count})::int" for count in COUNTS)
        rows = self.rows(
            f"SELECT partition, {sums} FROM tideline.batch_range JOIN tideline.stream USING (stream_id) "
            "WHERE pipeline = %s GROUP BY partition",
            name,
        )
        return {row[0]: row[1:] for row in rows}

    def ranges(self, batch_id: int) -> dict[int, tuple[int, int]]:
        """Return the planned ranges of a batch, by partition."""
        rows = self.rows(
            "SELECT partition, lower(offsets), upper(offsets) FROM tideline.batch_range JOIN tideline.stream USING (stream_id) "
            "WHERE batch_id = %s",
            batch_id,
        )
        return {partition: (start, end) for partition, start, end in rows}

    def heads(self, name: str) -> list[int]:
        """Return the next offset of each partition, in order."""
        rows = self.rows("SELECT next_offset FROM tideline.stream WHERE pipeline = %s ORDER BY partition", name)
        return [row[0] for row in rows]

    def batches(self, name: str) -> dict[int, str]:
        """Return the state of each batch of a pipeline."""
        return dict(self.rows("SELECT batch_id, state::text FROM tideline.batch WHERE pipeline = %s", name))

    def attempts(self, name: str) -> list[tuple[int, str | None]]:
        """Return fence and outcome of each attempt at a pipeline's batches, in order."""
        return self.rows(
            "SELECT attempt.fence, outcome::text FROM tideline.attempt JOIN tideline.batch USING (batch_id) "
            "WHERE pipeline = %s ORDER BY attempt_id",
            name,
        )

    def events(self, name: str, *actions: str) -> list[tuple[str, int | None]]:
        """Return a pipeline's events that are one of `actions`, in order, each with the fence of its attempt."""
        return self.rows(
            "SELECT action, attempt.fence FROM tideline.event LEFT JOIN tideline.attempt USING (attempt) "
            "WHERE pipeline = %s AND action = ANY (%s) ORDER BY event_id",
            name,
            list(actions),
        )

    def wait(self, condition: Callable[[], T | None], what: str, *, seconds: float = 300) -> T:
        """Return the first true value of `condition`. Most conditions query the API server, which takes processor time from the awaited work."""
        return self.airflow.wait(condition, what, seconds=seconds, every=0.6)


def decoded(sent: Mapping[Place, bytes | None]) -> dict[Place, tuple[Any, ...]]:
    """Return the expected rows of the table once the records of `sent` are loaded."""
    return {
        place: (row["id"], row["name"], Decimal(str(row["price"])))
        for place, row in ((place, json.loads(value or b"null")) for place, value in sent.items())
    }
