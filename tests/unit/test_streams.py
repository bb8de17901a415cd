"""The comparison of the ledger's streams with the broker's answers."""

from dataclasses import replace
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tideline.domain.facts import PartitionFacts, TopicFacts
from tideline.domain.offsets import OffsetRange
from tideline.domain.streams import Stream, compare, frontier, is_other, lost

OLD, NEW = UUID(int=1), UUID(int=2)
STREAM = Stream(
    stream_id=1,
    cluster_id="c",
    topic="ads",
    topic_id=OLD,
    partition=0,
    start_offset=0,
    next_offset=10,
    reserved=(),
    stopped_because=None,
)


def topic(*partitions, name="ads", topic_id=OLD):
    """Return a topic whose partitions are (log start, end)."""
    return TopicFacts(
        cluster_id="c",
        topic=name,
        topic_id=topic_id,
        compacted=False,
        partitions=tuple(PartitionFacts(partition=n, log_start=a, end=b) for n, (a, b) in enumerate(partitions)),
    )


names = st.sampled_from(["ads", "clicks", "sales"])
offsets = st.integers(0, 30)
bounds = st.tuples(offsets, offsets).map(sorted)
pieces = st.builds(lambda start, count: OffsetRange(start, start + count), offsets, st.integers(1, 9))


@st.composite
def known_streams(draw):
    keys = draw(st.sets(st.tuples(names, st.integers(0, 3)), max_size=8))
    return [
        replace(
            STREAM,
            stream_id=number,
            topic=name,
            topic_id=draw(st.sampled_from([OLD, NEW])),
            partition=partition,
            next_offset=draw(offsets),
            reserved=tuple(draw(st.lists(pieces, max_size=2))),
            stopped_because=draw(st.sampled_from([None, "retention"])),
            accepted_end=draw(st.sampled_from([None, 0, 5, 20])),
        )
        for number, (name, partition) in enumerate(sorted(keys))
    ]


asked_topics = st.dictionaries(names, st.lists(bounds, min_size=1, max_size=4)).flatmap(
    lambda found: st.tuples(*(st.sampled_from([OLD, NEW]) for _ in found)).map(
        lambda ids: [topic(*found[n], name=n, topic_id=i) for n, i in zip(found, ids, strict=True)]
    )
)


@given(streams=known_streams(), topics=asked_topics)
def test_each_stream_of_a_declared_topic_is_in_exactly_one_list(streams, topics):
    found = compare(streams, topics)
    listed = [stream for stream, *_ in (*found.ready, *found.inconsistent)] + list(found.stopped)
    declared = {topic.topic for topic in topics}
    assert sorted(stream.stream_id for stream in listed) == [
        stream.stream_id for stream in streams if stream.topic in declared
    ]


@given(streams=known_streams(), topics=asked_topics)
def test_a_ready_stream_lies_within_its_own_log(streams, topics):
    for stream, asked, facts in compare(streams, topics).ready:
        assert (stream.topic, stream.topic_id, stream.partition) == (asked.topic, asked.topic_id, facts.partition)
        accepted = 99 if stream.accepted_end is None else stream.accepted_end
        assert facts.end >= min(accepted, max([stream.next_offset, *(piece.end for piece in stream.reserved)]))
        owned = {offset for piece in stream.reserved for offset in range(piece.start, piece.end)}
        assert owned >= set(range(stream.next_offset, facts.log_start))


@given(streams=known_streams(), topics=asked_topics)
def test_only_a_partition_that_no_stream_stands_for_is_unseen(streams, topics):
    names_known = {stream.topic for stream in streams}
    for asked, facts in compare(streams, topics).unseen:
        same = [stream for stream in streams if stream.topic == asked.topic]
        assert facts.partition not in {stream.partition for stream in same}
        assert {stream.topic_id for stream in same} <= {asked.topic_id}
    for asked in topics:
        if asked.topic not in names_known:
            assert {(asked, facts) for facts in asked.partitions} <= set(compare(streams, topics).unseen)


