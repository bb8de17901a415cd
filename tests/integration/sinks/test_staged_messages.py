"""What a topic is sent of the rows that tasks have staged: those of the winners, in the order of the source, each with its origin."""

import pytest

from given_ledger.decisions import reject
from given_ledger.ledgers import TOPIC_ID, claim, execute, plan, stage, start_streams
from tideline.errors import FatalError, RetryableError
from tideline.sinks.kafka import staging
from tideline.sinks.kafka.counting import counted
from tideline.sinks.kafka.encoding import Records
from tideline.sinks.kafka.kafka_topic import ATTEMPT, ORIGIN
from tideline.sinks.kafka.sending import messages
from tideline.sinks.sink import Publication, Winner
from tideline.sinks.staging_tables import staging_name

RECORDS = Records(key=("id",), headers=("name",), item="line", value=("price",), max_bytes=1_000, needs_key=False)
WINNING, LOSING = 5, 6


@pytest.fixture
def stream(ledger):
    return start_streams(ledger, 2)[1]


@pytest.fixture
def attempt(ledger, ledger_url, stream, monkeypatch):
    """An attempt at ten records of partition 1."""
    monkeypatch.setenv("TIDELINE_LEDGER_URL", ledger_url)
    attempt = claim(ledger, plan(ledger, {stream: (0, 10)}))
    stage(ledger, attempt)
    staging.create(ledger, attempt, RECORDS)
    return attempt


@pytest.fixture
def store(ledger, attempt, stream):
    """Return a function that stages rows: offset, item, task."""

    def store(*rows):
        for offset, item, task in rows:
            order = b"" if item is None else item.to_bytes(8, "big")
            values = (stream, offset, order, None if item is None else str(item), task, b"k", b"{}", b"h")
            execute(
                ledger,
                f"INSERT INTO tideline_staging.{staging_name(attempt)} VALUES (%s, %s, %s, %s, %s, %s, %s, %s)",
                *values,
            )

    return store


def publication(ledger, attempt, n_rows, refused=None):
    def rejected(found):
        refused.extend((one.offset, one.reason) for one in found)
        reject(ledger, attempt, found[0].stream_id, *[one.offset for one in found])
        return len(found)

    return Publication(
        ledger=ledger,
        broker=None,
        pipeline=None,
        attempt=attempt,
        winners=[Winner(WINNING, n_rows)],
        reject=rejected,
        filtered_by_difference=False,
    )


def test_rows_of_winning_tasks_are_sent_as_they_were_read_with_their_origin(ledger, attempt, store):
    store((7, 2, WINNING), (7, 1, WINNING), (9, None, WINNING), (8, 1, LOSING), (2, 10, WINNING), (2, 9, WINNING))
    found = list(messages(ledger, attempt, RECORDS, [WINNING]))
    origins = [dict(message.headers)[ORIGIN].decode() for message in found]
    assert origins == [f"{TOPIC_ID}/1/{place}" for place in ("2/9", "2/10", "7/1", "7/2", "9")]
    assert {(message.key, message.value, *message.headers[1:]) for message in found} == {
        (b"k", b"{}", (ATTEMPT, str(attempt.attempt).encode()), ("name", b"h"))
    }


def test_rows_of_winning_tasks_are_counted_by_record(ledger, attempt, store, stream):
    store((1, 1, WINNING), (1, 2, WINNING), (3, 1, WINNING), (4, 1, LOSING))
    staged = counted(publication(ledger, attempt, 3), attempt)
    assert (staged.n_rows, staged.written.n_written) == (3, {stream: 2})


def test_a_record_that_was_rejected_sends_none_of_its_rows(ledger, attempt, store, stream):
    store((1, 1, WINNING), (1, 2, WINNING), (3, 1, WINNING))
    reject(ledger, attempt, stream, 1)
    staged = counted(publication(ledger, attempt, 3), attempt)
    assert (staged.n_rows, staged.written.n_written) == (1, {stream: 1})
    assert [m.headers[0][1].decode() for m in messages(ledger, attempt, RECORDS, [WINNING])] == [f"{TOPIC_ID}/1/3/1"]


def test_a_record_whose_rows_have_one_origin_is_rejected(ledger, attempt, store, stream):
    store((1, 1, WINNING), (1, 1, WINNING), (3, 1, WINNING))
    refused = []
    staged = counted(publication(ledger, attempt, 3, refused), attempt)
    assert (staged.n_rows, staged.written.n_written) == (1, {stream: 1})
    assert refused == [(1, "two rows of the record have the item '1'")]


def test_staged_rows_that_a_crash_of_the_server_has_emptied_are_not_counted_as_nothing(ledger, attempt, store):
    store((1, 1, WINNING))
    with pytest.raises(RetryableError, match="2 rows were staged, 1 are there") as caught:
        counted(publication(ledger, attempt, 2), attempt)
    assert caught.value.entry == "staged-rows-are-missing"


def test_rows_of_a_record_that_the_attempt_has_not_read_are_refused(ledger, attempt, store):
    store((11, 1, WINNING))
    with pytest.raises(FatalError, match="1 rows of records that the batch does not have"):
        counted(publication(ledger, attempt, 1), attempt)
