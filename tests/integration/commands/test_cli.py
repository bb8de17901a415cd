"""Output of the command line, for people and for programs, over one ledger and one topic with some history."""

import json
import re
import subprocess
import sys
import time
from base64 import b64decode
from collections.abc import Iterator
from dataclasses import dataclass, replace
from uuid import uuid4

import pytest

from given_ledger import ledgers
from given_topics import topics
from servers import cli_process
from servers.cli_process import NAME, Cli, table
from servers.cli_server import TIDELINE
from tideline import flow
from tideline.declaration import pipelines
from tideline.deployment import secret
from tideline.domain.offsets import OffsetRange
from tideline.domain.requests import NamedRange
from tideline.kafka.broker import Broker
from tideline.ledger import attempts
from tideline.ledger.attempts import Attempt
from tideline.ledger.connection import Ledger
from tideline.ledger.reservations import Run

NASTY = b"\x1b[2J{\xff\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """Partition 0: [0, 2) before the start, [2, 6) loaded with one reject, [6, 8) skipped, [8, 12) unread. Partition 1: [1, 4) loaded."""

    cli: Cli
    url: str
    topic: str
    loaded: int
    failed: int


@pytest.fixture(scope="module")
def world(tmp_path_factory, broker, admin, postgres, ledger_template) -> Iterator[World]:
    topic = topics.created(admin, f"ads_{uuid4().hex[:8]}", partitions=2)
    with (
        ledgers.copy_of(postgres, ledger_template) as url,
        cli_process.shell(tmp_path_factory.mktemp("pipelines"), url, broker.bootstrap) as cli,
        Ledger(url, actor="airflow") as ledger,
    ):
        pipeline = pipelines.load(cli.declare(NAME, topic, start="latest"))
        cli.declare("fresh", topic)
        cli.declare("broken", topic, description=7)
        ledgers.start_streams(ledger, 1, pipeline="forgotten")

        topics.produce(broker, topic, 2, partition=0)
        topics.produce(broker, topic, 1, partition=1)
        assert cli_process.plan(cli, ledger, "manual__0") == []
        topics.produce(broker, topic, 4, partition=0)
        topics.produce(broker, topic, 3, partition=1)
        (loaded,) = cli_process.plan(cli, ledger, "manual__1")
        attempts.fail(ledger, ledgers.claim(ledger, loaded), "the disk is full\nand more")
        write(ledger, ledgers.claim(ledger, loaded))
        flow.advance(ledger, NAME, Run(dag_id=NAME, run_id="manual__1"))
        topics.produce(broker, topic, 6, partition=0)
        flow.skip(
            ledger, Broker(pipeline.source), pipeline, NamedRange(topic, 0, OffsetRange(6, 8)), reason="poison [from]"
        )
        (failed,) = cli_process.plan(cli, ledger, "manual__2")
        attempts.fail(ledger, ledgers.claim(ledger, failed), "no room")
        yield World(cli=cli, url=url, topic=topic, loaded=loaded, failed=failed)


def write(ledger: Ledger, attempt: Attempt) -> None:
    """Publish the attempt as if all its records were good except the first one of partition 0."""
    ledgers.stage(ledger, attempt)
    first = next(piece for piece in attempt.ranges if piece.partition == 0)
    with ledger.transaction():
        headers = json.dumps([{"key": "from", "value": "YQ=="}]).encode()
        cli_process.stage_rejects(
            ledger,
            attempt,
            first.stream_id,
            [first.offsets.start],
            reason="not a \x1b[31mJSON object",
            value=NASTY,
            headers=headers,
        )
    written = {piece.stream_id: len(piece.offsets) for piece in attempt.ranges}
    ledgers.publish(ledger, attempt, written={**written, first.stream_id: len(first.offsets) - 1})


def test_pipelines_are_those_declared_and_those_that_the_ledger_knows(world):
    done = world.cli("pipelines")
    states = {row["pipeline"]: row["state"] for row in table(done)}
    assert states == {
        "broken": "broken declaration",
        "forgotten": "not declared",
        "fresh": "new",
        NAME: "failed batches",
    }
    assert "expected text, found 7" in done.stdout
    rows = {row["pipeline"]: row for row in world.cli.json("pipelines")["pipelines"]}
    assert rows["broken"]["declared"] is False
    assert "description" in rows["broken"]["broken"]
    counts = {name: rows[NAME][name] for name in ("n_streams", "n_active", "n_stopped", "n_failed", "lag")}
    assert counts == {"n_streams": 2, "n_active": 2, "n_stopped": 0, "n_failed": 1, "lag": 4}
    assert rows["forgotten"]["lag"] is None


def test_streams_show_heads_ends_and_lag(world):
    rows = world.cli.json("streams", NAME)["streams"]
    assert [(row["partition"], row["head"], row["end"], row["lag"], row["state"]) for row in rows] == [
        (0, 8, 12, 4, "active"),
        (1, 4, 4, 0, "active"),
    ]
    first, second = table(world.cli("streams", NAME))
    assert first == {
        "topic": world.topic,
        "partition": "0",
        "head": "8",
        "end": "12",
        "lag": "4",
        "headroom": "> 75% of 7 d",
        "state": "active",
        "why": "-",
    }
    assert second["headroom"] == "-"


@pytest.mark.parametrize("ages", [(5, 0), (400, 300), (8_000, 3_600), (100_000, 86_400)])
def test_streams_say_how_old_the_oldest_unread_record_is(cli, ledger, broker, topic, ages):
    age, at_least = ages
    old = int((time.time() - age) * 1000)
    topics.produce(broker, topic, timestamp=old)
    cli_process.load(cli, ledger)
    assert cli.json("streams", NAME)["streams"][0]["behind_seconds_at_least"] is None
    topics.produce(broker, topic, timestamp=old)
    topics.produce(broker, topic)
    assert cli.json("streams", NAME)["streams"][0]["behind_seconds_at_least"] == at_least


def test_where_the_broker_is_silent_streams_show_what_the_ledger_knows(world):
    silent = replace(world.cli, variables={**world.cli.variables, "TIDELINE_KAFKA": "127.0.0.1:1"})
    done = silent("streams", NAME, "--json", code=10)
    document = json.loads(done.stdout)
    assert document["broker_answered"] is False
    assert [(row["head"], row["end"], row["lag"]) for row in document["streams"]] == [(8, None, None), (4, None, None)]
    assert "could not answer" in json.loads(done.stderr)["error"]


def test_batches_come_newest_first_and_by_state_and_kind(world):
    newest, oldest = table(world.cli("batches", NAME))
    assert (newest["batch"], newest["state"], newest["read"], newest["why"]) == (
        str(world.failed),
        "failed",
        "-",
        "no room",
    )
    assert (oldest["batch"], oldest["offsets"], oldest["rejected"]) == (str(world.loaded), "7", "1")
    rows = world.cli.json("batches", NAME, "--state", "advanced", "--kind", "live", "--limit", "1")["batches"]
    assert [(row["batch_id"], row["n_read"], row["n_written"], row["n_rejected"]) for row in rows] == [
        (world.loaded, 7, 6, 1)
    ]
    assert world.cli.json("batches", NAME, "--kind", "replay")["batches"] == []


def test_a_batch_shows_ranges_attempts_and_events(world):
    document = world.cli.json("batch", str(world.loaded))
    assert (document["pipeline"], document["kind"], document["state"], document["run_id"]) == (
        NAME,
        "live",
        "advanced",
        "manual__1",
    )
    assert [
        (row["partition"], row["start_offset"], row["end_offset"], row["n_rejected"]) for row in document["ranges"]
    ] == [
        (0, 2, 6, 1),
        (1, 1, 4, 0),
    ]
    assert [(row["partition"], row["start_offset"], row["end_offset"]) for row in document["owns"]] == [
        (0, 2, 6),
        (1, 1, 4),
    ]
    assert [(row["fence"], row["outcome"], row["problem"]) for row in document["attempts"]] == [
        (1, "failed", "the disk is full\nand more"),
        (2, "published", None),
    ]
    assert [row["action"] for row in document["events"]] == ["plan", "claim", "fail", "claim", "publish", "advance"]
    shown = world.cli("batch", str(world.loaded)).stdout
    assert "Owns now: all of its ranges" in shown
    assert "writing > published" in shown
    assert "Owns now: nothing" in world.cli("batch", str(world.failed)).stdout


def test_coverage_names_each_hole_and_what_lies_before_a_start(world):
    document = world.cli.json("coverage", NAME)
    found = [(row["hole"], row["partition"], row["start_offset"], row["end_offset"]) for row in document["holes"]]
    assert found == [("before start", 0, 0, 2), ("skipped", 0, 6, 8), ("before start", 1, 0, 1)]
    assert document["tiles"] is True
    done = world.cli("coverage", NAME)
    skipped = next(row for row in table(done) if row["what"] == "skipped")
    assert (skipped["offsets"], skipped["count"], skipped["reason"], skipped["who"]) == (
        "[6, 8)",
        "2",
        "poison [from]",
        "airflow",
    )
    assert "Coverage tiles [start, head) of all 2 streams: 7 offsets loaded, 2 skipped, 0 lost." in done.stdout


def test_rejects_are_counted_by_reason_and_listed(world):
    (reason,) = world.cli.json("rejects", NAME, "--by-reason")["reasons"]
    assert (reason["n_records"], reason["step"]) == (1, "decode")
    (reject,) = world.cli.json("rejects", NAME, "--batch", str(world.loaded), "--reason", "json OBJECT")["rejects"]
    assert (reject["topic"], reject["partition"], reject["kafka_offset"]) == (world.topic, 0, 2)
    assert not {"value", "value_base64"} & reject.keys()
    assert world.cli.json("rejects", NAME, "--reason", "no such reason")["rejects"] == []


def test_no_record_writes_to_a_terminal(world):
    done = world.cli("rejects", NAME, "--values")
    assert "\x1b" not in done.stdout
    assert table(done)[0]["value"] == r"\x1b[2J{\xff\n"
    (reject,) = world.cli.json("rejects", NAME, "--values")["rejects"]
    assert b64decode(reject["value_base64"]) == NASTY
    assert (reject["key_base64"], reject["headers"]) == (None, [{"key": "from", "value": "YQ=="}])


def test_a_dry_run_shows_what_a_run_would_load_and_reserves_nothing(world):
    (draft,) = world.cli.json("plan", NAME, "--dry-run")["batches"]
    wanted = {"topic": world.topic, "partition": 0, "start_offset": 8, "end_offset": 12}
    assert draft == {"kind": "live", "ranges": [wanted]}
    (again,) = world.cli.json("plan", NAME, "--dry-run", "--batch", str(world.loaded), "--replace")["batches"]
    assert (again["kind"], len(again["ranges"])) == ("replay", 2)
    past = ["--range", f"{world.topic}/0 [0, 4)", "--range", f"{world.topic}/1 [2,3)"]
    done = world.cli("plan", NAME, "--dry-run", *past)
    assert [(row["kind"], row["ranges"]) for row in table(done)] == [("backfill", f"{world.topic}/0 [0, 2)")]
    assert f"{world.topic}/1 [2, 3): loaded by batch {world.loaded}" in done.stdout
    window = ["--from", "2001-01-01T00:00Z", "--to", "2001-01-01T01:00Z"]
    assert world.cli.json("plan", NAME, "--dry-run", *window)["batches"] == []
    assert [row["batch_id"] for row in world.cli.json("batches", NAME)["batches"]] == [world.failed, world.loaded]


def test_unknown_names_are_refused(world):
    for command in ("streams", "batches", "coverage", "rejects"):
        assert "'clicks'" in world.cli.error(command, "clicks", code=20)["error"]
    error = world.cli.error("batch", "99", code=20)
    assert error == {
        "error": "batch 99 is not in the ledger",
        "next_step": "look its number up: tideline batches PIPELINE",
        "entry": "no-such-batch",
    }
    assert world.cli("batch", "99", code=20).stderr.startswith("batch 99 is not in the ledger\n  Next: look")


def test_a_pipeline_that_is_not_declared_any_more_is_still_shown(world):
    done = world.cli("streams", "forgotten", "--json", code=20)
    assert [row["head"] for row in json.loads(done.stdout)["streams"]] == [0]
    assert "forgotten" in json.loads(done.stderr)["error"]


def test_a_problem_of_the_ledger_is_reported_without_its_password(world, postgres):
    without = replace(world.cli, variables={})
    assert "TIDELINE_LEDGER_URL is not set" in without.error("pipelines", code=20)["error"]
    silent = replace(
        world.cli, variables={"TIDELINE_LEDGER_URL": f"postgresql://ada:{secret.marked('hush')}@127.0.0.1:1/tideline"}
    )
    done = silent("pipelines", code=10)
    assert "cannot be reached" in done.stderr
    assert "hush" not in done.stderr
    empty = replace(world.cli, variables={"TIDELINE_LEDGER_URL": postgres.url("postgres")})
    assert "tideline migrate" in empty.error("batches", NAME, code=20)["next_step"]


EACH_FIRST = """
import importlib, pkgutil, sys
import tideline.reports
for page in list(pkgutil.iter_modules(tideline.reports.__path__, "tideline.reports.")):
    for name in [name for name in sys.modules if name.startswith("tideline.")]:
        del sys.modules[name]
    importlib.import_module("tideline.cli")
    importlib.import_module(page.name)
    print(page.name)
