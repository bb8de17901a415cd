"""Run a Postgres and a Kafka broker that crash and recover with their data, at their old address.

Use them from one thread that outlives them: Linux ends a server when the thread that started it ends.
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
from tideline_stack import spark
from tideline_stack.broker import LocalBroker
from tideline_stack.postgres import Postgres

DATABASE = "warehouse"
_RECOVERS_WITHIN_S = 180
# Small, and fast to recover: two checkpoints a minute leave little to replay. Durability settings are the default.
_POSTGRES = {"shared_buffers": "64MB", "checkpoint_timeout": "30s", "log_min_messages": "warning"}


class Servers:
    """The servers that a write task uses.

    Args:
        folder: A folder of their own. Other users must be able to enter it: Postgres refuses to run as root.
        postgres: More server settings.
        kafka: Properties of the broker.
    """

    def __init__(
        self, folder: Path, *, postgres: dict[str, str] | None = None, kafka: dict[str, str] | None = None
    ) -> None:
        self.folder = folder
        self.postgres = Postgres(folder / "postgres", settings={**_POSTGRES, **(postgres or {})})
        self.broker = LocalBroker(folder / "kafka", settings.PROJECT / ".local" / "jars" / "kafka", properties=kafka)
        self._spark = spark.configure(folder / "spark")

    @property
    def url(self) -> str:
        """Return the URL of the database with ledger and output."""
        return self.postgres.url(DATABASE)

    @property
    def bootstrap(self) -> str:
        """Return the broker's address."""
        return self.broker.bootstrap

    @property
    def pipelines(self) -> Path:
        """Return the folder of the pipelines."""
        return self.folder / "pipelines"

    def variables(self) -> dict[str, str]:
        """Return the environment variables of all clients. They hold a password."""
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
        """Send SIGKILL to the backend of one session. The server then ends all others, recovers, and empties unlogged
        tables.

        Return False if the session had just ended by itself.
        """
        with closing(psycopg2.connect(self.url)) as witness, witness.cursor() as cursor:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                return False
            if not _within(5, lambda: _is_cut_off(cursor)):
                return False
        assert _within(_RECOVERS_WITHIN_S, self._answers), "Postgres did not recover"
        return True

    def kill_postmaster(self) -> None:
        """Send SIGKILL to the server's first process, and wait until its backends have noticed and ended."""
        leader = psutil.Process(self.postgres.child.pid)
        sessions = leader.children()
        leader.kill()
        psutil.wait_procs([leader, *sessions], timeout=_RECOVERS_WITHIN_S)

    def revive_postgres(self) -> None:
        """Start the server again after a crash."""
        self.postgres.stop()
        deadline = time.monotonic() + _RECOVERS_WITHIN_S
        while True:
            try:
                self.postgres.start()
            except RetryableError:
                # A backend of the crashed server may still use its shared memory. Postgres refuses to start beside it.
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.2)
            else:
                return

    def kill_broker(self) -> None:
        """Send SIGKILL to the broker."""
        broker = psutil.Process(self.broker.child.pid)
        broker.kill()
        psutil.wait_procs([broker], timeout=_RECOVERS_WITHIN_S)

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
    """Return whether the condition becomes true in time."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True
