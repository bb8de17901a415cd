"""The health check of the Kafka container, on a real broker: no test starts a container."""

import subprocess

import pytest
from ruamel.yaml import YAML

from tideline.local import ports
from tideline.settings import PROJECT


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
