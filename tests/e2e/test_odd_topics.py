"""Topics in which offsets and records are not the same: nothing in them, markers, compaction, a transaction that is open."""

import records
from system import decoded


def test_a_run_without_records_is_skipped_and_starts_no_jvm(system):
    records.create(system.bootstrap, name="empty")
    run_id = system.run("empty")
    assert system.states("empty", run_id) == {"plan": "skipped", "write": "skipped", "advance": "skipped"}
    assert (system.batches("empty"), system.attempts("empty"), system.heads("empty")) == ({}, [], [0])


def test_a_range_of_transaction_markers_only_is_a_gap_and_is_passed(system):
    records.create(system.bootstrap, name="markers")
    producer = records.transactional(system.bootstrap, "markers")
    for number in range(5):
        producer.produce("markers", records.record(number))
    producer.commit_transaction(30)  # the marker takes offset 5
    producer.begin_transaction()
    for number in range(5, 9):
        producer.produce("markers", records.record(number))
    producer.flush(30)
    producer.abort_transaction(30)  # and this one offset 10
    run_id = system.run("markers")
    # Five offsets to a batch: the second has a marker and what was aborted, the third a marker alone.
    assert [system.ranges(batch)[0] for batch in system.planned("markers", run_id)] == [(0, 5), (5, 10), (10, 11)]
    assert [row[0] for row in system.output("markers").values()] == [0, 1, 2, 3, 4]
    assert system.counts("markers") == {0: (5, 5, 0, 0, 6)}
    assert system.heads("markers") == [11]


def test_a_compacted_topic_is_loaded_as_it_is_with_its_gaps_counted(system):
    compaction = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01", "segment.ms": "1000"}
    records.create(system.bootstrap, name="compacted", **compaction)
    keys = [b"%d" % (number % 30) for number in range(300)]
    records.produce(system.bootstrap, "compacted", map(records.record, range(300)), keys=keys, timestamp_ms=1_000_000)
    # A minute later by their timestamps: a segment of their own, which lets the one before be compacted to the last of each key.
    values = map(records.record, range(300, 305))
    records.produce(system.bootstrap, "compacted", values, keys=[b"a", b"b", b"c", b"d", b"e"], timestamp_ms=1_060_000)
    system.wait(lambda: len(system.consumed("compacted")) == 35, "the topic to be compacted")
    system.run("compacted")
    assert system.output("compacted") == decoded(system.consumed("compacted"))
    assert system.counts("compacted") == {0: (35, 35, 0, 0, 270)}
    assert system.heads("compacted") == [305]


def test_an_open_transaction_is_where_a_run_ends_and_the_next_run_begins(system):
    sent = system.fill("open_transaction", 10)
    producer = records.transactional(system.bootstrap, "open_transaction")
    for number in range(10, 15):
        producer.produce("open_transaction", records.record(number))
    producer.flush(30)
    records.produce(system.bootstrap, "open_transaction", map(records.record, range(15, 20)))
    system.run("open_transaction")
    assert system.output("open_transaction") == decoded(sent)
    assert system.heads("open_transaction") == [10]
    producer.commit_transaction(30)
    system.wait(lambda: len(system.consumed("open_transaction")) == 20, "the transaction to be committed")
    system.run("open_transaction")
    assert system.output("open_transaction") == decoded(system.consumed("open_transaction"))
    assert system.counts("open_transaction") == {0: (20, 20, 0, 0, 1)}
    assert system.heads("open_transaction") == [21]
