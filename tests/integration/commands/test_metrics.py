"""The numbers for monitoring systems: they are those of the other commands, and what does not answer takes none of the others with it."""

import re
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from uuid import UUID, uuid4

import psycopg2
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from prometheus_client.parser import text_string_to_metric_families as of_the_older_format

from given_ledger import ledgers
from given_topics import topics
from servers import cli_process
from servers.cli_process import NAME, Cli
from tideline import flow
from tideline.declaration import pipelines
from tideline.deployment import secret
from tideline.domain.offsets import OffsetRange
from tideline.domain.requests import NamedRange
from tideline.kafka.broker import Broker
from tideline.ledger import attempts
from tideline.ledger.connection import Ledger
from tideline.metrics import brokers
from tideline.metrics.brokers import SECONDS
from tideline.metrics.catalogue import DURATION, GAUGES, PREFIX
from tideline.metrics.collecting import collect
from tideline.settings import PROJECT

STATEFUL = "visits"


@dataclass(frozen=True, kw_only=True)
class World:
    """Partition 0: [0, 6) loaded with two rejects, [6, 8) skipped, [8, 12) planned and failed; its records are an hour old."""

    cli: Cli
    url: str
    topic: str


@pytest.fixture(scope="module")
def world(tmp_path_factory, broker, admin, postgres, ledger_template) -> Iterator[World]:
    topic = topics.created(admin, f"ads_{uuid4().hex[:8]}", partitions=1)
    with (
        ledgers.copy_of(postgres, ledger_template) as url,
        cli_process.shell(tmp_path_factory.mktemp("pipelines"), url, broker.bootstrap) as cli,
        Ledger(url, actor="airflow") as ledger,
    ):
        pipeline = pipelines.load(cli.declare(NAME, topic))
        cli.declare("broken", topic, description=7)
        topics.produce(broker, topic, 6, partition=0)
        cli_process.load(cli, ledger, rejected=2)
        topics.produce(broker, topic, 6, partition=0, timestamp=round(time.time() * 1_000) - 3_600_000)
        flow.skip(ledger, Broker(pipeline.source), pipeline, NamedRange(topic, 0, OffsetRange(6, 8)), reason="poison")
        (failed,) = cli_process.plan(cli, ledger, "manual__2")
        attempts.fail(ledger, ledgers.claim(ledger, failed), "no room")
        with ledger.connection as connection, connection.cursor() as cursor:
            _keep_states(cursor)
        yield World(cli=cli, url=url, topic=topic)


def _keep_states(cursor) -> None:
    """Insert a stateful pipeline with a thousand keys."""
    cursor.execute(
        "SET LOCAL session_replication_role = replica;"
        "INSERT INTO tideline.pipeline VALUES (%(name)s);"
        "INSERT INTO tideline.stream (pipeline, cluster_id, topic, topic_id, partition, start_offset, next_offset)"
        " VALUES (%(name)s, 'c', 'visits', %(topic_id)s, 0, 0, 0);"
        "INSERT INTO tideline.state_position SELECT stream_id, pipeline, 0, now(), 1, NULL FROM tideline.stream WHERE pipeline = %(name)s;"
        "INSERT INTO tideline.state SELECT pipeline, n::text, stream_id, '{}', now(), n, 1 FROM tideline.stream, generate_series(1, 1000) AS n"
        " WHERE pipeline = %(name)s; ANALYZE tideline.state",
        {"name": STATEFUL, "topic_id": str(UUID(int=9))},
    )


def numbers(cli: Cli) -> dict[tuple[str, ...], float]:
    """Return the samples of `tideline metrics`."""
    return parsed(cli("metrics").stdout)


def parsed(text: str, parser=text_string_to_metric_families) -> dict[tuple[str, ...], float]:
    """Return samples by name and by the values of their labels, in the order of the labels' names, as an official parser reads them."""
    return {
        (sample.name.removeprefix(PREFIX), *(sample.labels[name] for name in sorted(sample.labels))): sample.value
        for family in parser(text)
        for sample in family.samples
    }


