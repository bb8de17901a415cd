"""The shipped pipelines `conversions` and `offer_anomalies`, with their baseline, on a real broker, a real Spark and a real Postgres."""

from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace

import pytest
from confluent_kafka.admin import AdminClient

import records
from given_ledger.decisions import skip
from loads import offer_events
from loads.loading import Loading
from loads.offer_events import NOON, TOPIC, count, values, window
from tideline import flow
from tideline.errors import FatalError
from tideline.kafka.broker import Broker

HOUR = timedelta(hours=1)
POLICY = ("skipped", "latest wins", "policy latest_wins")


@pytest.fixture(scope="module")
def job():
    return offer_events.baseline()


@pytest.fixture
def anomalies(loading, job):
    """Provide the pipeline with a topic of two partitions, and a baseline of ten offers that convert once in 20 impressions."""
    records.create(loading.bootstrap, name=TOPIC, partitions=2)
    with loading.ledger() as ledger:
        offer_events.create_inputs(ledger)
        for offer_id in range(1, 11):
            count(ledger, offer_id, 4_000, 200)
        job.compute(ledger, NOON)
    yield Loading(folder=offer_events.ANOMALIES, bootstrap=loading.bootstrap, url=loading.url, spark=loading.spark)
    admin = AdminClient({"bootstrap.servers": loading.bootstrap})
    admin.delete_topics([TOPIC])[TOPIC].result(30)


def send(loading, *windows, partition=0):
    events = sorted((one for each in windows for one in each), key=lambda event: event[2])
    records.produce(loading.bootstrap, TOPIC, values(events), first_partition=partition)
    return len(events)


def flagged(loading):
    return loading.rows("SELECT offer_id::int, flag, seen::int, model_version::int FROM ads.offer_anomalies ORDER BY 1, begins_at")  # fmt: skip


def windows_of(loading):
    """Return the open windows: impressions and conversions by offer."""
    found = loading.rows("SELECT key, value FROM tideline.state")
    return {key: (value["impressions"], value["conversions"]) for key, value in found}


def holes(loading, partition=0):
    return loading.rows(
        "SELECT lower(offsets)::int, upper(offsets)::int, hole::text, reason, decided_by FROM tideline.coverage "
        "JOIN tideline.stream USING (stream_id)"
        " WHERE hole IS NOT NULL AND partition = %s ORDER BY 1", partition,
    )  # fmt: skip


def everything(loading):
    """Return what readers see, and what the next batch is folded on."""
    return (
        flagged(loading),
        loading.rows("SELECT key, stream_id, value, expires_at, kafka_offset, batch_id FROM tideline.state ORDER BY 1"),
        loading.rows("SELECT stream_id, next_offset, max_time, batch_id FROM tideline.state_position ORDER BY 1"),
    )


def rewind(loading, to_batch):
    with loading.ledger() as ledger:
        return flow.rewind(
            ledger, Broker(loading.pipeline.source), loading.pipeline, to_batch, reason="a wrong baseline"
        )


def test_conversions_are_counted_into_the_next_version_which_the_next_batch_uses(anomalies, job):
    conversions = replace(anomalies, folder=offer_events.CONVERSIONS)
    send(anomalies, window(1, 600, 40, begin=NOON), window(2, 600, 0, begin=NOON))
    conversions.run()
    [(n_rows,)] = conversions.rows("SELECT count(*)::int FROM ads.conversions WHERE converted_at >= %s", NOON)
    assert n_rows == 40
    anomalies.run()
    with anomalies.ledger() as ledger:
        count(ledger, 1, 10, 0, end=NOON + HOUR)
        job.compute(ledger, NOON + HOUR)
    send(anomalies, window(1, 1, 0, begin=NOON + 2 * HOUR), window(2, 1, 0, begin=NOON + 2 * HOUR))
    anomalies.run()
    [(newest,)] = anomalies.rows("SELECT max(version)::int FROM ads.baseline_version")
    assert flagged(anomalies) == [(2, "too few", 0, newest)]


