"""Rewinds by the command line, and loads by Spark after them: the same tables, and the rows of a corrected processor."""

import json
import os
from datetime import UTC, datetime, timedelta

import pytest

import records
from given_ledger.ledgers import execute
from loads.sessions import check, declare, kept, rows, send, transform
from servers import cli_server
from stateful_events import EPOCH
from tideline.errors import FatalError
from tideline.ledger import abandoning, reservations

N_BATCHES = 4


def load(loading, n_batches):
    """Load some batches of two partitions; return the topic, and what was sent."""
    topic = records.create(loading.bootstrap, partitions=2)
    declare(loading, topic, state={"lateness_minutes": 1})
    sent = []
    for number in range(n_batches):
        # Sessions of five users that go on from batch to batch; some clicks are refused, and some are late.
        minutes = [number * 80 + minute for minute in (0, 7, 3, 20, 31, 32)]
        part = [
            (user % 2, f"u{user}", minute, 13 if user == place == 4 else user)
            for place, minute in enumerate(minutes)
            for user in range(5)
        ]
        part.append((number % 2, f"u{number % 2 * 3}", number * 80 - 70, 1))
        send(loading, topic, part)
        loading.run()
        sent += part
    return topic, sent


def rewind(loading, to_batch, *more):
    """Rewind as an operator does; return what is printed."""
    environment = {
        **os.environ,
        "TIDELINE_PIPELINES": str(loading.folder.parent),
        "TIDELINE_LEDGER_URL": loading.url,
        "TIDELINE_KAFKA": loading.bootstrap,
    }
    words = ["rewind", loading.folder.name, "--to-batch", str(to_batch), "--reason", "wrong", *more]
    done = cli_server.run(words, environment, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def folded(loading):
    """Return the batches that are folded, in order."""
    return [
        row[0] for row in loading.rows("SELECT batch_id FROM tideline.state_batch WHERE undo = 'kept' ORDER BY seq")
    ]


def seen(loading):
    """Return rows, states and rejects, without the numbers of batches."""
    return [row[:-1] for row in rows(loading)], kept(loading), loading.rejects()


def test_loaded_again_after_a_rewind_to_any_batch_the_tables_are_the_same(loading):
    _, sent = load(loading, N_BATCHES)
    assert len(check(loading, sent).rows) > 10
    whole = seen(loading)
    assert len(whole[2]) > N_BATCHES
    for boundary in range(N_BATCHES):
        batches = folded(loading)
        printed = rewind(loading, batches[boundary - 1] if boundary else 0)
        listed = ", ".join(map(str, batches[boundary:]))
        assert f"{listed} {'are' if ',' in listed else 'is'} undone" in printed
        assert folded(loading) == batches[:boundary]
        assert len(loading.run()) == N_BATCHES - boundary
        assert seen(loading) == whole
        check(loading, sent)


def test_a_record_ahead_of_its_time_has_the_same_fate_after_a_rewind(loading):
    """Its sender's clock was ahead, in the event and in Kafka. When it is loaded again, hours later, that time has come."""
    topic = records.create(loading.bootstrap)
    declare(loading, topic)
    at = datetime.now(UTC) - timedelta(minutes=30)
    send(loading, topic, [(0, "ada", 0, 1), (0, "ada", 1, 1)])
    ahead = json.dumps({"user_id": "ada", "at": at.isoformat(), "price": "7"})
    records.produce(loading.bootstrap, topic, [ahead], timestamp_ms=round(at.timestamp() * 1000))
    batch_ids = loading.plan("two hours ago")
    with loading.ledger() as ledger:
        execute(ledger, "SET session_replication_role = replica; UPDATE tideline.batch SET planned_at = planned_at - interval '2 hours'")  # fmt: skip
    loading.write("two hours ago", batch_ids)
    loading.advance("two hours ago")
    [(step, reason, value)] = loading.rejects().values()
    assert (step, value) == ("transform", ahead.encode())
    assert reason.startswith("ahead of its time")
    assert reason.endswith(", when it was first planned")
    send(loading, topic, [(0, "ada", 2, 1), (0, "bob", 3, 1)])
    loading.run()
    assert len(loading.rejects()) == 1
    whole = seen(loading)
    rewind(loading, 0)
    assert loading.rejects() == {}
    # The batch over it is given up, and planned once more with what comes after it.
    with loading.ledger() as ledger:
        for batch in reservations.open_batches(ledger, loading.pipeline.name):
            with ledger.transaction():
                abandoning.abandon(ledger, batch.batch_id)
    loading.run()
    assert seen(loading) == whole


def test_a_corrected_processor_folds_again_what_was_rewound(loading):
    topic, _ = load(loading, 3)
    first = folded(loading)[0]
    before = rows(loading)
    text = transform().replace('value["clicks"] += 1', 'value["clicks"] += 100')
    declare(loading, topic, text=text, state={"lateness_minutes": 1})
    dry = rewind(loading, first, "--dry-run")
    assert "would be undone" in dry
    assert rows(loading) == before
    rewind(loading, first)
    kept_rows = rows(loading)
    assert kept_rows == [row for row in before if row[-1] == first]
    loading.run()
    begun_since = [row for row in rows(loading) if row[1] >= EPOCH + timedelta(minutes=80)]
    assert begun_since
    assert all(row[2] >= 100 for row in begun_since)


def test_a_type_that_is_changed_is_refused_until_everything_is_folded_anew(loading):
    topic, _ = load(loading, 1)
    changed = {"columns": {"first": "timestamp", "clicks": "int", "revenue": "decimal(18,6)"}}
    declare(loading, topic, state=changed)
    send(loading, topic, [(0, "u0", 200, 1)])
    batch_ids = loading.plan("refused")
    with pytest.raises(FatalError, match="expected clicks to be bigint, found int"):
        loading.write("refused", batch_ids)
    rewind(loading, 0)
    loading.run()
    # Six clicks, and the last one, which is older: it sets the timer back, so the batch ends the session.
    [(user, clicks)] = loading.rows("SELECT user_id, clicks FROM ads.output WHERE user_id = 'u0'")
    assert (user, clicks) == ("u0", 7)
    versions = loading.rows("SELECT count(DISTINCT processor)::int, count(*)::int FROM tideline.state_batch")
    assert versions == [(1, 3)]


def test_a_changed_processor_folds_on_from_the_states_of_the_former_one(loading):
    topic, _ = load(loading, 1)
    declare(loading, topic, text=transform().replace('value["clicks"] += 1', 'value["clicks"] += 100'))
    send(loading, topic, [(0, "u2", 33, 1), (0, "u4", 200, 1)])
    loading.run()
    assert loading.rows("SELECT clicks FROM ads.output WHERE user_id = 'u2'") == [(106,)]
    assert loading.rows("SELECT count(DISTINCT processor)::int FROM tideline.state_batch") == [(2,)]