def inconsistent(stream, *topics):
    """Return the problem of one active stream; no other stream may have one."""
    found = compare([stream], topics)
    assert (found.ready, found.stopped, found.unseen) == ((), (), ())
    [(same, problem)] = found.inconsistent
    assert same == stream
    return problem


def test_a_recreated_topic_stops_its_streams_and_begins_no_new_ones():
    problem = inconsistent(STREAM, topic((0, 50), (0, 50), topic_id=NEW))
    assert str(OLD) in problem
    assert str(NEW) in problem


def test_unread_offsets_that_retention_deleted_are_named():
    assert "[10, 25)" in inconsistent(STREAM, topic((25, 50)))


def test_only_what_no_batch_has_reserved_is_lost():
    """A planned batch fails by itself when it reads. Reported here is what no batch would read."""
    assert "[12, 25)" in inconsistent(replace(STREAM, reserved=(OffsetRange(10, 12),)), topic((25, 50)))


def test_retention_behind_what_is_reserved_is_no_loss():
    stream = replace(STREAM, reserved=(OffsetRange(10, 25),))
    assert compare([stream], [topic((25, 50))]).inconsistent == ()


@pytest.mark.parametrize(
    ("stream", "frontier"), [(STREAM, 10), (replace(STREAM, reserved=(OffsetRange(10, 20), OffsetRange(20, 30))), 30)]
)
def test_an_end_before_what_was_planned_or_read_stops_the_stream(stream, frontier):
    assert f"ends at {frontier - 1}, before offset {frontier}" in inconsistent(stream, topic((0, frontier - 1)))
    assert compare([stream], [topic((0, frontier))]).inconsistent == ()


@pytest.mark.parametrize("end", [12, 15, 19, 20, 25])
def test_a_log_whose_end_was_accepted_may_end_anywhere_behind_that(end):
    stream = replace(STREAM, next_offset=20, accepted_end=12)
    [(same, *_)] = compare([stream], [topic((0, end))]).ready
    assert same == stream


def test_a_log_that_ends_before_its_accepted_end_was_cut_again():
    assert "ends at 11, before offset 20" in inconsistent(
        replace(STREAM, next_offset=20, accepted_end=12), topic((0, 11))
    )


def test_an_accepted_end_also_holds_for_offsets_planned_or_skipped_past_the_head():
    stream = replace(STREAM, reserved=(OffsetRange(15, 20),), accepted_end=12)
    assert compare([stream], [topic((0, 12))]).inconsistent == ()
    assert "ends at 11, before offset 20" in inconsistent(stream, topic((0, 11)))


def test_an_accepted_end_above_all_that_was_planned_asks_for_no_more_than_that():
    stream = replace(STREAM, next_offset=20, accepted_end=50)
    assert compare([stream], [topic((0, 20))]).inconsistent == ()
    assert "ends at 19" in inconsistent(stream, topic((0, 19)))


def test_an_accepted_end_is_no_leave_for_retention():
    stream = replace(STREAM, next_offset=20, accepted_end=12)
    assert "[20, 25)" in inconsistent(stream, topic((25, 30)))


@given(head=offsets, reserved=st.lists(pieces, max_size=3), start=offsets)
def test_lost_is_what_lies_between_head_and_log_without_an_owner(head, reserved, start):
    stream = replace(STREAM, next_offset=head, reserved=tuple(reserved))
    gone = {
        offset
        for piece in lost(stream, PartitionFacts(partition=0, log_start=start, end=99))
        for offset in range(piece.start, piece.end)
    }
    owned = {offset for piece in reserved for offset in range(piece.start, piece.end)}
    assert gone == set(range(head, start)) - owned


@given(head=offsets, reserved=st.lists(pieces, max_size=3))
def test_the_frontier_is_behind_all_that_is_loaded_or_reserved(head, reserved):
    stream = replace(STREAM, next_offset=head, reserved=tuple(reserved))
    assert frontier(stream) == max([head, *(piece.end for piece in reserved)])


RETIRED = replace(STREAM, retired=True)