def test_offers_that_stop_or_convert_too_much_are_flagged_and_others_are_not(anomalies):
    normal = [window(offer, 600, 30 + offer % 3 - 1, begin=NOON) for offer in range(3, 11)]
    send(anomalies, window(1, 600, 0, begin=NOON), window(2, 600, 120, begin=NOON), *normal)
    anomalies.run()
    assert flagged(anomalies) == []
    send(anomalies, *(window(offer, 1, 0, begin=NOON + HOUR) for offer in range(1, 11)))
    anomalies.run()
    assert [row[:3] for row in flagged(anomalies)] == [(1, "too few", 0), (2, "too many", 120)]
    assert sorted(windows_of(anomalies)) == sorted(f"[{offer}]" for offer in range(1, 11))


@pytest.fixture
def jumped(anomalies):
    """Let a backlog make the pipeline jump: on partition 0 it skips, on partition 1 nothing is new but one event."""
    send(anomalies, window(1, 100, 5, begin=NOON), window(2, 100, 5, begin=NOON))
    send(anomalies, window(3, 100, 5, begin=NOON), partition=1)
    [first] = anomalies.run()
    before, held = everything(anomalies), windows_of(anomalies)
    size = anomalies.pipeline.limits.batch_records
    skipped = 2_000
    send(anomalies, window(1, size + skipped, 0, begin=NOON + timedelta(minutes=56), minutes=3))
    send(anomalies, window(3, 1, 0, begin=NOON + timedelta(minutes=56)), partition=1)
    [second] = anomalies.run()
    return SimpleNamespace(
        loading=anomalies, first=first, second=second, skipped=skipped, before=before, windows_before=held
    )


def test_a_jump_records_what_it_skipped_and_begins_the_windows_of_that_partition_anew(jumped):
    loading, skipped = jumped.loading, jumped.skipped
    [(start, end, *how)] = holes(loading)
    assert (start, tuple(how)) == (210, POLICY)
    assert skipped <= end - start <= skipped + 1
    assert holes(loading, 1) == []
    size = loading.pipeline.limits.batch_records
    found = windows_of(loading)
    assert found["[3]"] == (101, 5), "the other partition has no gap, and goes on"
    assert found["[1]"] in {(size, 0), (size - 1, 0)}, "events after the gap only"
    assert "[2]" not in found, "a window that the gap is in would have too few events"
    # The undo holds what was deleted, and was written by the transaction that published the batch.
    assert dict(loading.rows("SELECT key, existed FROM tideline.state_undo WHERE batch_id = %s", jumped.second)) == {
        "[1]": True,
        "[2]": True,
        "[3]": True,
    }


def test_a_rewind_over_a_jump_brings_the_windows_back_and_loads_the_same_again(jumped):
    loading, second = jumped.loading, jumped.second
    after, gap = everything(loading), holes(loading)
    done = rewind(loading, jumped.first)
    assert (done.undone, windows_of(loading)) == ((second,), jumped.windows_before)
    assert everything(loading)[:2] == jumped.before[:2]
    assert [one for one in holes(loading) if one[2] != "rewound"] == gap, "what was skipped stays skipped"
    [again] = loading.run()
    assert [one[:-1] for one in everything(loading)[1]] == [one[:-1] for one in after[1]]
    assert (holes(loading), holes(loading, 1)) == (gap, [])
    assert (again, flagged(loading)) == (done.planned[0], after[0])


def test_a_rewind_over_a_jump_is_refused_once_its_undo_is_pruned(jumped):
    loading, first, second = jumped.loading, jumped.first, jumped.second
    send(loading, window(1, 5, 0, begin=NOON + 2 * HOUR))
    [third] = loading.run()
    short = loading.pipeline.model_copy(update={"state": loading.pipeline.state.model_copy(update={"undo_batches": 1})})
    with loading.ledger() as ledger:
        flow.upkeep(ledger, short)
    before = everything(loading)
    with pytest.raises(FatalError, match=f"cannot go back to before batch {second}: its undo was pruned"):
        rewind(loading, first)
    assert everything(loading) == before
    assert rewind(loading, second).undone == (third,)


def test_records_that_were_deleted_unread_are_a_gap_too(anomalies):
    send(anomalies, window(1, 100, 5, begin=NOON), window(2, 100, 5, begin=NOON))
    anomalies.run()
    send(anomalies, window(1, 20, 0, begin=NOON + timedelta(minutes=56)))
    skip(anomalies.url, anomalies.pipeline, 210, 215)
    anomalies.run()
    assert windows_of(anomalies) == {"[1]": (15, 0)}
