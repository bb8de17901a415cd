"""The numbers that tasks send by Airflow's own metrics: those of `tideline metrics`, summed up for each pipeline."""

import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from uuid import uuid4

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

import statsd_packets
from given_ledger import ledgers
from given_topics import topics
from otlp_collector import collecting, tags_of
from servers import cli_process
from servers.cli_process import NAME, Cli
from statsd_packets import Sent
from tideline.ledger import publications
from tideline.ledger.connection import Ledger
from tideline.metrics.catalogue import GAUGES, PREFIX
from tideline.metrics.sheet import NOT_SENT, OF_PARTITIONS, Sheet, totals
from tideline.settings import PROJECT

TASK = """
import sys
from airflow.sdk.observability.metrics import stats_utils
from airflow.sdk.observability import stats as airflows
airflows.initialize(factory=stats_utils.get_stats_factory(), export_legacy_names=True)  # as Airflow's task runner does
from tideline.airflow import stats
with stats.numbers_afterwards(sys.argv[1], unless_it_succeeds={unless}):
    {work}
print("done")
"""
LAST = TASK.format(unless=False, work="pass")
PLACE = ("0", NAME, "t")


@pytest.fixture(scope="module")
def cli(tmp_path_factory, broker, admin, postgres, ledger_template) -> Iterator[Cli]:
    """Two partitions. Of the first, six records are loaded with two rejects, and three are not; of the second none of four."""
    topic = topics.created(admin, f"ads_{uuid4().hex[:8]}", partitions=2)
    with (
        ledgers.copy_of(postgres, ledger_template) as url,
        cli_process.shell(tmp_path_factory.mktemp("pipelines"), url, broker.bootstrap) as cli,
        Ledger(url, actor="airflow") as ledger,
    ):
        cli.declare(NAME, topic)
        cli.declare("another", topic)
        topics.produce(broker, topic, 6, partition=0)
        cli_process.load(cli, ledger, rejected=2)
        topics.produce(broker, topic, 3, partition=0)
        topics.produce(broker, topic, 4, partition=1)
        yield cli


