"""Stop a task at a chosen point from outside, with locks that its statements have to wait for; and find its processes."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from uuid import UUID

import psutil
import psycopg2

from system import System
from tideline.errors import RetryableError


@dataclass(frozen=True, slots=True, kw_only=True)
class Writing:
    """A batch that is being written, and its writer."""

    batch_id: int
    fence: int
    attempt: UUID
    driver: psutil.Process
    """The Python driver; the ledger has its pid."""

    @property
    def staging(self) -> str:
        """The attempt's staging table."""
        return f"tideline_staging.attempt_{self.attempt.hex}"

    @property
    def jvm(self) -> psutil.Process:
        """spark-submit, which starts the driver."""
        return _known(self.driver.parent(), "java")

    @property
    def runner(self) -> psutil.Process:
        """Airflow's process that runs the task; it starts spark-submit."""
        return _known(self.jvm.parent(), "airflow worker")

    @property
    def supervisor(self) -> psutil.Process:
        """Airflow's process that supervises the one that runs the task."""
        return _known(self.runner.parent(), "LocalExecutor")


def _known(process: psutil.Process | None, word: str) -> psutil.Process:
    """Return the process, after a check that its command line has this word: the parent of an orphan is another process."""
    if process is None or word not in " ".join(process.cmdline()):
        raise psutil.NoSuchProcess(process.pid if process else 0, msg=f"its place has {process}")
    return process


def writing(system: System, name: str, run_id: str, *, fence: int = 1) -> Writing:
    """Wait until attempt `fence` at the pipeline's only open batch writes, unless the run ends before."""

    def found() -> Writing | None:
        attempt = next((attempt for attempt in at_work(system, name) if attempt.fence == fence), None)
        if attempt is None:
            state = system.airflow.run(name, run_id)["state"]
            assert state in {"queued", "running"}, f"{run_id} of {name} is {state}: {system.states(name, run_id)}"
        return attempt

    return system.wait(found, f"attempt {fence} of {name} to write")


def at_work(system: System, name: str) -> list[Writing]:
    """Return the attempts that write the pipeline's batches now, if their drivers live."""
    rows = system.rows(
        "SELECT batch_id, attempt.fence, attempt.attempt, pid FROM tideline.batch JOIN tideline.attempt USING (batch_id, attempt) "
        "WHERE pipeline = %s AND state = 'writing'",
        name,
    )
    return [
        Writing(batch_id=batch_id, fence=fence, attempt=attempt, driver=driver)
        for batch_id, fence, attempt, pid in rows
        for driver in _alive(pid)
    ]


def _alive(pid: int) -> list[psutil.Process]:
    with suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        return [process] if "write_batches.py" in " ".join(process.cmdline()) else []
    return []


@contextmanager
def before_publish(
    system: System, batch_id: int, *, seconds: float = 300, driver: psutil.Process | None = None
) -> Iterator[psutil.Process]:
    """Hold the publication of the batch after everything is staged; enter once it waits: that of one driver, where others live."""
    with _transaction(system) as cursor:
        cursor.execute("SELECT FROM tideline.batch WHERE batch_id = %s FOR NO KEY UPDATE", (batch_id,))
        yield _await_waiter(system, cursor, seconds, (lambda process: process == driver) if driver else None)


@contextmanager
def while_staging(system: System, attempt: Writing) -> Iterator[psutil.Process]:
    """Freeze one attempt's Python worker, and no other, before it has staged a row.

    It is frozen and not locked out: a session waits half a minute for a lock, and another attempt may take longer to begin.
    """
    with amid_staging(system, attempt) as waiter:
        assert system.rows(f"SELECT count(*) FROM {attempt.staging}") == [(0,)]
        waiter.suspend()
    try:
        yield waiter
    finally:
        with suppress(psutil.NoSuchProcess):
            waiter.resume()


@contextmanager
def amid_staging(system: System, attempt: Writing, *, seconds: float = 300) -> Iterator[psutil.Process]:
    """Hold the next Spark task of one attempt that stages rows; enter once it waits, with its Python worker.

    Raises:
        RetryableError: The attempt has ended, and its staging table is gone.
    """

    def created() -> bool:
        if system.rows("SELECT to_regclass(%s)", attempt.staging)[0][0]:
            return True
        if attempt.attempt not in {one.attempt for one in at_work(system, pipeline)}:
            raise RetryableError(f"{attempt.staging} is gone", next_step="hold the next attempt")
        return False

    [[pipeline]] = system.rows("SELECT pipeline FROM tideline.batch WHERE batch_id = %s", attempt.batch_id)
    system.wait(created, f"{attempt.staging} to be created")
    with _transaction(system) as cursor:
        cursor.execute(f"LOCK TABLE {attempt.staging} IN SHARE MODE")
        yield _await_waiter(system, cursor, seconds)


@contextmanager
def amid_counting(system: System, attempt: Writing, *, seconds: float = 300) -> Iterator[psutil.Process]:
    """Hold the next Spark task of one attempt that stores its counts, as each task does; enter once it waits, with its Python worker."""
    jvm = attempt.jvm
    with _transaction(system) as cursor:
        cursor.execute("LOCK TABLE tideline.staged_count IN SHARE MODE")
        yield _await_waiter(system, cursor, seconds, lambda process: jvm in process.parents())


