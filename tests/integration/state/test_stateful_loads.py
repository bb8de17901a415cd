"""A stateful pipeline on a real broker, a real Spark and a real Postgres: after every commit rows and states are those of one fold in memory."""

import random

import pytest

import records
from given_ledger.decisions import skip
from loads.sessions import TARGET, check, declare, kept, rows, send, transform
from servers.cutting_proxy import CuttingProxy, cut_after, cut_before
from tideline.errors import FatalError, NeedsOperatorError, RetryableError
from tideline.ledger.attempts import Writer
from tideline.ledger.connection import Ledger
from tideline.spark_jobs import stateful, write_batches

PARTITIONS = 3


def clicks(seed, count, *, start=0.0):
    """Draw clicks in order of time; each user has one partition. Some are refused by the processor."""
    draw = random.Random(seed)
    minute = start
    for _ in range(count):
        minute += draw.choice([0, 0.5, 1, 4])
        user = draw.randrange(40)
        yield user % PARTITIONS, f"u{user}", minute, draw.choice([1, 2.5, None, 13])


def test_sessions_over_several_batches_are_those_of_one_fold_in_memory(loading, monkeypatch):
    """Of the first batches, each partition is read by several tasks, and several tasks fold with few keys at once. The last one has one task."""
    topic = records.create(loading.bootstrap, partitions=PARTITIONS)
    declare(loading, topic, limits={"batch_records": 200, "split_records": 20}, state={"max_bytes": 16 << 20})
    sent = list(clicks(1, 500))
    send(loading, topic, sent)
    with monkeypatch.context() as small:
        small.setattr(stateful, "WORTH_A_TASK", 1)
        assert len(loading.run()) == 3
    declare(loading, topic)
    more = list(clicks(2, 100, start=sent[-1][2] + 10))
    send(loading, topic, more)
    loading.run()
    found = check(loading, sent + more)
    assert len(found.rows) > 50
    assert len(found.kept()) > 5
    assert loading.counts() == {
        "n_read": 600, "n_written": 0, "n_rejected": len(found.rejects), "n_filtered": 600 - len(found.rejects), "n_gap": 0,
    }  # fmt: skip
    assert loading.staging_tables() == []
    assert loading.rows("SELECT max(seq)::int, sum(n_expired)::int FROM tideline.state_batch") == [(4, len(found.rows))]


def test_what_cannot_be_folded_is_a_reject_with_its_bytes_and_its_reason(loading):
    topic = records.create(loading.bootstrap, partitions=2)
    declare(loading, topic, state={"lateness_minutes": 10})
    first = [(0, "ada", 60, 1), (1, "eve", 60, 1)]
    send(loading, topic, first)
    loading.run()
    second = [
        (0, "ada", 49.5, 1),
        (0, "ada", 50, 2),
        (0, "eve", 61, 1),
        (0, None, 61, 1),
        (0, "ada", None, 1),
        (0, "ada", 62, 13),
    ]
    send(loading, topic, second)
    records.produce(loading.bootstrap, topic, [b"{bad"], first_partition=1)
    loading.run()
    found = {place: (step, reason.split(":")[0]) for place, (step, reason, _) in loading.rejects().items()}
    assert found == {
        (0, 1): ("transform", "late"),
        (0, 3): ("transform", f'key ["eve"] belongs to {topic}/1, and a key has one partition'),
        (0, 4): ("transform", "no key"),
        (0, 5): ("transform", "no event time"),
        (0, 6): ("transform", "ValueError"),
        (1, 1): ("decode", found[1, 1][1]),
    }
    assert loading.rejects()[0, 4][2] == b'{"user_id": null, "at": "2026-11-01T01:01:00+00:00", "price": "1"}'
    assert kept(loading)['["ada"]'][0]["clicks"] == 2
    assert loading.counts() == {"n_read": 9, "n_written": 0, "n_rejected": 6, "n_filtered": 3, "n_gap": 0}


def written_through(loading, url, batch_id, try_number=1):
    """Write a batch over another connection of the driver with the ledger."""
    writer = Writer(dag_id="test", run_id="one", task_id="write", try_number=try_number)
    with Ledger(url, actor="test") as ledger:
        write_batches.write(ledger, loading.pipeline, batch_id, writer)


