"""What containers run, on a real broker and a real Postgres: no test starts a container."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing

import psycopg2
import pytest
from ruamel.yaml import YAML

from tideline.deployment import secret
from tideline.settings import PROJECT
from tideline_stack import ports
from tideline_stack.postgres import Postgres


@pytest.fixture
def check():
    """Run the check as Docker does, at another port; return its exit code."""
    compose = YAML(typ="safe").load((PROJECT / "docker-compose.yaml").read_text(encoding="utf-8"))
    bash, option, script = compose["services"]["kafka"]["healthcheck"]["test"][1:]

    def run(port):
        asked = script.replace("$$", "$").replace("/9092", f"/{port}")
        return subprocess.run([bash, option, asked], capture_output=True, timeout=180, check=False).returncode

    return run


def test_a_broker_that_answers_is_healthy(check, broker):
    assert check(broker.port) == 0


def test_a_port_without_a_listener_is_not_healthy(check):
    assert check(ports.choose()) != 0


def test_a_server_that_is_no_broker_is_not_healthy(check, postgres):
    assert check(postgres.port) != 0


@pytest.fixture
def server(tmp_path) -> Iterator[Postgres]:
    """Start a server of its own: the names of the roles are those of a whole server."""
    started = Postgres(tmp_path / "postgres")
    started.start()
    for name in ("warehouse", "airflow"):
        started.ensure_database(name)
    yield started
    started.stop()


def test_the_logins_of_the_file_are_made_also_if_the_containers_start_again(server):
    compose = YAML(typ="safe").load((PROJECT / "docker-compose.yaml").read_text(encoding="utf-8"))
    service = compose["services"]["airflow-init"]
    assert "python -m tideline.deployment.container_logins &&" in service["command"]
    admin = server.url("").split(":")[2].partition("@")[0]

    def filled(text: str) -> str:
        value = re.sub(r"\$\{POSTGRES_PASSWORD:[^}]*\}", admin, text)
        value = re.sub(r"\$\{(\w+):[^}]*\}", lambda name: secret.marked(name[1].replace("_", "")), value)
        return value.replace("@postgres:5432", f"@127.0.0.1:{server.port}")

    given = {name: filled(value) for name, value in service["environment"].items()}
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-m", "tideline.deployment.container_logins"],
            env=os.environ | given,
            check=False,
            capture_output=True,
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    urls = [
        value.replace("+psycopg2", "")
        for value in given.values()
        if value.startswith("postgresql") and "/" in value[15:]
    ]
    logins = {}
    for url in urls:
        if url != given["ADMIN_URL"]:
            with closing(psycopg2.connect(url)) as connection, connection.cursor() as cursor:
                cursor.execute(
                    "SELECT current_user::text, current_database()::text, rolsuper FROM pg_roles WHERE rolname = current_user"
                )
                user, *rest = cursor.fetchone()
                logins[user] = tuple(rest)
    of_ledger = {f"tideline_{duty}": ("warehouse", False) for duty in ("operator", "writer", "stager", "reader")}
    assert logins == {**of_ledger, "airflow": ("airflow", False)}
