"""The attempts of a batch that people see: the ledger in memory returns the same as Postgres, whatever the outcome of each attempt."""

from faults.memory import record
from given_ledger.ledgers import claim, plan, publish
from tideline.ledger import attempts


def viewed(session, batch_id):
    with session.transaction():
        return session.rows("view_batch_attempts", batch_id=batch_id)


def test_attempts_are_viewed_in_the_order_of_their_fences_with_how_far_each_has_come(session, mirrored, stream):
    assert viewed(session, 1) == []
    batch_id = plan(session, {stream: (0, 10)})
    failed = claim(session, batch_id)
    attempts.beat(session, failed.attempt)
    [row] = viewed(session, batch_id)
    assert (row["n_read"], row["progressed_at"], row["ended_at"]) == (
        0,
        None,
        None,
    )  # a heartbeat without a record is no progress
    attempts.fail(session, failed, "too slow")
    again = claim(session, batch_id)
    count = {"first_read": 0, "last_read": 9, "n_read": 10, "n_filtered": 0, "n_bytes": 0}
    record(session, again, counts=[{"stream_id": stream, **count}])
    attempts.beat(session, again.attempt)
    first, second = viewed(session, batch_id)
    assert (first["fence"], first["outcome"], first["problem"]) == (1, "failed", "too slow")
    assert (second["fence"], second["n_read"], second["ended_at"]) == (2, 10, None)
    assert second["started_at"] < second["progressed_at"] <= second["heartbeat_at"]
    publish(session, again)
    assert viewed(session, batch_id)[1]["outcome"] == "published"
    mirrored.check()
