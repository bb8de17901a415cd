"""Run a real PgBouncer on loopback, in front of a Postgres."""

import os
import shutil
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from psycopg2.extensions import parse_dsn

from tideline_stack import ports
from tideline_stack.postgres_account import unprivileged
from tideline_stack.processes import Child

_SETTINGS = """\
[databases]
* = host={host} port={server_port} user={user} password={password}
[pgbouncer]
listen_addr = {loopback}
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = {mode}
default_pool_size = {size}
max_client_conn = 500
ignore_startup_parameters = options,extra_float_digits
query_wait_timeout = 60
"""


def program() -> str | None:
    """Return the path of PgBouncer; None if it is not installed (Debian's package is `pgbouncer`)."""
    return shutil.which("pgbouncer", path=f"{os.environ['PATH']}:/usr/sbin")


@contextmanager
def pooled(folder: Path, url: str, *, mode: str, size: int) -> Iterator[str]:
    """Run it until the end of the context. Yield the address that leads over it.

    Args:
        folder: A folder that does not exist. Other users must be able to enter it: PgBouncer refuses to run as root.
        url: libpq URI of the server.
        mode: What becomes free for another client at its end: `session` or `transaction`.
        size: The most connections with the server.
    """
    binary, place, port = program(), parse_dsn(url), ports.choose()
    assert binary is not None
    folder.mkdir()
    account = unprivileged(folder, Path(binary))
    file = folder / "pgbouncer.ini"
    file.touch(mode=0o600)
    file.write_text(
        _SETTINGS.format(
            host=place["host"], server_port=place["port"], user=place["user"], password=place["password"],
            loopback=ports.LOOPBACK, port=port, mode=mode, size=size,
        )
    )  # fmt: skip
    if account.owner:
        for path in (folder, file):
            os.chown(path, *account.owner)
    child = Child(
        "PgBouncer",
        [*account.prefix, binary, str(file)],
        log=folder / "pgbouncer.log",
        cwd=folder,
        user=account.user,
    )
    try:
        child.wait_until(lambda: _accepts(port), seconds=60)
        file.unlink()  # it holds the password
        yield f"postgresql://{place['user']}@{ports.LOOPBACK}:{port}/{place['dbname']}"
    finally:
        child.stop()


def _accepts(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex((ports.LOOPBACK, port)) == 0
