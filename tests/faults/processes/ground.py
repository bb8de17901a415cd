"""Provide what the processes of one worker share: a server, a database with a ledger, a proxy in front of it, and the
pipelines declared so far."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg2
from psycopg2.extensions import make_dsn, parse_dsn

from faults.checker.snapshots import snapshot
from faults.processes.process import HelperProcess
from faults.processes.process_pipelines import Output, declared
from faults.processes.zygote import Zygote
from servers.cutting_proxy import CuttingProxy
from tideline.declaration.pipelines import Pipeline
from tideline.ledger.connection import Ledger
from tideline.ledger.migrate import migrate
from tideline_stack.postgres import Postgres

# A process opens a dozen sessions, so each has to be cheap. The tests crash processes, not the machine, so fsync would protect nothing. A deadlock
# must be reported before the conductor's patience ends.
_SETTINGS = {"jit": "off", "fsync": "off", "deadlock_timeout": "50ms"}
LEDGER = "faults"
"""The database with an empty ledger, used as the template of copies."""


class Ground:
    """The environment of one worker. Crashes of other workers do not reach it.

    Args:
        folder: For the server's data, and for declarations.
        server: The running server.
        zygote: Starts its processes.
        proxy: The proxy in front of the database.
    """

    def __init__(self, folder: Path, server: Postgres, zygote: Zygote, proxy: CuttingProxy) -> None:
        self.server = server
        self.zygote = zygote
        self.proxy = proxy
        self.url = server.url(LEDGER)
        self.helper = HelperProcess(*zygote.start(None))
        self._folder = folder
        self._declared = 0
        self._sessions: dict[str, psycopg2.extensions.connection] = {}
        self._snapshots: dict[str, psycopg2.extensions.connection] = {}

    def declare(self, output: Output = Output.APPENDED, **source: object) -> Pipeline:
        """Declare one more pipeline, with an output of its own; `source` holds more keys of that section, and those of
        `limits`."""
        self._declared += 1
        return declared(self._folder / f"pipeline_{self._declared}", output, **source)

    def urls(self, database: str | None = None) -> tuple[str, str]:
        """Return the URLs of a database, by default the one with the ledger: directly to the server, and through the
        proxy."""
        name = database or parse_dsn(self.url)["dbname"]
        return self.server.url(name), make_dsn(self.proxy.url, dbname=name)

    def query(self, sql: str, *parameters: object, url: str | None = None) -> list[tuple[Any, ...]]:
        """Run one statement, outside of all processes under test."""
        url = url or self.url
        session = self._sessions.get(url)
        if session is None or session.closed:
            session = self._sessions[url] = psycopg2.connect(url)
            session.autocommit = True
        try:
            with session.cursor() as cursor:
                cursor.execute(sql, parameters or None)
                return cursor.fetchall() if cursor.description else []
        except (psycopg2.OperationalError, psycopg2.InterfaceError):
            session.close()
            raise

    @contextmanager
    def database(self, template: str = "template0") -> Iterator[str]:
        """Create a database, and drop it afterwards."""
        self._declared += 1
        name = f"database_{self._declared}"
        admin = self.server.url("postgres")
        self.query(f"CREATE DATABASE {name} TEMPLATE {template}", url=admin)
        try:
            yield name
        finally:
            for sessions in (self._sessions, self._snapshots):
                if self.server.url(name) in sessions:
                    sessions.pop(self.server.url(name)).close()
            self.query(f"DROP DATABASE {name} WITH (FORCE)", url=admin)

    @contextmanager
    def own_database(self) -> Iterator[None]:
        """Use a new copy of the ledger's database for a while: what many schedules leave behind would slow down the
        next ones."""
        with self.database(LEDGER) as name:
            before, self.url = self.url, self.server.url(name)
            try:
                yield
            finally:
                self.url = before
                self._restart_helper()

    def crash(self) -> None:
        """Kill one of the server's processes, as the out-of-memory killer does: all sessions end, and the server
        recovers."""
        [(backend,)] = self.query("SELECT pg_backend_pid()")
        witness = psycopg2.connect(self.url)
        os.kill(backend, signal.SIGKILL)
        self._wait(lambda: not _answers(witness))
        witness.close()
        self.close()
        self._wait(self._is_up)
        self._restart_helper()

    @staticmethod
    def _wait(condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 180
        while not condition():
            if time.monotonic() > deadline:
                raise TimeoutError("the server does not recover")
            time.sleep(0.02)

    def _is_up(self) -> bool:
        if not self.server.child.alive():
            # Postgres bug 17731: if the creation of an unlogged table has just been rolled back, the first recovery finds a file in its way and
            # gives up. The second one succeeds. In production, the supervisor of the server starts it again.
            self.server.start()
        try:
            self.query("SELECT 1")
        except psycopg2.OperationalError:
            return False
        return True

    def _restart_helper(self) -> None:
        self.helper.end()
        self.helper = HelperProcess(*self.zygote.start(None))

    def snapshot(self, url: str) -> psycopg2.extensions.connection:
        """Return a session for the checker. The caller rolls it back after use."""
        session = self._snapshots.get(url)
        if session is None or session.closed:
            session = self._snapshots[url] = snapshot(url, "checker")
        return session

    def close(self) -> None:
        """End the sessions."""
        for sessions in (self._sessions, self._snapshots):
            for session in sessions.values():
                session.close()
            sessions.clear()


def _answers(session: psycopg2.extensions.connection) -> bool:
    try:
        with session.cursor() as cursor:
            cursor.execute("SELECT 1")
    except psycopg2.OperationalError:
        return False
    return True


@contextmanager
def ground(folder: Path) -> Iterator[Ground]:
    """Provide an environment with a server of its own. Call this before anything else: the zygote must inherit no
    connection and no thread."""
    with Zygote() as zygote:
        server = Postgres(folder / "postgres", settings=_SETTINGS)
        server.start()
        try:
            server.ensure_database(LEDGER)
            with Ledger(server.url(LEDGER), actor="harness") as ledger:
                migrate(ledger)
                # An ADBC session reads all types, which takes longer than a small batch. A third of the types belong to these views.
                ledger.connection.cursor().execute("DROP SCHEMA information_schema CASCADE")
                ledger.connection.commit()
            with CuttingProxy(server.url(LEDGER)) as proxy:
                place = Ground(folder, server, zygote, proxy)
                with place.own_database():
                    yield place
                place.close()
        finally:
            server.stop()
