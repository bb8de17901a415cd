"""A run that finds nothing: it ends as skipped, and no JVM starts for it. Odd topics with records: see tests/integration/test_source.py."""

import records


def test_a_run_without_records_is_skipped_and_starts_no_jvm(system):
    records.create(system.bootstrap, name="empty")
    run_id = system.run("empty")
    assert system.states("empty", run_id) == {
        "plan": "skipped",
        "write": "skipped",
        "advance": "skipped",
        "announce": "skipped",
    }
    assert (system.batches("empty"), system.attempts("empty"), system.heads("empty")) == ({}, [], [0])