"""


def test_each_report_can_be_the_first_that_a_process_imports():
    """Commands of these tests begin where all reports are imported: see `cli_server`."""
    done = subprocess.run([sys.executable, "-c", EACH_FIRST], capture_output=True, text=True, check=False)
    assert (done.stderr, done.returncode) == ("", 0)
    assert "tideline.reports.doctor" in done.stdout.splitlines()


def test_a_reader_who_leaves_early_is_no_error(world):
    command = [str(TIDELINE), "batch", str(world.loaded), "--json"]
    with subprocess.Popen(
        command, env=world.cli.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        process.stdout.close()  # before the first line: starting the command takes longer than this
        assert process.stderr.read() == b""


def test_a_terminal_gets_colours_and_whole_numbers_however_narrow_it_is(world):
    shown = world.cli.on_a_terminal("batches", NAME, columns=60)
    assert "\x1b[31mfailed" in shown
    plain = re.sub(r"\x1b\[[0-9;]*m", "", shown)
    assert re.search(r"^1 +live +advanced +7 +7 +6 +1 +0 +0 +2 ", plain, re.MULTILINE)
    assert "…" not in plain


def test_a_long_text_is_broken_to_fit_a_terminal(world):
    shown = world.cli.on_a_terminal("doctor", NAME, columns=120)
    plain = re.sub(r"\x1b\[[0-9;]*m", "", shown)
    assert max(map(len, plain.splitlines())) <= 120
