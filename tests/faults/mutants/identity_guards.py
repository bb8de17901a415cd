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
        "identity_of_the_number",
        "what a batch is called outside of the ledger is drawn at random, and not made of its number",
        (
            Edit(
                "include/tideline/ledger/attempts.py",
                'identity=batch["identity"],',
                "identity=UUID(int=batch_id),",
            ),
        ),
        seen_by="tests/integration/test_restored_ledger.py::test_attempts_of_one_number_and_fence_have_files_and_tables_of_their_own",
    ),
    Mutant(
        "identity_changes",
        "the identity of a batch never changes",
        (
            Edit(
                f"{_MIGRATIONS}/0025_identity.sql",
                "NEW.identity) IS DISTINCT FROM (OLD.supersedes, OLD.reason, OLD.outside, OLD.identity)",
                "NEW.outside) IS DISTINCT FROM (OLD.supersedes, OLD.reason, OLD.outside, OLD.outside)",
            ),
        ),
        seen_by="tests/integration/sinks/test_outside_laws.py::test_each_batch_has_an_identity_of_its_own_that_never_changes",
    ),
    Mutant(
        "open_batches_migrated",
        "no batch that may be committed under the name of its number is migrated",
        (Edit(f"{_MIGRATIONS}/0025_identity.sql", "    IF found IS NOT NULL THEN", "    IF false THEN"),),
        seen_by="tests/integration/test_migrations.py::"
        "test_a_ledger_with_an_open_batch_that_may_be_committed_outside_is_not_migrated_to_identities",
    ),
    Mutant(
        "written_batches_migrated",
        "no batch that a driver may still commit under the name of its number is migrated",
        (
            Edit(
                f"{_MIGRATIONS}/0025_identity.sql", "WHERE outside AND state = 'writing' OR state IN", "WHERE state IN"
            ),
        ),
        seen_by="tests/integration/test_migrations.py::"
        "test_a_ledger_with_an_open_batch_that_may_be_committed_outside_is_not_migrated_to_identities",
    ),
    Mutant(
        "migrated_beside_drivers",
        "what is intended while the ledger is migrated counts (both locks)",
        (
            Edit(f"{_MIGRATIONS}/0025_identity.sql", "LOCK TABLE tideline.batch IN ACCESS EXCLUSIVE MODE;", ""),
            Edit(
                f"{_MIGRATIONS}/0025_identity.sql",
                "LOCK TABLE tideline.intent, tideline.letters IN SHARE ROW EXCLUSIVE MODE;",
                "",
            ),
        ),
        seen_by="tests/integration/test_migrations.py::"
        "test_a_batch_that_is_intended_while_the_ledger_is_migrated_to_identities_is_waited_for_and_refused",
    ),
    Mutant(
        "owed_letters_migrated",
        "no letters that may be sent under the name of their batch's number are migrated",
        (Edit(f"{_MIGRATIONS}/0025_identity.sql", "    IF owed IS NOT NULL THEN", "    IF false THEN"),),
        seen_by="tests/integration/test_migrations.py::"
        "test_a_ledger_is_not_migrated_to_identities_while_letters_may_have_been_sent_under_former_names",
    ),
    Mutant(
        "restored_to_any_time",
        "a batch whose rows a restore to a time has taken back is not published",
        (
            Edit(
                "include/tideline/outside/delta_receipts.py",
                "if _files(table, earlier) == files)",
                "if True)",
            ),
        ),
        seen_by="tests/integration/sinks/test_delta_table.py::"
        "test_the_receipt_of_a_commit_that_a_restore_to_a_time_has_taken_back_says_so",
    ),
    Mutant(
        "path_without_the_attempt",
        "files of two attempts with one fence are in folders of their own",
        (Edit("include/tideline/outside/delta_files.py", "{own.fence}-{own.attempt}", "{own.fence}-{identity}"),),
        seen_by="tests/integration/test_restored_ledger.py::test_attempts_of_one_number_and_fence_have_files_and_tables_of_their_own",
    ),
    Mutant(
        "staging_table_by_id",
        "rows of two attempts with one id are staged in tables of their own",
        (Edit("spark_jobs/sinks/staging_tables.py", "{attempt.attempt.hex}", "{attempt.attempt_id:032x}"),),
        seen_by="tests/integration/test_restored_ledger.py::test_attempts_of_one_number_and_fence_have_files_and_tables_of_their_own",
    ),
    Mutant(
        "file_written_over",
        "a file that exists is never opened for writing",
        (Edit("include/tideline/outside/delta_files.py", 'file.open("xb")', 'file.open("wb")'),),
        seen_by="tests/integration/sinks/test_delta_table.py::test_a_file_that_exists_is_never_opened_for_writing",
    ),
    Mutant(
        "first_claim_does_not_look",
        "the first attempt at a batch looks for a receipt, before anything is staged",
        (
            Edit(
                "include/tideline/flow/settling.py",
                "        receipt = sink.look(attempt.batch)\n",
                "        receipt = None\n",
            ),
        ),
        seen_by="tests/integration/sinks/test_outside_receipts.py::test_a_first_attempt_that_finds_a_receipt_stages_nothing",
    ),
    Mutant(
        "taken_back_and_published",
        "a batch whose rows a restore of the output has taken back is not published",
        (
            Edit(
                "include/tideline/flow/settling.py",
                "    if receipt.gone:\n        raise",
                "    if False:\n        raise",
            ),
        ),
        seen_by="tests/integration/sinks/test_outside_receipts.py::"
        "test_what_a_restore_of_the_output_has_taken_back_is_not_published_but_given_up",
    ),
    Mutant(
        "unknown_batches_not_asked_for",
        "doctor finds batches that a sink has and the ledger does not know",
        (
            Edit(
                "include/tideline/cli/checks/outside.py",
                "for identity in unknown[-MOST:]:",
                "for identity in unknown[:0]:",
            ),
        ),
        seen_by="tests/integration/sinks/test_outside_doctor.py::"
        "test_doctor_finds_a_committed_batch_that_the_ledger_does_not_know_whatever_its_number",
    ),
    Mutant(
        "checkpoint_not_read",
        "the batches of a table are found in its checkpoint too",
        (Edit("include/tideline/outside/delta_applications.py", "    for part in checkpoint:", "    for part in ():"),),
        seen_by="tests/integration/sinks/test_delta_table.py::"
        "test_the_table_lists_all_batches_of_its_pipeline_also_those_before_a_checkpoint",
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
        "refused_after_a_frame_forgotten",
        "a record of which a row does not fit after a frame is a reject",
        (
            Edit(
                "spark_jobs/write_batches.py",
                "        refused_records.reject_reported(loading, winners, run=_run)\n",
                "",
            ),
        ),
        seen_by="tests/integration/test_rejects.py::test_a_record_is_kept_as_it_came_whatever_a_frame_makes_of_it",
    ),
    Mutant(
        "tombstones_of_two_reads_not_compared",
        "what tombstones delete is published only if both reads have seen the same tombstones",
        (Edit("spark_jobs/tombstone_counts.py", "if first != second:", "if False:"),),
        seen_by="tests/integration/sinks/test_upsert.py::test_a_tombstone_that_is_compacted_away_between_two_reads_publishes_nothing",
    ),
    Mutant(
        "refused_after_a_frame_not_compared",
        "a record that a frame names is a reject only if the batch has it",
        (Edit("spark_jobs/refused_records.py", "    _check_of_batch(loading.attempt, refused)\n", ""),),
        seen_by="tests/integration/test_rejects.py::test_a_frame_that_names_a_record_of_another_batch_makes_no_reject_of_it",
    ),
    Mutant(
        "frame_gets_the_bytes",
        "a frame gets the coordinates of a record, and nothing that it would shuffle or forge",
        (
            Edit(
                "spark_jobs/records/transforms.py",
                'KAFKA.field(name) for name in ("topic", "partition", "offset", "timestamp")',
                "*KAFKA",
            ),
        ),
        seen_by="tests/integration/test_sample_frames.py",
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
        (Edit("include/tideline/flow/advancing.py", "    if unknown:\n", "    if False:\n"),),
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
        (Edit(f"{_QUERIES}/uncover_ranges.sql", "ORDER BY coverage_id FOR UPDATE;", "ORDER BY coverage_id;"),),
        seen_by="tests/integration/test_backfill_races.py",
    ),
)
