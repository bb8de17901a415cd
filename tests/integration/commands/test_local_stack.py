"""The local stack starts, keeps its data, and leaves nothing behind, however its owner process ends."""

import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import psutil
import psycopg2
import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tideline.errors import RetryableError
from tideline_stack import supervisor
from tideline_stack.processes import Child, Identity, end, end_recorded, recorded
from tideline_stack.stack import Stack

ROLES = ("TIDELINE_LEDGER_URL", "TIDELINE_WRITER_URL", "TIDELINE_STAGER_URL", "TIDELINE_READER_URL")
_OWNER = """
import sys, time
from pathlib import Path
from tideline_stack.stack import Stack
with Stack(Path(sys.argv[1])) as stack:
    print("up", flush=True)
    time.sleep(600)
"""
_STUBBORN_OWNER = """
import sys, time
from pathlib import Path
from tideline_stack.processes import Child
folder = Path(sys.argv[1]) / "part"
program = "trap '' TERM; sleep 600 & echo started; wait; wait"
child = Child("part", ["sh", "-c", program], log=folder / "part.log", cwd=folder.parent)
child.wait_until(lambda: "started" in child.log.read_text(), seconds=180)
print("up", flush=True)
time.sleep(600)
"""


def eventually(condition, seconds=180):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def kill_owner(program, folder):
    """Run `program` until it reports that it is up, kill it with -9 and return the identities of its parts."""
    with subprocess.Popen([sys.executable, "-c", program, str(folder)], stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout.readline() == "up\n"
        parts = list(recorded(folder).values())
        owner.kill()
    return parts


def consume(topic, settings):
    consumer = Consumer({**settings, "group.id": "test", "auto.offset.reset": "earliest"})
    try:
        consumer.subscribe([topic])
        return consumer.poll(30).value()
    finally:
        consumer.close()


def sasl(stack):
    return {
        "bootstrap.servers": stack.broker.sasl_bootstrap,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": stack.broker.sasl_username,
        "sasl.password": stack.broker.sasl_password,
    }


def urls(stack):
    return [stack.postgres.url("x"), *(value for name, value in stack.environment().items() if name in ROLES)]


@dataclass(frozen=True, slots=True)
class Stopped:
    """A stack that was started, used and stopped, and what was seen of it."""

    folder: Path
    ports: tuple[int, int]
    parts: list[Identity]
    n_alive: int
    shown: str
    """The command lines of its parts."""
    secrets: list[str]


@pytest.fixture(scope="module")
def stopped(tmp_path_factory) -> Stopped:
    """Start a stack whose broker creates topics, write to it, and stop it."""
    folder = tmp_path_factory.mktemp("stack")
    with Stack(folder, broker_properties={"auto.create.topics.enable": "true"}) as stack:
        with psycopg2.connect(stack.environment()["TIDELINE_WRITER_URL"]) as connection:
            connection.cursor().execute("CREATE TABLE kept AS SELECT 7 AS n")
        connection.close()
        producer = Producer({"bootstrap.servers": stack.broker.bootstrap})
        producer.produce("made-by-its-first-record", b"seven")
        assert producer.flush(30) == 0, "the property has not reached the broker"
        parts = [stack.postgres.child.identity, stack.broker.child.identity]
        return Stopped(
            folder=folder,
            ports=(stack.postgres.port, stack.broker.port),
            parts=parts,
            n_alive=sum(part.process() is not None for part in parts),
            shown=" ".join(word for part in parts for word in psutil.Process(part.pid).cmdline()),
            secrets=[stack.broker.sasl_password, *(urlsplit(url).password for url in urls(stack))],
        )


def test_a_stopped_stack_leaves_no_process_and_no_readable_password(stopped):
    assert stopped.n_alive == len(stopped.parts) == 2
    assert not any(part.process() for part in stopped.parts)
    folder = stopped.folder
    passwords = [file for found in ("*/*", "postgres/roles/*/*") for file in folder.glob(found) if file.is_file()]
    for secret in stopped.secrets:
        assert secret not in stopped.shown
        holders = [file for file in passwords if secret in file.read_text()]
        assert holders
        assert {oct(file.stat().st_mode & 0o777) for file in holders} == {"0o600"}
    assert not recorded(folder)


def test_data_outlives_a_restart_on_other_ports(stopped):
    with Stack(stopped.folder) as stack:
        assert stopped.ports != (stack.postgres.port, stack.broker.port)
        connection = psycopg2.connect(stack.postgres.url("warehouse"))
        with connection.cursor() as cursor:
            cursor.execute("SELECT n FROM kept")
            assert cursor.fetchone() == (7,)
        connection.close()
        assert consume("made-by-its-first-record", sasl(stack)) == b"seven"


def test_parts_end_with_a_killed_owner_and_start_again(tmp_path):
    parts = kill_owner(_OWNER, tmp_path)
    assert len(parts) == 2
    eventually(lambda: not any(part.process() for part in parts))
    end_recorded(tmp_path)
    with Stack(tmp_path) as stack:
        stack.postgres.ensure_database("another")


def test_what_outlives_a_killed_owner_is_ended_with_all_it_started(tmp_path):
    (part,) = kill_owner(_STUBBORN_OWNER, tmp_path)
    members = [psutil.Process(part.pid), *psutil.Process(part.pid).children()]
    assert len(members) == 2
    end_recorded(tmp_path, patience=0.2)
    assert not any(member.is_running() and member.status() != psutil.STATUS_ZOMBIE for member in members)
    assert not recorded(tmp_path)


def test_a_process_that_has_the_pid_by_now_is_not_ended():
    with subprocess.Popen(["sleep", "600"], start_new_session=True) as stranger:
        end([Identity(pid=stranger.pid, created=time.time() - 3600)], patience=0.2)
        assert stranger.poll() is None
        stranger.kill()


def test_parts_that_are_killed_are_started_again_with_their_data(tmp_path, capsys):
    """This includes Postgres, whose sessions may outlive it for a moment; during that time no other server can use its shared memory."""
    with Stack(tmp_path) as stack:
        assert stack.failed() == {}
        stack.postgres.ensure_database("kept")
        admin = AdminClient({"bootstrap.servers": stack.broker.bootstrap})
        admin.create_topics([NewTopic("kept", 1)])["kept"].result()
        for part in stack.parts().values():
            psutil.Process(part.pid).kill()
        eventually(lambda: list(stack.failed()) == ["Postgres", "Kafka"])

        def restored():
            supervisor.start_again(stack)
            return stack.failed() == {}

        eventually(restored)
        stack.broker.wait()
        psycopg2.connect(stack.postgres.url("kept")).close()
        assert "kept" in admin.list_topics(timeout=180).topics
    assert "Kafka has ended and is started again\n" in capsys.readouterr().out
    assert not recorded(tmp_path)


def test_a_part_that_dies_early_is_reported_at_once_with_its_log(tmp_path):
    child = Child("the part", ["sh", "-c", "echo the cause; exit 3"], log=tmp_path / "part.log", cwd=tmp_path)
    with pytest.raises(RetryableError, match="the part ended with exit code 3") as error:
        child.wait_until(lambda: False, seconds=600)
    assert "    the cause\n" in str(error.value)
    assert str(tmp_path / "part.log") in error.value.next_step


def test_a_part_that_never_answers_is_ended_by_its_stack(tmp_path):
    stack = Stack(tmp_path, broker_properties={"listeners": "PLAINTEXT://nowhere.invalid:1"})
    with pytest.raises(RetryableError, match="Kafka") as error:
        stack.start()
    assert "nowhere.invalid" in str(error.value) or "listeners" in str(error.value)
    assert not recorded(tmp_path)


def test_ending_asks_before_it_kills(tmp_path):
    program = "trap 'echo asked; exit 0' TERM; echo started; while :; do sleep 0.05; done"
    child = Child("the part", ["sh", "-c", program], log=tmp_path / "part.log", cwd=tmp_path)
    child.wait_until(lambda: "started" in child.log.read_text(), seconds=180)
    child.stop()
    assert child.log.read_text() == "started\nasked\n"


@pytest.mark.skipif(not Path("/proc/self/autogroup").exists(), reason="a system that does not weigh sessions")
def test_a_part_is_as_nice_as_what_has_started_it(tmp_path):
    program = (
        "import os, pathlib, sys; from tideline_stack.processes import Child; os.nice(4); folder = pathlib.Path(sys.argv[1]);"
        "child = Child('the part', ['sleep', '60'], log=folder / 'part.log', cwd=folder);"
        "print(pathlib.Path(f'/proc/{child.pid}/autogroup').read_text()); child.stop()"
    )
    said = subprocess.run([sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, check=True)
    assert said.stdout.strip().endswith(f" nice {min(os.getpriority(os.PRIO_PROCESS, 0) + 4, 19)}")
