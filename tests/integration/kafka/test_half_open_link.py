"""A link that dies without a packet: the peer's machine is gone, or a device in between has dropped the connection."""

import json
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from servers import half_open_link
from servers.half_open_link import WAIT_S
from tideline_stack.postgres import Postgres

SCRIPT = Path(half_open_link.__file__)
DRIVERS = ("ledger", "task")
NAMESPACE = ("unshare", "--user", "--map-root-user", "--net")


@pytest.fixture(scope="module")
def isolated() -> tuple[str, ...]:
    """Return the command that begins a network namespace; skip where the machine forbids it."""
    if shutil.which(NAMESPACE[0]) is None or subprocess.run([*NAMESPACE, "true"], check=False).returncode:
        pytest.skip("this machine lets no ordinary user make a network namespace")
    return NAMESPACE


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """Start a server with a Unix socket, which is reachable from any network namespace."""
    sockets = tmp_path_factory.mktemp("sockets")
    sockets.chmod(0o777)  # where root runs the tests, the server runs as another user
    server = Postgres(tmp_path_factory.mktemp("server"), settings={"unix_socket_directories": str(sockets)})
    server.start()
    yield server, sockets / f".s.PGSQL.{server.port}"
    server.stop()


@pytest.fixture(scope="module")
def waits(isolated, server):
    """Run a wait of each driver, in parallel: each takes half a minute."""
    postgres, socket = server

    def ended(driver):
        command = [*isolated, sys.executable, str(SCRIPT), str(socket), driver]
        return subprocess.run(command, input=postgres.url("postgres"), capture_output=True, text=True, check=False)

    with ThreadPoolExecutor(len(DRIVERS)) as pool:
        return dict(zip(DRIVERS, pool.map(ended, DRIVERS), strict=True))


@pytest.mark.parametrize("driver", DRIVERS)
def test_a_wait_on_a_link_that_died_without_a_word_ends(waits, driver):
    """By itself the kernel notices after two hours, while the driver's heartbeats keep the claim."""
    assert waits[driver].returncode == 0, waits[driver].stderr
    waited = json.loads(waits[driver].stdout)
    assert waited["error"], f"the answer came, after {waited['seconds']} s"
    assert waited["seconds"] < WAIT_S
