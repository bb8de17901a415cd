"""Records of every bad class through Kafka, Spark and Postgres: each affects only itself, and none is changed silently."""

import os
import subprocess
import sys
from pathlib import Path
from random import Random

from faults.bad_input import kinds_page
from faults.bad_input.classes import BAD, CLASSES
from faults.bad_input.loads import Load, loads
from faults.bad_input.mixing import mixed
from faults.bad_input.of_records import BEYOND_SPARK

TESTS = Path(__file__).parents[2]
MEGABYTE = 1 << 20


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


def read_whole_by_the_client(case) -> bool:
    return len(case.value or b"") < MEGABYTE and not any(b"\0" in name for name, _ in case.headers)


def test_a_timestamp_that_spark_cannot_hold_is_null_and_costs_no_other_record(loading, first_seed):
    """Spark refuses the whole range because of one. Producers that write nanoseconds in place of milliseconds make them.

    The client that reads the batch then cuts the name of a header at a NUL: docs/pipelines.md#rejects says so.
    """
    rng = Random(first_seed)
    sent = [(name, case) for name, case in mixed(first_seed, 300) if read_whole_by_the_client(case)]
    for place in sorted(rng.sample(range(len(sent)), 8), reverse=True):
        sent.insert(place, (BEYOND_SPARK.name, BEYOND_SPARK.draw(rng)))
    for load in loads(loading, sent):
        load.run()
        is_as_it_should_be(load)
        assert load.counts() == {"read": len(sent), **load.loaded.counts()}
        before = load.loaded.state()
        load.replay()
        assert load.loaded.state() == before