@pytest.mark.parametrize("topics", [[], [topic((0, 50), topic_id=NEW)]])
def test_a_retired_stream_is_not_checked(topics):
    found = compare([RETIRED], topics)
    assert (found.ready, found.inconsistent, found.stopped) == ((), (), ())
    assert compare([RETIRED], topics, gone=["ads"] if not topics else ()).inconsistent == ()


@pytest.mark.parametrize("bounds", [(0, 50), (99, 99)])
def test_a_retired_stream_whose_topic_is_back_needs_a_person(bounds):
    found = compare([RETIRED], [topic(bounds)])
    assert (found.ready, found.inconsistent, found.stopped) == (
        (),
        ((RETIRED, "the topic that was retired is back"),),
        (),
    )


def test_the_partitions_of_a_retired_stream_do_not_begin_again():
    assert compare([RETIRED], [topic((0, 50))]).unseen == ()


def test_partitions_of_an_adopted_topic_begin_beside_its_retired_streams():
    now = replace(STREAM, stream_id=2, topic_id=NEW)
    found = compare([RETIRED, now], [topic((0, 50), (0, 7), topic_id=NEW)])
    assert [stream.stream_id for stream, *_ in found.ready] == [2]
    assert [facts.partition for _, facts in found.unseen] == [1]


def test_nothing_begins_in_a_topic_one_of_whose_streams_follows_another_incarnation():
    old = replace(STREAM, partition=3)
    now = replace(STREAM, stream_id=2, topic_id=NEW)
    assert compare([old, now], [topic((0, 50), (0, 7), topic_id=NEW)]).unseen == ()


def test_a_topic_that_is_gone_stops_its_streams_and_no_others():
    other = replace(STREAM, stream_id=2, topic="sales")
    found = compare([STREAM, other], [topic((0, 50), name="sales")], gone=["ads", "clicks"])
    assert [(stream.stream_id, problem) for stream, problem in found.inconsistent] == [(1, "the topic is gone")]
    assert [stream.stream_id for stream, *_ in found.ready] == [2]


def test_a_topic_that_is_gone_leaves_stopped_streams_as_they_are():
    stopped = replace(STREAM, stopped_because="offsets are gone")
    assert compare([stopped], [], gone=["ads"]).stopped == (stopped,)


def test_another_cluster_is_another_topic():
    elsewhere = replace(STREAM, cluster_id="else")
    assert is_other(elsewhere, topic((0, 50)))
    assert not is_other(STREAM, topic((0, 50)))
    assert is_other(STREAM, topic((0, 50), topic_id=NEW))
    assert is_other(replace(STREAM, partition=5), topic((0, 50)))


def test_a_partition_that_is_gone_stops_its_stream():
    problem = inconsistent(replace(STREAM, partition=1), topic())
    assert "partition is gone" in problem
    assert "0 partitions" in problem


def test_an_inconsistent_partition_does_not_stop_its_neighbours():
    neighbour = replace(STREAM, stream_id=2, partition=1)
    found = compare([STREAM, neighbour], [topic((20, 50), (0, 50))])
    assert [stream.stream_id for stream, _ in found.inconsistent] == [1]
    assert [stream.stream_id for stream, *_ in found.ready] == [2]


def test_a_grown_topic_has_new_partitions_only():
    found = compare([STREAM], [topic((0, 50), (0, 7), (0, 9))])
    assert [stream.stream_id for stream, *_ in found.ready] == [1]
    assert [facts.partition for _, facts in found.unseen] == [1, 2]


def test_a_stopped_stream_stays_stopped_though_nothing_is_wrong_any_more():
    stopped = replace(STREAM, stopped_because="offsets are gone")
    found = compare([stopped], [topic((0, 50))])
    assert (found.stopped, found.ready, found.inconsistent, found.unseen) == ((stopped,), (), (), ())


def test_the_streams_of_a_topic_that_is_declared_no_longer_rest():
    found = compare([STREAM], [])
    assert (found.ready, found.inconsistent, found.stopped, found.unseen) == ((), (), (), ())