def run(cli: Cli, code: str = LAST, pipeline: str = NAME, **settings: str) -> subprocess.CompletedProcess[str]:
    """Run the end of a task with Airflow's metrics configured."""
    environment = {**cli.environment, "AIRFLOW_HOME": str(cli.folder.parent / "airflow"), **settings}
    return subprocess.run(
        [sys.executable, "-c", code, pipeline],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def sent(cli: Cli, code: str = LAST, **settings: str) -> list[Sent]:
    """Return what a StatsD server receives until the task has ended."""
    with statsd_packets.receiving() as packets:
        done = run(cli, code, **packets.settings, **settings)
        assert done.returncode == 0, done.stderr
        return packets.all_of(NAME)


def by_name_and_tags(found: list[Sent]) -> dict[tuple[str, ...], float]:
    return {
        (
            one.name.removeprefix("tideline."),
            *(one.tags[tag] for tag in sorted(one.tags) if tag != "pipeline"),
        ): one.value
        for one in found
        if one.kind == "g"
    }


def test_a_statsd_server_gets_the_numbers_of_the_command_summed_up_by_pipeline(cli):
    found = by_name_and_tags(sent(cli))
    assert (found["head_offset",], found["end_offset",], found["lag_records",]) == (6, 13, 7)
    assert found["headroom_ratio",] == 0.75
    assert 0 <= found["lag_seconds",] < 600
    assert (found["broker_up",], found["declaration_valid",], found["streams_stopping",]) == (1, 1, 0)
    samples = [
        sample
        for family in text_string_to_metric_families(cli("metrics").stdout)
        for sample in family.samples
        if sample.labels.get("pipeline") == NAME and "batch_duration" not in sample.name
    ]
    assert {sample.name.removeprefix(PREFIX) for sample in samples} - {name for name, *_ in found} <= NOT_SENT
    for sample in samples:
        name = sample.name.removeprefix(PREFIX)
        if name not in NOT_SENT | OF_PARTITIONS.keys():
            labels = (sample.labels[label] for label in sorted(sample.labels) if label != "pipeline")
            assert found[(name, *labels)] == pytest.approx(sample.value, abs=0.01), name


def test_a_collector_of_opentelemetry_gets_them_as_gauges(cli):
    with collecting() as collector:
        done = run(cli, **collector.settings)
    assert done.returncode == 0, done.stderr
    found = collector.metrics()
    [lag] = found["airflow.tideline.lag_records"].gauge.data_points
    assert (lag.as_double or lag.as_int, tags_of(lag)) == (7, {"pipeline": NAME})
    rejects = {
        tags_of(one)["step"]: one.as_double or one.as_int for one in found["airflow.tideline.rejects"].gauge.data_points
    }
    assert rejects == {"decode": 2, "transform": 0, "store": 0}


def test_only_the_last_task_of_a_run_sends_them_or_one_that_fails(cli):
    fails = TASK.format(unless=True, work="raise LookupError('no such stream')")
    with statsd_packets.receiving() as packets:
        done = run(cli, TASK.format(unless=True, work="pass"), **packets.settings)
        assert (done.stdout, done.returncode) == ("done\n", 0)
        done = run(cli, fails, **packets.settings)
        assert done.stderr.splitlines()[-1] == "LookupError: no such stream"
        packets.of(NAME, "tideline.lag_records")
        assert len(packets.of(NAME, "tideline.declaration_valid")) == 1


@contextmanager
def silent() -> Iterator[tuple[int, socket.socket]]:
    """Listen, and answer nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1], server


def test_without_statsd_and_opentelemetry_neither_the_ledger_nor_a_broker_is_asked(cli):
    with silent() as (port, server):
        done = run(cli, TIDELINE_LEDGER_URL=f"postgresql://u@127.0.0.1:{port}/x", TIDELINE_KAFKA=f"127.0.0.1:{port}")
        assert (done.stdout, done.stderr, done.returncode) == ("done\n", "", 0)
        server.setblocking(False)
        with pytest.raises(BlockingIOError):
            server.accept()


def test_a_ledger_that_is_away_fails_no_task_and_hides_no_number_of_the_brokers(cli):
    found = by_name_and_tags(sent(cli, TIDELINE_LEDGER_URL="postgresql://u@127.0.0.1:1/x"))
    assert (found["broker_up",], found["end_offset",]) == (1, 13)
    assert not {name for name, *_ in found} & {"head_offset", "lag_records", "rejects", "hole_offsets"}


def test_brokers_that_are_away_fail_no_task_and_hide_no_number_of_the_ledger(cli):
    found = by_name_and_tags(sent(cli, TIDELINE_KAFKA="127.0.0.1:1"))
    assert (found["broker_up",], found["head_offset",], found["rejects", "decode"]) == (0, 6, 2)
    assert not {name for name, *_ in found} & {"end_offset", "lag_records", "lag_seconds", "headroom_ratio"}


def test_metrics_that_cannot_be_sent_fail_no_task(cli):
    done = run(cli, AIRFLOW__METRICS__STATSD_ON="True", AIRFLOW__METRICS__STATSD_PORT="no-port")
    assert (done.stdout.splitlines()[-1], done.returncode) == ("done", 0), done.stderr
    assert "a number for Airflow's metrics could not be sent" in done.stdout


def test_a_publication_says_how_long_its_attempt_took(cli):
    with Ledger(cli.variables["TIDELINE_LEDGER_URL"], actor="test") as ledger:
        [published] = publications.of_batches(ledger, [1])
    assert timedelta(0) < published.took < timedelta(minutes=5)


def partitions(*, lag: float, headroom: float | None, retention: float | None) -> Sheet:
    sheet = Sheet()
    for partition, waiting in (("0", 0), ("1", lag)):
        sheet.put("lag_records", waiting, NAME, "t", partition)
    sheet.put("headroom_ratio", headroom, NAME, "t", "1")
    sheet.put("retention_seconds", retention, NAME, "t")
    return sheet


@pytest.mark.parametrize(
    ("sheet", "expected"),
    [
        (partitions(lag=5, headroom=0.25, retention=60), [0.25]),
        (partitions(lag=0, headroom=None, retention=60), [1]),  # else a StatsD server would keep what it was before
        (partitions(lag=5, headroom=None, retention=None), [1]),
        (partitions(lag=5, headroom=None, retention=60), []),
        (Sheet(), []),
    ],
    ids=["small", "all is loaded", "age deletes nothing", "unknown", "brokers are away"],
)
def test_headroom_is_full_where_retention_deletes_nothing_that_is_not_loaded(sheet, expected):
    assert [value for name, _, value in totals(sheet) if name == "headroom_ratio"] == expected


def test_the_page_lists_every_number_that_is_sent(cli):
    page = (PROJECT / "docs" / "monitoring.md").read_text(encoding="utf-8")
    gauges = re.findall(r"^\| (`tideline\.[^|]+) \| gauge \| ([\w, ]+) \|", page, re.MULTILINE)
    listed = {(name, tags) for names, tags in gauges for name in re.findall(r"`tideline\.(\w+)`", names)}
    sent_ones = {
        (name, "pipeline" if name in OF_PARTITIONS else ", ".join(number.labels))
        for name, number in GAUGES.items()
        if name not in NOT_SENT
    }
    assert listed == sent_ones
    left_out = page.partition("Only `/tideline/metrics` has")[2].partition("\n\n")[0]
    assert set(re.findall(r"`(\w+)`", left_out)) == NOT_SENT