@pytest.mark.parametrize("cut", [cut_before, cut_after], ids=["before", "after"])
def test_a_driver_that_is_cut_off_before_or_after_the_publishing_commit_gives_the_same(loading, cut):
    topic = records.create(loading.bootstrap, partitions=PARTITIONS)
    declare(loading, topic)
    sent = list(clicks(3, 150))
    send(loading, topic, sent)
    loading.run()
    more = list(clicks(4, 100, start=sent[-1][2]))
    send(loading, topic, more)
    [batch_id] = loading.plan("one")
    with CuttingProxy(loading.url) as proxy:

        def arm(server, data):
            proxy.at("COMMIT", cut)
            return True

        proxy.at("SET state = 'published'", arm)
        if cut is cut_before:
            with pytest.raises(RetryableError, match="lost during COMMIT"):
                written_through(loading, proxy.url, batch_id)
            assert loading.states()[-1] == "failed"
            check(loading, sent)
        else:
            written_through(loading, proxy.url, batch_id)
        assert proxy.acted.is_set()
    written_through(loading, loading.url, batch_id, try_number=2)
    check(loading, sent + more)
    assert loading.rows("SELECT max(seq)::int, count(*)::int FROM tideline.state_batch") == [(2, 2)]


def test_a_task_that_dies_and_runs_again_folds_its_records_once(loading, tmp_path):
    dying = f"""
        import os, pathlib
        on_record = Sessions.on_record
        def dies_once(self, key, record, state):
            died = pathlib.Path({str(tmp_path / "died")!r})
            if record["kafka"]["offset"] == 40 and not died.exists():
                died.touch()
                os._exit(1)
            return on_record(self, key, record, state)
        Sessions.on_record = dies_once
    """
    topic = records.create(loading.bootstrap, partitions=1)
    sent = [(0, user, minute, price) for _, user, minute, price in clicks(5, 120)]
    send(loading, topic, sent)
    declare(loading, topic, text=transform(more=dying), state={"max_bytes": 16 << 20})
    loading.run()
    assert (tmp_path / "died").exists()
    assert len(check(loading, sent).rows) > 5


@pytest.mark.parametrize(
    ("law", "reason"),
    [
        ("CHECK (clicks < 3)", '{topic}/0 offset 2: RefusedError: new row for relation "output" violates'),
        ("UNIQUE (clicks)", "{topic}/0 offset 6: duplicate key value violates"),
    ],
)  # fmt: skip
def test_a_row_that_the_table_refuses_fails_the_batch_names_its_record_and_changes_nothing(loading, law, reason):
    topic = records.create(loading.bootstrap)
    declare(loading, topic)
    send(loading, topic, [(0, "ada", 0, 1)])
    loading.run()
    before = kept(loading)
    loading.rows(f"ALTER TABLE ads.output ADD CONSTRAINT law {law}; SELECT 1")
    sent = [
        (0, "ada", 1, 1),
        (0, "ada", 2, 1),
        (0, "eve", 3, 1),
        (0, "eve", 4, 1),
        (0, "bob", 5, 1),
        (0, "bob", 6, 1),
        (0, "cy", 90, 1),
    ]
    send(loading, topic, sent)
    batch_ids = loading.plan("one")
    with pytest.raises(FatalError) as caught:
        loading.write("one", batch_ids)
    refused = f"refuses a row that the processor has made of the record at {reason.format(topic=topic)}"
    assert refused in caught.value.problem
    assert (rows(loading), kept(loading), loading.states()[-1]) == ([], before, "failed")
    loading.rows("ALTER TABLE ads.output DROP CONSTRAINT law; SELECT 1")
    loading.write("one", batch_ids, try_number=2)
    check(loading, [(0, "ada", 0, 1), *sent])