def test_the_numbers_are_those_of_the_other_commands(world):
    found = numbers(world.cli)
    (stream,) = world.cli.json("streams", NAME)["streams"]
    place = ("0", NAME, world.topic)  # labels in the order of their names
    assert found["head_offset", *place] == stream["head"] == 8
    assert found["end_offset", *place] == stream["end"] == 12
    assert found["log_start_offset", *place] == stream["log_start"] == 0
    assert found["lag_records", *place] == stream["lag"] == 4
    assert found["headroom_ratio", *place] == stream["headroom_at_least"] == 0.75
    assert found["retention_seconds", NAME, world.topic] == stream["retention_seconds"]
    row = next(row for row in world.cli.json("pipelines")["pipelines"] if row["pipeline"] == NAME)
    states = ("planned", "writing", "failed", "published")
    assert [found["open_batches", NAME, state] for state in states] == [row[f"n_{state}"] for state in states]
    assert [found["streams", NAME, state] for state in ("active", "stopped", "retired")] == [1, 0, 0]
    assert found["streams_stopping", NAME] == 0
    assert found["ledger_up",] == found["broker_up", NAME] == 1
    assert (found["declaration_valid", NAME], found["declaration_valid", "broken"]) == (1, 0)


def test_the_age_of_the_oldest_unread_record_is_exact(world):
    assert 3_600 <= numbers(world.cli)["lag_seconds", "0", NAME, world.topic] < 3_900


def test_holes_rejects_and_recent_work_are_counted(world):
    found = numbers(world.cli)
    assert [found["hole_offsets", kind, NAME] for kind in ("skipped", "lost", "rewound")] == [2, 0, 0]
    assert found["rejects", NAME, "decode"] == 2
    assert [found["recent_records", fate, NAME] for fate in ("written", "rejected", "filtered")] == [4, 2, 0]
    assert found[f"{DURATION}_gcount", NAME] == found[f"{DURATION}_bucket", "+Inf", NAME] == 1
    assert found[f"{DURATION}_bucket", "60.0", NAME] == 1
    assert 0 < found[f"{DURATION}_gsum", NAME] < 60
    assert found["outbox_batches", NAME] == 1
    for since in ("outbox_oldest", "last_planned", "last_published", "oldest_open_batch"):
        assert time.time() - 600 < found[f"{since}_timestamp_seconds", NAME] <= time.time() + 1


def test_a_batch_that_was_published_long_ago_is_not_recent(world):
    with changed(
        world.url, "attempt", "started_at = started_at - interval '2 hours', ended_at = ended_at - interval '2 hours'"
    ):
        found = numbers(world.cli)
    assert found[f"{DURATION}_gcount", NAME] == found["recent_records", "written", NAME] == 0


def test_the_size_of_a_state_is_what_postgres_estimates(world):
    found = numbers(world.cli)
    assert found["state_keys", STATEFUL] == 1_000
    assert 10_000 < found["state_bytes", STATEFUL] < 1_000_000
    assert ("state_keys", NAME) not in found


def test_every_number_of_the_catalogue_has_a_sample(world):
    missing = GAUGES.keys() - {name for name, *_ in numbers(world.cli)}
    assert missing == set()


def test_the_page_lists_every_number_as_it_is_explained_in_the_answer(world):
    page = (PROJECT / "docs" / "monitoring.md").read_text(encoding="utf-8")
    found = re.findall(r"^\| `(\w+)` \| ([\w, -]+) \| (.*) \|$", page, re.MULTILINE)
    listed = {name: (labels, text) for name, labels, text in found if not name.startswith("TIDELINE")}
    for family in text_string_to_metric_families(world.cli("metrics").stdout):
        if family.type != "info":
            labels, text = listed.pop(family.name.removeprefix(PREFIX))
            assert text == family.documentation
            assert all(set(sample.labels) - {"le"} <= set(labels.split(", ")) for sample in family.samples)
    assert listed == {}


def test_node_exporter_gets_the_same_numbers_in_its_older_format(world):
    theirs = parsed(world.cli("metrics", "--textfile").stdout, of_the_older_format)
    assert theirs.keys() == numbers(world.cli).keys()


def test_a_broker_that_does_not_answer_takes_no_other_number_with_it(world):
    with socket.create_server(("127.0.0.1", 0)) as silent:  # accepts connections and answers nothing
        others = [
            declared(world, "refusing", "127.0.0.1:1"),
            declared(world, "silent", f"127.0.0.1:{silent.getsockname()[1]}"),
        ]
        began = time.monotonic()
        try:
            done = world.cli("metrics")
        finally:
            for remove in others:
                remove()
    assert time.monotonic() - began < SECONDS + 6
    found = parsed(done.stdout)
    assert [found["broker_up", name] for name in ("refusing", "silent", NAME)] == [0, 0, 1]
    assert found["lag_records", "0", NAME, world.topic] == 4
    assert done.stderr.count("could not answer") == 2


