"""Mutants for the guards that compare identities and not only numbers. A test of its own detects each."""

from faults.mutants.mutant import Edit, Mutant

_QUERIES = "include/tideline/ledger/sql/queries"
_MIGRATIONS = "include/tideline/ledger/sql/migrations"

IDENTITY_MUTANTS = (
    Mutant(
        "staging_for_any_attempt",
        "an attempt that the ledger does not know stages nothing",
        (
            Edit(
                f"{_MIGRATIONS}/0020_restored.sql",
                "(SELECT attempt_id FROM tideline.attempt WHERE attempt = number)",
                "(SELECT max(attempt_id) FROM tideline.attempt)",
            ),
        ),
        seen_by="tests/integration/test_staged_counts.py",
    ),
    Mutant(
        "redriven_counted",
        "a re-drive compares and settles exactly the rejects that it has read, not their number (both lines)",
        (
            Edit(
                f"{_QUERIES}/lock_redriven.sql",
                "count(*) FROM (TABLE taken EXCEPT TABLE left_over) AS gone)",
                "count(*) FROM taken) - (SELECT count(*) FROM left_over)",
            ),
            Edit(
                f"{_QUERIES}/lock_redriven.sql", "count(*) FROM (TABLE left_over EXCEPT TABLE taken) AS unread)", "0)"
            ),
            Edit(f"{_QUERIES}/settle_rejects.sql", " AND reject.attempt_id = taken.rejected_by", ""),
        ),
        seen_by="tests/integration/test_redrive_identity.py",
    ),
    Mutant(
        "redriven_settled_by_place",
        "a re-drive settles the rejects that it has read, not others of the same records",
        (Edit(f"{_QUERIES}/settle_rejects.sql", " AND reject.attempt_id = taken.rejected_by", ""),),
        seen_by="tests/integration/test_redrive_identity.py",
    ),
    Mutant(
        "redriven_kept_by_place",
        "a re-drive gives its new reasons to the rejects that it has read, not to others of the same records",
        (Edit(f"{_QUERIES}/keep_rejects.sql", " AND reject.attempt_id = taken.rejected_by", ""),),
        seen_by="tests/integration/test_redrive_identity.py",
    ),
    Mutant(
        "bytes_by_offset",
        "a row gets the bytes of its own record, and not of the same offset in another partition",
        (
            Edit(
                "spark_jobs/records/kafka_metadata.py",
                '_COORDINATES = ("topic", "partition", "offset")',
                '_COORDINATES = ("offset",)',
            ),
        ),
        seen_by="tests/unit/test_kafka_metadata.py",
    ),
    Mutant(
        "slice_not_fixed",
        "a task that reads rejects a second time reads the same or fails",
        (Edit(f"{_MIGRATIONS}/0005_redrives.sql", "IF NEW IS DISTINCT FROM OLD THEN", "IF false THEN"),),
        seen_by="tests/integration/test_redrive_identity.py",
    ),
    Mutant(
        "batches_of_airflow_trusted",
        "tasks compare the batches that Airflow remembers with those that the ledger has given to the run",
        (Edit("include/tideline/flow/advancing.py", "if unknown or not batch_ids:", "if False:"),),
        seen_by="tests/integration/test_restored_ledger.py",
    ),
    Mutant(
        "claimed_for_any_run",
        "a claim checks that the batch was given to its run",
        (Edit("include/tideline/ledger/attempts.py", "        if pipeline is not None:\n", "        if False:\n"),),
        seen_by="tests/integration/test_restored_ledger.py",
    ),
    Mutant(
        "holes_do_not_wait",
        "backfills of one hole take turns on its row",
        (Edit(f"{_QUERIES}/uncover_ranges.sql", "ORDER BY c.coverage_id FOR UPDATE OF c;", "ORDER BY c.coverage_id;"),),
        seen_by="tests/integration/test_backfill_races.py",
    ),
)
