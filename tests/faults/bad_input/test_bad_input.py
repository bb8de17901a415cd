"""Records of every bad class through Kafka, Spark and Postgres: each affects only itself, and none is changed silently."""

import os
import subprocess
import sys
from pathlib import Path

import records
from faults.bad_input import kinds_page
from faults.bad_input.classes import BAD, CLASSES
from faults.bad_input.fates import Case, Filtered
from faults.bad_input.loads import Load, loads
from faults.bad_input.mixing import mixed
from faults.bad_input.sending import CONFIG, Sending
from tideline import flow
from tideline.domain.offsets import OffsetRange
from tideline.domain.requests import NamedRange
from tideline.errors import NeedsOperatorError
from tideline.kafka.broker import Broker

TESTS = Path(__file__).parents[2]


def is_as_it_should_be(load: Load) -> None:
    problems = load.loaded.problems()
    assert not problems, "\n" + "\n".join(problems)


def test_there_are_more_than_forty_kinds_of_bad_records_and_no_two_have_one_name():
    assert len(CLASSES) == len(BAD) + 1 > 40


def test_the_page_of_kinds_lists_those_that_are_sent():
    assert kinds_page.PAGE.read_text(encoding="utf-8") == kinds_page.page(), kinds_page.COMMAND


def test_decoding_keeps_or_rejects_each_record_once_whatever_its_bytes(share, first_seed):
    """Decode in another process: a crash of it must not end this one."""
    command = [sys.executable, "-m", "faults.bad_input", "--parser-only"]
    command += ["--records", str(share.parsed_records), "--first-seed", str(first_seed)]
    environment = {**os.environ, "PYTHONPATH": str(TESTS)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-500:] + done.stderr[-5000:]


def test_a_bad_record_of_any_kind_costs_itself_only(loading, n_records, first_seed, tally):
    sent = list(mixed(first_seed, n_records))
    assert {name for name, _ in sent} == CLASSES.keys()
    for load in loads(loading, sent):
        load.run()
        is_as_it_should_be(load)
        expected = load.loaded.counts()
        assert load.counts() == {"read": len(sent), **expected}
        before = load.loaded.state()
        load.replay()
        is_as_it_should_be(load)
        assert load.loaded.state() == before
        load.redrive()
        is_as_it_should_be(load)
        assert load.loaded.state() == before
        tally("bad_input", seed=first_seed, pipeline=load.loaded.declared.name, records=len(sent), **expected)


def test_a_timestamp_that_spark_cannot_hold_stops_its_batch_until_it_is_skipped(loading):
    """Spark refuses the record before Tideline's code sees it. Its error names the offset, which an operator can skip."""
    topic = records.create(loading.bootstrap, **CONFIG)
    cases = [("good", Case(value=records.record(number).encode(), typed=Filtered())) for number in range(5)]
    odd = Case(value=records.record(5).encode(), typed=Filtered(), timestamp_ms=2**62, by_hand=True)
    sending = Sending(loading.bootstrap, topic)
    for name, case in [*cases, ("odd", odd)]:
        sending.send(0, name, case)
        sending.flush()
    records.produce(loading.bootstrap, topic, map(records.record, range(6, 10)))
    loading.declare(topic)
    assert f"{topic} partition 0 offset 5 has timestamp value {2**62}" in loading.refusal(NeedsOperatorError)
    with loading.ledger() as ledger:
        piece = NamedRange(topic, 0, OffsetRange(5, 6))
        flow.skip(ledger, Broker(loading.pipeline.source), loading.pipeline, piece, reason="microseconds")
    loading.run()
    assert loading.heads() == [10]
    assert [row[0] for _, row in sorted(loading.output().items())] == [0, 1, 2, 3, 4, 6, 7, 8, 9]
