"""Re-drives concurrent with each other and with replays, and interrupted ones: each record is in the output or in the rejects, once."""

import threading

import pytest

from loads.loading import (
    ALL,
    WITH_A_BAD_RECORD,
    batches,
    counts_of,
    everything,
    faulty,
    load_with_rejects,
    names,
    owners,
    ranges,
)
from servers.concurrency import together
from servers.cutting_proxy import CuttingProxy, cut_before
from tideline.domain.requests import KeptRejects, OneBatch
from tideline.errors import RetryableError
from tideline.ledger.attempts import Writer
from tideline.ledger.connection import Ledger
from tideline.spark_jobs import write_batches

pytestmark = pytest.mark.topic(**WITH_A_BAD_RECORD)


@pytest.fixture
def topic(loading, topic) -> str:
    load_with_rejects(loading, topic)
    return topic


@pytest.fixture
def at_once(topic, monkeypatch):
    """Make two writers wait for each other before they publish, once."""
    barrier, publish = threading.Barrier(2), write_batches.flow.publish
    waiting = threading.Semaphore(2)

    def meet(*arguments, **options):
        if waiting.acquire(blocking=False):
            barrier.wait(120)
        return publish(*arguments, **options)

    monkeypatch.setattr(write_batches.flow, "publish", meet)


def test_two_who_ask_for_the_same_rejects_at_once_get_each_of_them_once(loading, topic):
    loading.transform("")
    one, other = together(lambda: loading.plan("one", ALL), lambda: loading.plan("other", ALL))
    assert sorted([one, other]) == [[], [3]]
    assert loading.plan("third", KeptRejects(batch_id=1)) == []
    loading.write("one" if one else "other", one + other)
    assert loading.published() == 29


def test_two_re_drives_at_once_never_double_a_record(loading, topic, at_once):
    """If both held the same reject, only one of them could write it."""
    loading.transform("")
    (one,) = loading.plan("one", KeptRejects(reason_like="two"))
    (other,) = loading.plan("other", KeptRejects(reason_like="one"))
    loading.execute(
        f"INSERT INTO tideline.redrive SELECT {other}, stream_id, kafka_offset FROM tideline.redrive"
        f" WHERE batch_id = {one} AND kafka_offset = 5",
    )
    failed = []

    def write(run, batch_id):
        try:
            loading.write(run, [batch_id])
        except RetryableError as error:
            failed.append((run, batch_id, str(error)))

    together(lambda: write("one", one), lambda: write("other", other))
    ((run, batch_id, said),) = failed
    assert "the rejects have changed since they were read" in said
    assert len(names(loading)) == loading.published() == (27 if run == "other" else 28)
    loading.write(run, [batch_id], try_number=2)
    assert (set(names(loading)), set(loading.rejects())) == (set(range(30)) - {7}, {(0, 7)})
    assert {of[1] for n, of in batches(loading).items() if n in {one, other}} == {"published"}


def test_a_re_drive_that_is_cut_off_before_its_commit_leaves_all_as_it_was(loading, topic, ledger_url):
    loading.transform("")
    (batch_id,) = loading.plan("redrive", ALL)
    before, counts = everything(loading), counts_of(loading, 1)
    with CuttingProxy(ledger_url) as proxy:

        def write_through(try_number):
            writer = Writer(dag_id="test", run_id="redrive", task_id="write", try_number=try_number)
            with Ledger(proxy.url, actor="through the proxy") as ledger:
                write_batches.write(ledger, loading.pipeline, batch_id, writer)

        def cut_at_commit(server, data):
            proxy.at("COMMIT", cut_before)
            return True

        moments = ['INSERT INTO "ads"."output"', "DELETE FROM tideline.reject", "SET state = 'published'"]
        for try_number, (statement, act) in enumerate(
            [*((m, cut_before) for m in moments), (moments[-1], cut_at_commit)], 1
        ):
            proxy.at(statement, act)
            with pytest.raises(RetryableError):
                write_through(try_number)
            assert proxy.acted.is_set()
            proxy.acted.clear()
            assert (everything(loading), counts_of(loading, 1)) == (before, counts)
        write_through(9)
    assert (set(names(loading)), set(loading.rejects())) == (set(range(30)) - {7}, {(0, 7)})


@pytest.fixture
def meanwhile(monkeypatch):
    """Do something once, between the staging of a batch and its publication."""
    publish = write_batches.flow.publish

    def arrange(act):
        def first(*arguments, **options):
            monkeypatch.setattr(write_batches.flow, "publish", publish)
            act()
            return publish(*arguments, **options)

        monkeypatch.setattr(write_batches.flow, "publish", first)

    return arrange


@pytest.mark.parametrize("left_out", [[], ["n3", "n5"]])
def test_a_re_drive_that_a_replay_overtakes_is_tried_again_with_what_is_left(loading, topic, meanwhile, left_out):
    """In both cases: the replay's records would be rows of the re-drive, or records that it has filtered."""
    loading.transform(faulty(left_out=left_out))
    batch_ids = loading.plan("redrive", ALL)

    def replay():
        loading.transform("")
        loading.run(ranges(f"{topic}/0 [0, 15)", replace=True))

    meanwhile(replay)
    with pytest.raises(RetryableError, match="the rejects have changed since they were read"):
        loading.write("redrive", batch_ids)
    assert set(names(loading)) == set(range(30)) - {7, 20, 25}
    loading.write("redrive", batch_ids, try_number=2)
    assert (set(names(loading)), set(loading.rejects())) == (set(range(30)) - {7}, {(0, 7)})
    replayed = batches(loading).keys() - {1, 2, *batch_ids}
    assert {owners(loading)[3], owners(loading)[20]} == {*replayed, 2}


def test_what_a_replay_has_rejected_again_in_the_meantime_is_written_as_its(loading, topic, meanwhile):
    loading.transform("")
    batch_ids = loading.plan("redrive", KeptRejects(reason_like="one"))

    def replay():
        loading.transform(faulty({"n3": "still"}))
        loading.run(OneBatch(batch_id=1, replace=True))

    meanwhile(replay)
    with pytest.raises(
        RetryableError, match=r"2 were read, 1 of these are gone or were rejected again, 1 others are there"
    ):
        loading.write("redrive", batch_ids)
    loading.transform("")
    loading.write("redrive", batch_ids, try_number=2)
    (replayed,) = batches(loading).keys() - {1, 2, *batch_ids}
    assert (set(names(loading)), owners(loading)[3]) == (set(range(30)) - {7, 25}, replayed)
    assert counts_of(loading, replayed) == {"n_read": 15, "n_written": 14, "n_rejected": 1, "n_filtered": 0, "n_gap": 0}


def test_a_re_drive_whose_rejects_are_all_gone_ends_with_nothing(loading, topic):
    loading.transform("")
    batch_ids = loading.plan("redrive", KeptRejects(reason_like="one"))
    loading.run(ranges(f"{topic}/0 [0, 30)", replace=True))
    loading.write("redrive", batch_ids)
    loading.advance("redrive")
    assert (set(names(loading)), set(loading.rejects())) == (set(range(30)) - {7}, {(0, 7)})
    assert counts_of(loading, batch_ids[0]) == {
        "n_read": 0, "n_written": 0, "n_rejected": 0, "n_filtered": 0, "n_gap": 18,
    }  # fmt: skip
