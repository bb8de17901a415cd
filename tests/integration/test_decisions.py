"""What a person may decide about batches and offsets: to abandon, and to skip. Each says who and why, and leaves every offset accounted for."""

from uuid import uuid4

import pytest

import ledgers
from asking import query, state
from planners import NAME, ask, coverage, decide, declared, finish, load, next_offsets, plan, ranges_of, run
from racing import beside, together
from tideline import flow
from tideline.domain.facts import PartitionFacts
from tideline.domain.offsets import OffsetRange
from tideline.domain.requests import NamedRange, Ranges
from tideline.domain.states import BatchState
from tideline.errors import FatalError, SupersededError
from tideline.ledger import attempts, heads, publishing
from tideline.ledger.connection import Ledger
from topics import created, produce

WHY = "nobody needs them"


@pytest.fixture
def topic(admin):
    return created(admin, f"decide_{uuid4().hex[:8]}", partitions=2)


@pytest.fixture
def pipeline(broker, topic):
    """Ten records in partition 0, four in partition 1; at most five records in a batch."""
    produce(broker, topic, 10)
    produce(broker, topic, 4, partition=1)
    return declared(broker.bootstrap, topic, batch_records=7)


def piece(pipeline, start, end, partition=0):
    return NamedRange(pipeline.source.topics[0], partition, OffsetRange(start, end))


def skip(url, pipeline, start, end, *, partition=0, reason=WHY):
    return decide(url, pipeline, flow.skip, piece(pipeline, start, end, partition), reason=reason)


def abandon(url, batch_id, *, reason=WHY):
    with Ledger(url, actor="ada") as ledger:
        flow.abandon(ledger, batch_id, reason=reason)


def story(ledger, since=0):
    """(actor, action, reason) of what people did, in order."""
    return query(
        ledger,
        "SELECT actor, action, detail ->> 'reason' FROM tideline.event WHERE event_id > %s AND actor = 'ada'"
        " AND action <> 'move head' ORDER BY event_id",
        since,
    )


def everything(ledger):
    """All that the ledger says, but for the clock."""
    names = [row[0] for row in query(ledger, "SELECT tablename::text FROM pg_tables WHERE schemaname = 'tideline'")]
    return {name: sorted(map(str, query(ledger, f"SELECT t.* FROM tideline.{name} t"))) for name in names}


def fall_silent(ledger):
    query(ledger, "UPDATE tideline.attempt SET heartbeat_at = now() - interval '1 hour'")


# abandon ---------------------------------------------------------------------------------------------------------


def test_what_an_abandoned_batch_had_is_planned_again_and_heads_pass_it_and_those_behind_at_once(
    ledger, ledger_url, pipeline
):
    first, second = plan(ledger_url, pipeline, "first")
    assert [ranges_of(ledger, n) for n in (first, second)] == [{0: (0, 3), 1: (0, 4)}, {0: (3, 10)}]
    finish(ledger, [second])
    abandon(ledger_url, first)
    assert state(ledger, first) == ("abandoned", 0)
    assert next_offsets(ledger) == {0: 0, 1: 0}
    [late] = plan(ledger_url, pipeline, "second")
    assert late > second
    assert ranges_of(ledger, late) == ranges_of(ledger, first)
    finish(ledger, [late])
    assert heads.advance_published(ledger, NAME) == [second, late]
    assert next_offsets(ledger) == {0: 10, 1: 4}
    assert story(ledger) == [("ada", "abandon", WHY)]


def test_what_was_given_up_and_is_planned_with_newer_records_jams_no_head(ledger, ledger_url, broker, topic):
    """The late batch stands in front of an older one in one partition, and behind it in the other."""
    pipeline = declared(broker.bootstrap, topic)
    produce(broker, topic, 3)
    [first] = plan(ledger_url, pipeline, "first")
    produce(broker, topic, 3)
    produce(broker, topic, 3, partition=1)
    second = plan(ledger_url, pipeline, "second")[-1]
    abandon(ledger_url, first)
    produce(broker, topic, 3, partition=1)
    third = plan(ledger_url, pipeline, "third")[-1]
    assert [ranges_of(ledger, n) for n in (second, third)] == [{0: (3, 6), 1: (0, 3)}, {0: (0, 3), 1: (3, 6)}]
    load(ledger, [second, third])
    flow.advance(ledger, NAME, run("third"))
    assert next_offsets(ledger) == {0: 6, 1: 6}