def test_a_timer_that_fails_names_its_key_and_ends_the_job_before_the_batches_after_it(loading):
    topic = records.create(loading.bootstrap)
    failing = "def fails(self, key, state): raise KeyError('country')\nSessions.on_expiry = fails"
    declare(loading, topic, text=transform(more=failing), batch_records=2)
    sent = [(0, "ada", 0, 1), (0, "bob", 1, 1), (0, "bob", 40, 1), (0, "bob", 41, 1), (0, "bob", 42, 1)]
    send(loading, topic, sent)
    batch_ids = loading.plan("one")
    writer = Writer(dag_id="test", run_id="one", task_id="write", try_number=1)
    with loading.ledger() as ledger, pytest.raises(FatalError) as caught:
        write_batches.write_all(ledger, loading.pipeline, batch_ids, writer)
    assert (
        f'`on_expiry` of transform.py failed for key ["bob"] of {topic}/0 at 2026-11-01T00:31:00'
        in caught.value.problem
    )
    assert caught.value.entry == "state-cannot-be-folded"
    assert loading.states() == ["published", "failed", "planned"]
    loading.transform(transform())
    loading.write("one", batch_ids, try_number=2)
    check(loading, sent)


def test_stored_states_that_do_not_fit_the_declaration_are_refused_before_the_read_and_a_renamed_column_is_found(
    loading,
):
    topic = records.create(loading.bootstrap)
    declare(loading, topic)
    sent = [(0, "ada", 0, 1), (0, "ada", 1, 2)]
    send(loading, topic, sent[:1])
    loading.run()
    send(loading, topic, sent[1:])
    batch_ids = loading.plan("one")
    for state, problem in (
        (
            {"columns": {"first": "timestamp", "clicks": "int", "revenue": "decimal(18,6)"}},
            "expected clicks to be bigint, found int",
        ),
        ({"key": "price"}, "expected the key user_id string, found price decimal(18,6)"),
    ):
        declare(loading, topic, state=state)
        with pytest.raises(FatalError) as caught:
            loading.write("one", batch_ids)
        assert problem in caught.value.problem
    renamed = {
        "columns": {"first": "timestamp", "visits": "bigint", "revenue": "decimal(18,6)", "more": "date"},
        "renamed": {"visits": "clicks"},
    }
    text = transform().replace('"clicks"] += 1', '"visits"] += 1').replace('"clicks": 0', '"visits": 0')
    declare(loading, topic, state=renamed, text=text)
    loading.write("one", batch_ids)
    assert kept(loading)['["ada"]'][0] == {"first": "2026-11-01T00:00:00Z", "visits": 2, "revenue": "3.000000"}


TELLING = """
    on_record = Sessions.on_record
    def tells(self, key, record, state):
        on_record(self, key, record, state)
        yield {"user_id": key, "clicks": state.value["clicks"]}
    Sessions.on_record = tells
"""


@pytest.mark.parametrize("on_gap", ["keep", "reset"])
def test_after_a_gap_keys_go_on_or_begin_anew_as_declared(loading, on_gap):
    topic = records.create(loading.bootstrap)
    declare(loading, topic, state={"on_gap": on_gap}, text=transform(more=TELLING))
    send(loading, topic, [(0, "ada", 0, 1), (0, "bob", 0, 1)])
    loading.run()
    send(loading, topic, [(0, "ada", 1, 1), (0, "ada", 2, 1)])
    skip(loading.url, loading.pipeline, 2, 3)
    loading.run()
    found = {key: value["clicks"] for key, (value, _, _) in kept(loading).items()}
    assert found == ({'["ada"]': 2, '["bob"]': 1} if on_gap == "keep" else {'["ada"]': 1})
    assert [(row[0], row[2], row[5]) for row in rows(loading)] == [
        ("ada", 1, 0),
        ("bob", 1, 1),
        ("ada", found['["ada"]'], 3),
    ]
    assert loading.counts() == {"n_read": 3, "n_written": 3, "n_rejected": 0, "n_filtered": 0, "n_gap": 0}


def test_a_batch_that_was_planned_without_a_state_is_not_folded(loading):
    topic = records.create(loading.bootstrap)
    coordinates = TARGET[TARGET.index("    kafka_topic_id") :]
    target = f"CREATE SCHEMA ads; CREATE TABLE ads.output (user_id text, {coordinates}"
    loading.declare(topic, columns={"user_id": "string"}, target=target)
    send(loading, topic, [(0, "ada", 0, 1)])
    batch_ids = loading.plan("one")
    declare(loading, topic)
    with pytest.raises(NeedsOperatorError, match="was planned without a state, and the pipeline is declared with one"):
        loading.write("one", batch_ids)
