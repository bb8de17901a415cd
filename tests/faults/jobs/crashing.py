"""A Postgres and a Kafka broker that crash and come back, with their data and at their old address.

To be used from one thread that outlives them: Linux ends a server with the thread that started it.
"""

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import psutil
import psycopg2

from tideline import settings
from tideline.errors import RetryableError
from tideline.ledger.connection import Ledger
from tideline.ledger.migrate import migrate
from tideline.local import spark
from tideline.local.broker import Broker
from tideline.local.postgres import Postgres

DATABASE = "warehouse"
_COMES_BACK_S = 180
# Small, and quick to recover: a checkpoint twice a minute leaves little to do again. Durability stays as it is.
_POSTGRES = {"shared_buffers": "64MB", "checkpoint_timeout": "30s", "log_min_messages": "warning"}


class Servers:
    """What a write task talks to.

    Args:
        folder: A folder of their own, which other users may pass: Postgres refuses to run as root.
        postgres: Server settings beside those of this room.
        kafka: Properties of the broker.
    """

    def __init__(
        self, folder: Path, *, postgres: dict[str, str] | None = None, kafka: dict[str, str] | None = None
    ) -> None:
        self.folder = folder
        self.postgres = Postgres(folder / "postgres", settings={**_POSTGRES, **(postgres or {})})
        self.broker = Broker(folder / "kafka", settings.PROJECT / ".local" / "jars" / "kafka", properties=kafka)
        self._spark = spark.configure(folder / "spark")

    @property
    def url(self) -> str:
        """The database with ledger and output."""
        return self.postgres.url(DATABASE)

    @property
    def bootstrap(self) -> str:
        """The broker's address."""
        return self.broker.bootstrap

    @property
    def pipelines(self) -> Path:
        """The folder of the pipelines."""
        return self.folder / "pipelines"

    def variables(self) -> dict[str, str]:
        """The variables of everybody who talks to them. They hold a password."""
        return {
            "TIDELINE_LEDGER_URL": self.url,
            "TIDELINE_KAFKA": self.bootstrap,
            "TIDELINE_PIPELINES": str(self.pipelines),
            "TIDELINE_SPARK_PROPERTIES": str(self._spark),
        }

    @contextmanager
    def running(self) -> Iterator["Servers"]:
        """Start both with an empty ledger, and stop them at the end."""
        self.pipelines.mkdir(parents=True)
        try:
            self.broker.launch()
            self.postgres.start()
            self.postgres.ensure_database(DATABASE)
            with Ledger(self.url, actor="test") as ledger:
                migrate(ledger)
            self.broker.wait()
            yield self
        finally:
            self.broker.stop()
            self.postgres.stop()

    def kill_backend(self, pid: int) -> bool:
        """SIGKILL of one session's process: the server ends all the others, recovers, and empties what is not logged.

        False where the session had ended by itself in that moment.
        """
        with closing(psycopg2.connect(self.url)) as witness, witness.cursor() as cursor:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                return False
            if not _within(5, lambda: _is_cut_off(cursor)):
                return False
        assert _within(_COMES_BACK_S, self._answers), "Postgres did not recover"
        return True

    def kill_postmaster(self) -> None:
        """SIGKILL of the server's first process; its sessions find that out by themselves."""
        leader = psutil.Process(self.postgres.child.pid)
        sessions = leader.children()
        leader.kill()
        psutil.wait_procs([leader, *sessions], timeout=_COMES_BACK_S)

    def revive_postgres(self) -> None:
        """Start the server again after a crash."""
        self.postgres.stop()
        deadline = time.monotonic() + _COMES_BACK_S
        while True:
            try:
                self.postgres.start()
            except RetryableError:
                # A session of the server that crashed may still be at work in its memory: Postgres refuses to start beside it.
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.2)
            else:
                return

    def kill_broker(self) -> None:
        """SIGKILL of the broker."""
        broker = psutil.Process(self.broker.child.pid)
        broker.kill()
        psutil.wait_procs([broker], timeout=_COMES_BACK_S)

    def revive_broker(self) -> None:
        """Start the broker again after a crash."""
        self.broker.stop()
        self.broker.start()

    def _answers(self) -> bool:
        try:
            psycopg2.connect(self.url, connect_timeout=5).close()
        except psycopg2.OperationalError:
            return False
        return True


def _is_cut_off(cursor: psycopg2.extensions.cursor) -> bool:
    try:
        cursor.execute("SELECT 1")
    except psycopg2.Error:
        return True
    return False


def _within(seconds: float, condition: Callable[[], bool]) -> bool:
    """Whether the condition comes true in time."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True