def test_a_run_whose_batches_were_all_abandoned_plans_anew_and_one_of_several_does_not_come_back(
    ledger, ledger_url, pipeline
):
    first, second = plan(ledger_url, pipeline, "first")
    abandon(ledger_url, first)
    assert plan(ledger_url, pipeline, "first") == [second]
    abandon(ledger_url, second)
    again = plan(ledger_url, pipeline, "first")
    assert not {first, second} & set(again)
    assert [ranges_of(ledger, n) for n in again] == [{0: (0, 3), 1: (0, 4)}, {0: (3, 10)}]
    assert plan(ledger_url, pipeline, "first") == again


def test_what_is_published_cannot_be_abandoned(ledger, ledger_url, pipeline):
    first, second = plan(ledger_url, pipeline, "first")
    finish(ledger, [second])
    before = everything(ledger)
    with pytest.raises(FatalError, match=f"batch {second} is published.*\n.*tideline replay {NAME} --batch {second}"):
        abandon(ledger_url, second)
    assert everything(ledger) == before
    load(ledger, [first])
    with pytest.raises(FatalError, match="is advanced"):
        abandon(ledger_url, second)


def test_a_batch_that_somebody_is_writing_cannot_be_abandoned(ledger, ledger_url, pipeline):
    first, _ = plan(ledger_url, pipeline, "first")
    ledgers.stage(ledger, attempt := ledgers.claim(ledger, first))
    with pytest.raises(FatalError, match=f"batch {first} is being written by write try 1 of .*pid") as caught:
        abandon(ledger_url, first)
    assert "stop that task" in caught.value.next_step
    ledgers.publish(ledger, attempt)


def test_a_dead_writers_batch_can_be_abandoned_and_what_the_dead_one_does_later_is_refused(
    ledger, ledger_url, pipeline
):
    first, second = plan(ledger_url, pipeline, "first")
    ledgers.stage(ledger, attempt := ledgers.claim(ledger, first))
    fall_silent(ledger)
    abandon(ledger_url, first)
    with pytest.raises(SupersededError, match="state abandoned"):
        ledgers.publish(ledger, attempt)
    assert attempts.claim(ledger, first, ledgers.WRITER, stale_after_seconds=0) is BatchState.ABANDONED
    assert coverage(ledger) == coverage(ledger, 1) == []
    assert query(ledger, "SELECT outcome::text, problem FROM tideline.attempt") == [
        ("failed", "fell silent, and was given up")
    ]
    [late] = set(plan(ledger_url, pipeline, "second")) - {second}
    assert load(ledger, [second, late])
    assert next_offsets(ledger) == {0: 10, 1: 4}


def test_a_batch_that_was_abandoned_is_not_abandoned_twice(ledger, ledger_url, pipeline):
    first, _ = plan(ledger_url, pipeline, "first")
    abandon(ledger_url, first)
    before = everything(ledger)
    abandon(ledger_url, first, reason="once more")
    assert everything(ledger) == before


def test_open_batches_of_every_kind_can_be_abandoned(ledger, ledger_url, pipeline):
    """Those that reserve nothing have nothing to give back, and go all the same."""
    load(ledger, plan(ledger_url, pipeline, "first"))
    wanted = Ranges(ranges=(piece(pipeline, 0, 5),), replace=True)
    [replayed] = ask(ledger_url, pipeline, "again", wanted, reason="wrong prices").batch_ids
    abandon(ledger_url, replayed)
    assert state(ledger, replayed)[0] == "abandoned"
    assert ask(ledger_url, pipeline, "again", wanted).batch_ids not in ([], [replayed])


def test_a_batch_that_is_not_there_cannot_be_abandoned(ledger_url):
    with pytest.raises(FatalError, match="batch 7 is not in the ledger"):
        abandon(ledger_url, 7)


@pytest.mark.parametrize("reason", ["", "  ", "\n\t"])
def test_no_decision_goes_without_a_reason(ledger, ledger_url, pipeline, topic, reason):
    first, _ = plan(ledger_url, pipeline, "first")
    before = everything(ledger)
    decisions = [
        lambda: abandon(ledger_url, first, reason=reason),
        lambda: skip(ledger_url, pipeline, 0, 3, reason=reason),
        lambda: decide(ledger_url, pipeline, flow.accept_loss, topic, None, reason=reason),
        lambda: decide(ledger_url, pipeline, flow.adopt_topic, topic, reason=reason),
    ]
    for decision in decisions:
        with pytest.raises(FatalError, match="a decision needs a reason"):
            decision()
    assert everything(ledger) == before


