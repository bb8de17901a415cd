"""Run a Postgres with a standby that takes its place when it is killed, and then gets a standby of its own."""

import os
import shutil
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import psutil
import psycopg2
from psycopg2.extensions import parse_dsn

from faults.jobs.crashing_servers import DATABASE, Servers
from tideline_stack import ports
from tideline_stack.postgres import Postgres, programs
from tideline_stack.postgres_account import unprivileged
from tideline_stack.processes import Child

# Of everybody on this machine, for the length of a test: so that no password has to stand in the folder of the standby.
_MAY_FOLLOW = f"host replication postgres {ports.LOOPBACK}/32 trust\n"
_WITHIN_S = 60


class FailoverServers(Servers):
    """A primary and a standby, on two ports that clients try in turn, and a broker.

    Args:
        folder: See `Servers`.
        synchronous: Whether a COMMIT waits for the standby.
    """

    def __init__(self, folder: Path, *, synchronous: bool) -> None:
        self._ports = (ports.choose(), ports.choose())
        self._synchronous = synchronous
        self._settings = {"shared_buffers": "64MB", "log_min_messages": "warning", "max_wal_senders": "4"}
        super().__init__(folder)
        self._number = 0
        self.postgres = self._server(self._ports[0])
        self.standby = self._server(self._ports[1])

    @property
    def url(self) -> str:
        """Return the URL of both: a client connects to the one that accepts writes."""
        parts = parse_dsn(self.postgres.url(DATABASE))
        places = ",".join(f"{ports.LOOPBACK}:{port}" for port in self._ports)
        return f"postgresql://{parts['user']}:{parts['password']}@{places}/{DATABASE}?target_session_attrs=read-write"

    @contextmanager
    def running(self) -> Iterator["FailoverServers"]:
        """Start all, the standby last, and stop them at the end."""
        try:
            with super().running():
                rules = self.postgres.directory / "data" / "pg_hba.conf"
                rules.write_text(_MAY_FOLLOW + rules.read_text())
                self._on(self.postgres, "SELECT pg_reload_conf()")
                self.follow()
                yield self
        finally:
            self.standby.stop()

    def follow(self) -> None:
        """Start the standby with a copy of the primary. From then on a COMMIT waits for it, if it is synchronous."""
        folder = self.standby.directory
        folder.mkdir(parents=True)
        shutil.copy(self.postgres.directory / "password", folder / "password")
        account = unprivileged(folder, programs())
        if account.owner:
            for path in (folder, folder / "password"):
                os.chown(path, *account.owner)
        source = f"host={ports.LOOPBACK} port={self.postgres.port} user=postgres application_name=standby"
        copy = ["--pgdata", str(folder / "data"), "--write-recovery-conf", "--checkpoint=fast", "--no-sync"]
        Child(
            "pg_basebackup",
            [*account.prefix, str(programs() / "pg_basebackup"), "--dbname", source, *copy],
            log=folder / "pg_basebackup.log",
            cwd=folder,
            user=account.user,
        ).finish(seconds=120)
        self.standby.start()
        self._on(
            self.postgres, f"ALTER SYSTEM SET synchronous_standby_names = '{'standby' if self._synchronous else ''}'"
        )
        self._on(self.postgres, "SELECT pg_reload_conf()")

    def freeze_standby(self) -> None:
        """Stop the standby for as long as it does not take over: it receives nothing."""
        for process in self._of_standby():
            process.suspend()

    def cut_standby(self) -> None:
        """Let the standby have what there is now, and nothing that comes later."""
        [(place,)] = self._on(self.postgres, "SELECT pg_current_wal_insert_lsn()::text")
        self._wait(f"SELECT pg_last_wal_replay_lsn() >= '{place}'")
        self._on(self.standby, "ALTER SYSTEM SET primary_conninfo = ''")
        self._on(self.standby, "SELECT pg_reload_conf()")
        self._wait("SELECT count(*) = 0 FROM pg_stat_wal_receiver")

    def _wait(self, condition: str) -> None:
        """Wait until a condition holds at the standby."""
        deadline = time.monotonic() + _WITHIN_S
        while self._on(self.standby, condition) != [(True,)]:
            assert time.monotonic() < deadline, f"the standby does not come to: {condition}"
            time.sleep(0.05)

    def fail_over(self) -> None:
        """Kill the primary, let the standby take its place, and give it a standby of its own."""
        self.kill_postmaster()
        for process in self._of_standby():
            process.resume()
        self._on(self.standby, f"SELECT pg_promote(true, {_WITHIN_S})")
        self.postgres.stop()
        lost, self.postgres = self.postgres, self.standby
        self.standby = self._server(lost.port)
        self.follow()

    def _server(self, port: int) -> Postgres:
        self._number += 1
        return Postgres(self.folder / f"postgres-{self._number}", port=port, settings=self._settings)

    def _of_standby(self) -> list[psutil.Process]:
        leader = psutil.Process(self.standby.child.pid)
        return [leader, *leader.children()]

    def _on(self, server: Postgres, statement: str) -> list[tuple[Any, ...]]:
        with closing(psycopg2.connect(server.url(DATABASE))) as connection:
            connection.autocommit = True
            with connection.cursor() as cursor:
                cursor.execute(statement)
                return cursor.fetchall() if cursor.description else []