def test_a_question_that_is_late_is_left_behind_and_not_asked_a_second_time(world, monkeypatch):
    for name, value in {**world.cli.variables, "TIDELINE_PIPELINES": str(world.cli.folder)}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(brokers, "SECONDS", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        remove = declared(world, "silent", f"127.0.0.1:{silent.getsockname()[1]}")
        try:
            for _ in range(2):
                sheet, problems = collect()
                asking = [thread for thread in threading.enumerate() if thread.name == "compare silent"]
                assert sheet.gauges["broker_up"]["silent",] == 0
                assert "silent: the brokers have not answered within 0.5 seconds" in [one.problem for one in problems]
                assert len(asking) == 1
        finally:
            remove()
        asking[0].join(30)
    assert not asking[0].is_alive()


def test_where_the_ledger_is_away_the_ends_of_the_logs_are_still_shown(world):
    away = replace(
        world.cli,
        variables={
            **world.cli.variables,
            "TIDELINE_LEDGER_URL": f"postgresql://me:{secret.marked('hush')}@127.0.0.1:1/x",
        },
    )
    found = numbers(away)
    assert (found["ledger_up",], found["broker_up", NAME], found["end_offset", "0", NAME, world.topic]) == (0, 1, 12)
    assert not {name for name, *_ in found} & {"head_offset", "lag_records", "open_batches", "hole_offsets"}
    assert "hush" not in away("metrics").stderr


def test_a_ledger_that_waits_for_a_lock_delays_the_numbers_by_a_limited_time(world):
    connection = psycopg2.connect(world.url)
    with connection, connection.cursor() as cursor:
        cursor.execute("LOCK tideline.stream IN ACCESS EXCLUSIVE MODE")
        began = time.monotonic()
        found = numbers(world.cli)
        assert time.monotonic() - began < 12
    connection.close()
    assert found["ledger_up",] == 0
    assert found["end_offset", "0", NAME, world.topic] == 12


def test_where_the_declarations_are_missing_the_ledgers_numbers_are_still_shown(world, tmp_path):
    away = replace(world.cli, variables={**world.cli.variables, "TIDELINE_PIPELINES": str(tmp_path / "nowhere")})
    done = away("metrics")
    found = parsed(done.stdout)
    assert (found["ledger_up",], found["head_offset", "0", NAME, world.topic]) == (1, 8)
    assert "nowhere" in done.stderr


def test_only_the_pipelines_that_a_reader_may_see_are_left(world, monkeypatch):
    for name, value in {**world.cli.variables, "TIDELINE_PIPELINES": str(world.cli.folder)}.items():
        monkeypatch.setenv(name, value)
    sheet, problems = collect()
    assert (sheet.pipelines(), problems) == ({NAME, STATEFUL, "broken"}, [])
    sheet.only({STATEFUL})
    left = sheet.openmetrics().decode()
    assert f'"{STATEFUL}"' in left
    assert NAME not in left
    assert "broken" not in left
    assert "tideline_ledger_up 1.0" in left


def declared(world: World, name: str, brokers: str):
    """Declare another pipeline with brokers of its own; return what takes it away again."""
    source = {"bootstrap_servers": brokers, "topics": [world.topic], "value": {"format": "bytes"}}
    folder = world.cli.declare(name, world.topic, source=source)

    def remove() -> None:
        for file in folder.iterdir():
            file.unlink()
        folder.rmdir()

    return remove


@contextmanager
def changed(url: str, table: str, assignment: str) -> Iterator[None]:
    """Change a table for some time, with the laws off; afterwards it is as before."""
    connection = psycopg2.connect(url)
    with connection.cursor() as cursor:
        cursor.execute("SET session_replication_role = replica")
        cursor.execute(f"CREATE TEMPORARY TABLE before AS SELECT * FROM tideline.{table}")
        cursor.execute(f"UPDATE tideline.{table} SET {assignment}")
        connection.commit()
        yield
        cursor.execute(
            f"DELETE FROM tideline.{table}; INSERT INTO tideline.{table} OVERRIDING SYSTEM VALUE SELECT * FROM before"
        )
        connection.commit()
    connection.close()