def test_abandoning_beside_a_writer_ends_in_one_of_both_and_loses_nothing(ledger, ledger_url, broker, topic):
    pipeline = declared(broker.bootstrap, topic)
    ended = set()
    for turn in range(8):
        produce(broker, topic, 3)
        [batch_id] = plan(ledger_url, pipeline, f"run {turn}")

        def write(batch_id=batch_id):
            with Ledger(ledger_url, actor="writer") as own:
                claimed = attempts.claim(own, batch_id, ledgers.WRITER, stale_after_seconds=60)
                if isinstance(claimed, attempts.Attempt):
                    ledgers.stage(own, claimed)
                    ledgers.publish(own, claimed)
                    return "published"
                return str(claimed)

        def give_up(batch_id=batch_id):
            try:
                abandon(ledger_url, batch_id)
            except FatalError:
                return "refused"
            return "abandoned"

        wrote, gave_up = together(write, give_up)
        assert (wrote, gave_up) in {("published", "refused"), ("abandoned", "abandoned")}
        assert state(ledger, batch_id)[0] == wrote
        ended.add(wrote)
        load(ledger, plan(ledger_url, pipeline, f"after {turn}") if wrote == "abandoned" else [])
        assert next_offsets(ledger)[0] == 3 * turn + 3
    assert ended


# skip ------------------------------------------------------------------------------------------------------------


def test_a_skipped_range_at_the_head_moves_it_and_one_ahead_waits(ledger, ledger_url, pipeline):
    plan(ledger_url, declared(pipeline.source.bootstrap_servers, *pipeline.source.topics), "begin")
    [batch_id] = query(ledger, "SELECT batch_id FROM tideline.batch")[0]
    abandon(ledger_url, batch_id)
    assert skip(ledger_url, pipeline, 4, 6) == []
    assert next_offsets(ledger) == {0: 0, 1: 0}
    assert skip(ledger_url, pipeline, 0, 2) == []
    assert next_offsets(ledger) == {0: 2, 1: 0}
    batch_ids = plan(ledger_url, pipeline, "the rest")
    assert sorted(ranges_of(ledger, n)[0] for n in batch_ids if 0 in ranges_of(ledger, n)) == [(2, 4), (6, 10)]
    load(ledger, batch_ids)
    assert next_offsets(ledger) == {0: 10, 1: 4}
    assert [(a, b) for a, b, _ in coverage(ledger)] == [(0, 2), (2, 4), (4, 6), (6, 10)]
    assert query(
        ledger, "SELECT DISTINCT hole::text, reason, decided_by FROM tideline.coverage WHERE hole IS NOT NULL"
    ) == [("skipped", WHY, "ada")]


def test_a_batch_that_holds_a_skipped_offset_is_abandoned_and_the_rest_of_it_planned_again(
    ledger, ledger_url, pipeline
):
    first, second = plan(ledger_url, pipeline, "first")
    assert skip(ledger_url, pipeline, 1, 2) == [first]
    assert [state(ledger, n)[0] for n in (first, second)] == ["abandoned", "planned"]
    again = plan(ledger_url, pipeline, "second")
    assert [ranges_of(ledger, n) for n in again] == [{0: (3, 10)}, {0: (0, 1), 1: (0, 4)}, {0: (2, 3)}]
    load(ledger, again)
    assert next_offsets(ledger) == {0: 10, 1: 4}
    assert story(ledger) == [("ada", "abandon", WHY), ("ada", "skip", WHY)]


def test_skipping_twice_changes_nothing(ledger, ledger_url, pipeline):
    plan(ledger_url, pipeline, "first")
    skip(ledger_url, pipeline, 2, 8)
    before = everything(ledger)
    assert skip(ledger_url, pipeline, 2, 8, reason="again") == []
    assert skip(ledger_url, pipeline, 3, 5, reason="again") == []
    assert everything(ledger) == before


def test_a_skip_beside_an_older_one_takes_only_what_is_left(ledger, ledger_url, pipeline):
    skip(ledger_url, pipeline, 3, 5)
    skip(ledger_url, pipeline, 0, 10, reason="all of it")
    assert query(ledger, "SELECT lower(offsets), upper(offsets), reason FROM tideline.coverage ORDER BY offsets") == [
        (0, 3, "all of it"),
        (3, 5, WHY),
        (5, 10, "all of it"),
    ]
    assert next_offsets(ledger) == {0: 10, 1: 0}


