"""Rejected records, tried again after the transform is corrected: from the bytes that were kept."""

from system import decoded
from topic_changes import forget

NAME = "rejected"


def test_rejects_of_one_reason_move_to_the_output_although_kafka_has_forgotten_them(system):
    """Seven of twenty are too dear, one is the number three."""
    sent = system.fill(NAME, 20, partitions=2)
    system.run(NAME)
    dear = {place for place, row in decoded(sent).items() if row[2] > 3 and row[0] != 3}
    three = {place for place, row in decoded(sent).items() if row[0] == 3}
    assert (len(dear), len(three)) == (7, 1)
    assert rejects(system) == dear | three
    [first] = system.batches(NAME)
    assert counts(system, first) == (20, 12, 8)

    (system.folder / "pipelines" / NAME / "transform.py").unlink()
    forget(system, NAME, {0: 10, 1: 10})
    system.run(NAME, load="rejected records", reject_reason="too dear", reason="dear ones are welcome now")
    assert rejects(system) == three
    assert system.output(NAME) == decoded({place: value for place, value in sent.items() if place not in three})
    assert counts(system, first) == (20, 19, 1)
    assert system.heads(NAME) == [10, 10]


def rejects(system) -> set[tuple[int, int]]:
    rows = system.rows(
        "SELECT partition, kafka_offset FROM tideline.reject JOIN tideline.stream USING (stream_id) WHERE pipeline = %s",
        NAME,
    )
    return set(rows)


def counts(system, batch_id: int) -> tuple[int, ...]:
    """Return the numbers of read, written and rejected records of a batch."""
    [row] = system.rows(
        "SELECT sum(n_read)::int, sum(n_written)::int, sum(n_rejected)::int FROM tideline.batch_range WHERE batch_id = %s",
        batch_id,
    )
    return row