@contextmanager
def before_plan(
    system: System, name: str, wanted: Callable[[psutil.Process], bool], *, seconds: float = 300
) -> Iterator[psutil.Process]:
    """Hold the next process that plans for a pipeline with an earlier plan; enter once one that is `wanted` waits, with that process."""
    with _transaction(system) as cursor:
        cursor.execute(_HOLD_PLANS, (name,))
        yield _await_waiter(system, cursor, seconds, wanted)


@contextmanager
def plan_of(system: System, name: str, *, seconds: float = 300) -> Iterator[tuple[str, set[str]]]:
    """Start a run of a pipeline with an earlier plan, and hold its plan; enter once it waits, with the run's id and the users that wait.

    Only root can say which process a task's connection belongs to, but the server knows the user of each.
    """
    with _transaction(system) as cursor:
        cursor.execute(_HOLD_PLANS, (name,))
        run_id = system.start(name)
        own = cursor.connection.info.backend_pid
        yield run_id, system.wait(lambda: {user for _, user in system.rows(_WAITING, own)}, "the plan", seconds=seconds)


@contextmanager
def before_heads_move(
    system: System, name: str, wanted: Callable[[psutil.Process], bool], *, seconds: float = 300
) -> Iterator[psutil.Process]:
    """Hold every process that moves a pipeline's heads, as `advance` and `plan` do; enter once one that is `wanted` waits, with that process."""
    with _transaction(system) as cursor:
        cursor.execute("SELECT FROM tideline.stream WHERE pipeline = %s FOR NO KEY UPDATE", (name,))
        yield _await_waiter(system, cursor, seconds, wanted)


@contextmanager
def before_looks(system: System) -> Iterator[Callable[[], psutil.Process]]:
    """Hold every process that looks at pipelines; yield a function that waits for one and returns it."""
    with _transaction(system) as cursor:
        # Every command reads the second one first.
        cursor.execute("LOCK TABLE tideline.pipeline, tideline.migration IN ACCESS EXCLUSIVE MODE")
        yield lambda: _await_waiter(system, cursor, 300)


def users_of(system: System, process: psutil.Process) -> set[str]:
    """Return the users with which a process is logged in to the ledger's database."""
    ports = [connection.laddr.port for connection in process.net_connections("tcp4") if connection.laddr]
    query = "SELECT usename::text FROM pg_stat_activity WHERE datname = 'warehouse' AND client_port = ANY (%s)"
    return {user for (user,) in system.rows(query, ports)}


_HOLD_PLANS = "SELECT FROM tideline.pipeline WHERE pipeline = %s FOR NO KEY UPDATE"
# Includes processes that wait behind another waiter: their order differs between machines.
_WAITING = """
WITH RECURSIVE waiting (pid, client_port, usename) AS (
    SELECT pid, client_port, usename FROM pg_stat_activity WHERE %s = ANY (pg_blocking_pids(pid))
    UNION
    SELECT behind.pid, behind.client_port, behind.usename
    FROM waiting, pg_stat_activity behind WHERE waiting.pid = ANY (pg_blocking_pids(behind.pid))
)
SELECT client_port, usename::text FROM waiting
"""


def _await_waiter(
    system: System,
    cursor: psycopg2.extensions.cursor,
    seconds: float,
    wanted: Callable[[psutil.Process], bool] | None = None,
) -> psutil.Process:
    """Return the first process that is `wanted` and whose session waits for a lock of this one; by default any but a task of Airflow."""
    own = cursor.connection.info.backend_pid

    def found() -> psutil.Process | None:
        waiters = (process for port, _ in system.rows(_WAITING, own) for process in _connected_from(port))
        return next(filter(wanted or _no_task, waiters), None)

    return system.wait(found, "a wanted process to wait for the lock", seconds=seconds)


def _connected_from(port: int) -> list[psutil.Process]:
    """Return the processes whose connection has this local port; none if it has just been closed.

    Where the system does not say whose it is, return all that run tasks: Airflow makes them so that only root may look into them.
    """
    connections = [one for one in psutil.net_connections("tcp4") if one.status == psutil.CONN_ESTABLISHED]
    owners = [one.pid for one in connections if one.laddr and one.laddr.port == port]
    if None in owners:
        return [process for process in psutil.process_iter() if _runs_a_task(process)]
    with suppress(psutil.NoSuchProcess):
        return [psutil.Process(pid) for pid in owners]
    return []


def _no_task(process: psutil.Process) -> bool:
    return not _runs_a_task(process)


def _runs_a_task(process: psutil.Process) -> bool:
    with suppress(psutil.Error):
        title = " ".join(process.cmdline())
        return "airflow worker" in title and "LocalExecutor" not in title
    return False


@contextmanager
def _transaction(system: System) -> Iterator[psycopg2.extensions.cursor]:
    connection = psycopg2.connect(system.url)
    try:
        with connection.cursor() as cursor:
            yield cursor
    finally:
        connection.close()