def test_what_cannot_be_skipped_is_refused_with_all_that_is_wrong_and_changes_nothing(
    broker, ledger, ledger_url, topic, pipeline
):
    late = declared(broker.bootstrap, topic, start="latest")
    plan(ledger_url, late, "begin at ten")
    produce(broker, topic, 5)
    [batch_id] = load(ledger, plan(ledger_url, late, "first"))
    produce(broker, topic, 5)
    opened = plan(ledger_url, late, "second")
    before = everything(ledger)
    with pytest.raises(
        FatalError, match=rf"\[10, 15\) is loaded by batch {batch_id}; the stream begins at 10.*; the log ends at 20"
    ):
        skip(ledger_url, late, 5, 25)
    with pytest.raises(FatalError, match="the pipeline follows no such partition"):
        skip(ledger_url, late, 0, 1, partition=2)
    ledgers.claim(ledger, opened[0])
    with pytest.raises(FatalError, match="is being written"):
        skip(ledger_url, late, 15, 16)
    assert everything(ledger)["coverage"] == before["coverage"]
    assert state(ledger, opened[0])[0] == "writing"


def test_a_batch_that_is_published_while_its_skip_waits_stays_and_the_skip_is_refused(ledger, ledger_url, pipeline):
    """The decision must not pass for one that was carried out."""
    first, _ = plan(ledger_url, pipeline, "first")
    ledgers.stage(ledger, attempt := ledgers.claim(ledger, first))
    fall_silent(ledger)
    waiting = []

    def insert_output(_):
        waiting.append(beside(lambda: skip(ledger_url, pipeline, 0, 2)))
        ledgers.wait_for_a_lock(ledger_url)
        return publishing.Written(n_written={piece.stream_id: len(piece.offsets) for piece in attempt.ranges})

    facts = {p.stream_id: PartitionFacts(partition=0, log_start=0, end=10) for p in attempt.ranges}
    publishing.publish(ledger, attempt, insert_output, facts=facts, filtered_by_difference=False)
    with pytest.raises(FatalError, match=f"batch {first} is published"):
        waiting[0]()
    assert coverage(ledger) == [(0, 3, first)]


def test_a_backfill_fills_what_was_skipped_in_part_and_the_rest_keeps_its_reason(ledger, ledger_url, pipeline):
    skip(ledger_url, pipeline, 0, 10)
    before = query(ledger, "SELECT reason, decided_by, recorded_at FROM tideline.coverage")
    [batch_id] = ask(ledger_url, pipeline, "fill", Ranges(ranges=(piece(pipeline, 4, 6),))).batch_ids
    assert coverage(ledger) == [(0, 10, "skipped")]
    load(ledger, [batch_id])
    assert coverage(ledger) == [(0, 4, "skipped"), (4, 6, batch_id), (6, 10, "skipped")]
    assert (
        query(ledger, "SELECT DISTINCT reason, decided_by, recorded_at FROM tideline.coverage WHERE hole IS NOT NULL")
        == before
    )
    assert query(ledger, "SELECT count(*) FROM tideline.event WHERE action = 'skip'") == [(1,)]
    rest = ask(ledger_url, pipeline, "the rest", Ranges(ranges=(piece(pipeline, 0, 10),)))
    assert rest.notes == [
        f"{pipeline.source.topics[0]}/0 [4, 6): loaded by batch {batch_id}; say `replace` to load it again"
    ]
    load(ledger, rest.batch_ids)
    assert {hole for *_, hole in coverage(ledger)} & {"skipped"} == set()
    assert next_offsets(ledger)[0] == 10


def test_a_skip_beside_plans_leaves_each_offset_in_one_hand(ledger, ledger_url, broker, topic, pipeline):
    small = declared(broker.bootstrap, topic, batch_records=3)

    def planned(n):
        return lambda: plan(ledger_url, small, f"run {n}")

    def skipped(n):
        return lambda: skip(ledger_url, small, 2 * n, 2 * n + 3, reason=f"skip {n}")

    for _ in range(2):
        together(*(call(n) for n in range(4) for call in (planned, skipped)))
        produce(broker, topic, 5)
    load(ledger, plan(ledger_url, small, "the rest"))
    flow.advance(ledger, NAME, run("the rest"))
    assert next_offsets(ledger) == {0: 20, 1: 4}
    assert sum(end - start for start, end, _ in coverage(ledger)) == 20
    assert sum(end - start for start, end, owner in coverage(ledger) if owner == "skipped") == 9
