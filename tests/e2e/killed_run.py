"""A run whose writer is killed twice: first the supervisor of its task, then the JVM of the retry. And what its processes have meanwhile."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import psutil

import held_tasks
from held_tasks import Writing
from system import Place, System

NAME = "killed"
PARTITIONS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What the processes that write were seen to have."""

    driver_users: set[str]
    worker_users: set[str]
    driver_environment: dict[str, str] = field(repr=False)  # holds passwords
    worker_environment: dict[str, str] = field(repr=False)
    holders: set[str]
    """The variables with the administrator's password, of all processes of Airflow and of all that they have started."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Killed:
    """The records that were sent, the run that has loaded them in spite of the kills, and observations meanwhile."""

    sent: dict[Place, bytes | None]
    run_id: str
    seen: Seen
    orphan: int
    """The pid of the driver whose supervisor was killed."""
    successor: int
    """The pid of the driver whose JVM was killed."""
    left_behind: dict[Place, tuple[Any, ...]]
    """The rows after the second death."""


def load_in_spite_of_kills(system: System) -> Killed:
    """Run the pipeline. The first driver is frozen while it stages, loses its supervisor, and goes on after the run has ended."""
    sent = system.fill(NAME, 1000 * PARTITIONS, partitions=PARTITIONS)
    run_id = system.start(NAME)
    orphan = held_tasks.writing(system, NAME, run_id)
    with held_tasks.while_staging(system, orphan) as worker:
        seen = _look(system, orphan, worker)
        orphan.supervisor.kill()
        successor = held_tasks.writing(system, NAME, run_id, fence=2)
        with held_tasks.before_publish(system, successor.batch_id, driver=successor.driver):
            successor.jvm.kill()
            successor.driver.wait(300)
            left_behind = system.output(NAME)
        system.succeed(NAME, run_id)
    orphan.driver.wait(300)
    return Killed(
        sent=sent,
        run_id=run_id,
        seen=seen,
        orphan=orphan.driver.pid,
        successor=successor.driver.pid,
        left_behind=left_behind,
    )


def _look(system: System, write: Writing, worker: psutil.Process) -> Seen:
    return Seen(
        driver_users=held_tasks.users_of(system, write.driver),
        worker_users=held_tasks.users_of(system, worker),
        driver_environment=write.driver.environ(),
        worker_environment=worker.environ(),
        holders=_holders(system, str(urlsplit(system.url).password)),
    )


def _holders(system: System, text: str) -> set[str]:
    """Return the names of variables that have the text in them, in the environment with which any of these processes was started."""
    found = set()
    for process in _of_airflow(system):
        with suppress(psutil.Error):  # one that ends meanwhile has no environment, and only root may ask for it
            found |= {name for name, value in process.environ().items() if text in value}
    return found


def _of_airflow(system: System) -> Iterator[psutil.Process]:
    """Yield the components of Airflow, and all that they have started: tasks, JVMs, drivers and their workers."""
    for part, child in system.stack.parts().items():
        if part not in ("Postgres", "Kafka"):
            process = psutil.Process(child.pid)
            yield from (process, *process.children(recursive=True))
