"""The shipped pipeline `sessions`: its visits are those of all events at once, whatever was late, out of order, cut, or rewound."""

import shutil
from bisect import bisect
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from confluent_kafka.admin import AdminClient

from given_ledger.documented_queries import the_query
from loads.loading import Loading
from tideline import flow
from tideline.kafka.broker import Broker
from tideline.settings import PROJECT
from tideline_demo import ad_events as demo_ad_events
from tideline_demo import sessions as demo_sessions
from tideline_demo import visits as demo_visits

FOLDER = PROJECT / "include" / "pipelines" / "sessions"
USERS = 400
HOURS = (0, 1, 1.25, 1.5, 1.75, 2, 4, 7)
"""Where batches begin. From 2 to 4 there is an outage."""


@pytest.fixture
def sessions(loading):
    """Provide the pipeline, and delete its topic afterwards."""
    yield Loading(folder=FOLDER, bootstrap=loading.bootstrap, url=loading.url, spark=loading.spark)
    admin = AdminClient({"bootstrap.servers": loading.bootstrap})
    admin.delete_topics([demo_ad_events.TOPIC])[demo_ad_events.TOPIC].result(30)


def found(sessions, sent):
    with sessions.ledger() as ledger:
        return demo_sessions.seen(ledger, sent)


def are_final(sessions, visits):
    """Return for each visit whether docs/operating.md says that no later run changes it."""
    [(watermark,)] = sessions.rows(the_query("operating.md", "AS watermark"))
    return [visit[2] + demo_visits.PAUSE <= watermark for visit in visits]


def test_visits_are_those_of_all_events_at_once_also_after_a_rewind_to_any_batch(sessions):
    start = demo_ad_events.beginning(sessions.bootstrap)
    begins = [start + timedelta(hours=hours) for hours in HOURS]
    events = demo_ad_events.generate(start, USERS, seed=7)
    sent, after = {}, {}
    for since, until in pairwise(begins):
        part = [event for event in events if since <= event.arrives_at < until]
        sent |= demo_ad_events.produce(sessions.bootstrap, part)
        [batch_id] = sessions.run()
        after[batch_id] = found(sessions, sent)
    assert len(sent) == len(events)

    expected, last = demo_visits.expected(sent), found(sessions, sent)
    assert expected.compare(last) == []
    assert min(len(expected.ended), len(expected.opened), len(expected.rejected)) > 50
    assert {reason[:5] for _, reason, _ in sessions.rejects().values()} == {"late:"}
    assert max(bisect(begins, visit[2]) - bisect(begins, visit[1]) for visit in expected.ended) >= 3
    assert any(visit[1] < begins[-3] <= visit[2] for visit in expected.ended), "visits last into the outage"
    assert not any(are_final(sessions, last.opened))
    assert are_final(sessions, last.ended).count(True) > len(last.ended) / 2
    a_place = next(place for place, event in sent.items() if not event.is_late)
    fewer = demo_visits.expected({place: event for place, event in sent.items() if place != a_place})
    assert fewer.compare(last) != [], "the comparison misses an event"

    for batch_id in list(after)[-2::-3]:
        with sessions.ledger() as ledger:
            broker = Broker(sessions.pipeline.source)
            flow.rewind(ledger, broker, sessions.pipeline, batch_id, reason="the processor was wrong")
        assert after[batch_id].compare(found(sessions, sent)) == []
        sessions.run()
        assert last.compare(found(sessions, sent)) == []


def into_a_visit(events, at):
    """Return the events with one more of a user whose visit goes on after it, and that one."""
    for number, event in enumerate(events):
        if any(one.user_id == event.user_id and one.at < event.at + demo_visits.PAUSE for one in events[number + 1 :]):
            ahead = replace(event, at=at)
            return [*events[: number + 1], ahead, *events[number + 1 :]], ahead
    raise AssertionError("no visit has two events")


def test_after_an_event_from_the_future_the_recipe_gives_all_visits_back(sessions, tmp_path):
    """docs/operating.md: it was let pass because the declared tolerance was too large. Find the batch, declare a smaller one, rewind, load again."""
    declared = replace(sessions, folder=tmp_path / "sessions")
    shutil.copytree(FOLDER, declared.folder)
    declaration = declared.folder / "pipeline.yaml"
    strict = declaration.read_text(encoding="utf-8")
    lenient = strict.replace("  event_time: happened_at\n", "  event_time: happened_at\n  ahead_minutes: 1000000\n")
    assert lenient != strict
    declaration.write_text(lenient, encoding="utf-8")
    start = demo_ad_events.beginning(sessions.bootstrap)
    events = [event for event in demo_ad_events.generate(start, USERS, seed=3) if not event.is_late]
    third = len(events) // 3
    first, second, last = events[:third], events[third : 2 * third], events[2 * third :]
    within, ahead = into_a_visit(second, datetime.now(UTC) + timedelta(days=365))
    sent, batch_ids = {}, []
    for part in (first, within, last):
        sent |= demo_ad_events.produce(sessions.bootstrap, part)
        batch_ids += declared.run()
    assert len(declared.rejects()) > 50

    [(_, partition, newest, batch_id)] = sessions.rows(the_query("operating.md", "came_with_batch"))
    place = next(place for place, event in sent.items() if event == ahead)
    assert (partition, newest, batch_id) == (place[0], ahead.at, batch_ids[1])
    declaration.write_text(strict, encoding="utf-8")
    with declared.ledger() as ledger:
        flow.rewind(
            ledger, Broker(declared.pipeline.source), declared.pipeline, batch_ids[0], reason="a clock was ahead"
        )
    declared.run()
    expected = demo_visits.expected({at: event for at, event in sent.items() if at != place})
    assert replace(expected, rejected={place}).compare(found(declared, sent)) == []


def test_nothing_is_late_in_a_demo_that_is_begun_again_after_an_interruption(sessions):
    start = demo_ad_events.beginning(sessions.bootstrap)
    demo_ad_events.produce(sessions.bootstrap, demo_ad_events.generate(start, demo_sessions.USERS, seed=1)[:500])
    sessions.run()
    again = demo_ad_events.beginning(sessions.bootstrap)
    sent = demo_ad_events.produce(sessions.bootstrap, demo_ad_events.generate(again, demo_sessions.USERS, seed=2)[:500])
    sessions.run()
    assert demo_visits.expected(sent).compare(found(sessions, sent)) == []
    assert sessions.rejects() == {}
