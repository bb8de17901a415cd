"""Stop a write task where a test needs it, from outside: by locks that its statements have to wait for. And find its processes."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import psutil
import psycopg2

from system import System


@dataclass(frozen=True, slots=True, kw_only=True)
class Writing:
    """A batch that is being written, and who writes it."""

    batch_id: int
    fence: int
    driver: psutil.Process
    """The Python driver; the ledger knows its pid."""

    @property
    def jvm(self) -> psutil.Process:
        """spark-submit, which starts the driver."""
        return self.driver.parent()

    @property
    def supervisor(self) -> psutil.Process:
        """Airflow's process that watches over the one that runs the task, which starts spark-submit."""
        found = self.jvm.parent().parent()
        assert "LocalExecutor" in " ".join(found.cmdline()), found
        return found


def writing(system: System, name: str, *, fence: int = 1) -> Writing:
    """Wait until attempt `fence` at the pipeline's only open batch writes."""

    def found() -> Writing | None:
        rows = system.rows(
            "SELECT batch_id, pid FROM tideline.batch JOIN tideline.attempt USING (batch_id, attempt) "
            "WHERE pipeline = %s AND state = 'writing' AND attempt.fence = %s",
            name,
            fence,
        )
        return Writing(batch_id=rows[0][0], fence=fence, driver=psutil.Process(rows[0][1])) if rows else None

    return system.wait(found, f"attempt {fence} of {name} to write")


@contextmanager
def before_claim(system: System, name: str) -> Iterator[None]:
    """Hold whoever comes to write the pipeline's only open batch; entered once it waits. To be called as soon as a run has been started."""
    opened = "SELECT batch_id FROM tideline.batch WHERE pipeline = %s AND state = 'planned'"
    [(batch_id,)] = system.wait(lambda: system.rows(opened, name), f"a batch of {name} to be planned", seconds=180)
    with before_publish(system, batch_id):
        assert system.batches(name)[batch_id] == "planned"
        yield


@contextmanager
def before_publish(system: System, batch_id: int) -> Iterator[None]:
    """Hold whoever publishes the batch after everything is staged; entered once it waits."""
    with _transaction(system) as cursor:
        cursor.execute("SELECT FROM tideline.batch WHERE batch_id = %s FOR NO KEY UPDATE", (batch_id,))
        _await_waiter(system, cursor)
        yield


@contextmanager
def while_staging(system: System, attempt: Writing) -> Iterator[None]:
    """Hold one attempt, and no other, before it has staged a row; entered once it waits."""
    staging = f"tideline_staging.batch_{attempt.batch_id}_attempt_{attempt.fence}"
    system.wait(lambda: system.rows("SELECT to_regclass(%s)", staging)[0][0], f"{staging} to be created", seconds=60)
    with _transaction(system) as cursor:
        cursor.execute(f"LOCK TABLE {staging} IN SHARE MODE")
        _await_waiter(system, cursor)
        assert system.rows(f"SELECT count(*) FROM {staging}") == [(0,)]
        yield


def _await_waiter(system: System, cursor: psycopg2.extensions.cursor) -> None:
    waiting = "SELECT pid FROM pg_stat_activity WHERE %s = ANY (pg_blocking_pids(pid))"
    own = cursor.connection.info.backend_pid
    system.wait(lambda: system.rows(waiting, own), "somebody to wait for the lock")


@contextmanager
def _transaction(system: System) -> Iterator[psycopg2.extensions.cursor]:
    connection = psycopg2.connect(system.url)
    try:
        with connection.cursor() as cursor:
            yield cursor
    finally:
        connection.close()
