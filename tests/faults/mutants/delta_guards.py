"""Mutants of the Delta sink: what keeps rows from being twice in a table, or from being deleted."""

from faults.mutants.mutant import Edit, Mutant

_OUTSIDE = "include/tideline/outside"
_SINK = "spark_jobs/sinks/delta"
_TABLE = "tests/integration/sinks/test_delta_table.py"
_UPKEEP = "tests/integration/sinks/test_lake_upkeep.py"
_SHARED = "tests/integration/sinks/test_shared_lakes.py"
_DISK = "tests/integration/sinks/test_lake_disk.py"
_ROWS = "tests/integration/sinks/test_doctor_rows.py"
_FEATURES = "tests/integration/sinks/test_lake_features.py"
_MISSING = "tests/integration/sinks/test_missing_table.py"
_LAKES = 3_000_000_000
"""Schedules of processes with a Delta table have seeds from here on: `faults.drawn_schedules.OUTSIDE`, which imports the product."""

LAKE_MUTANTS = (
    Mutant(
        "delta_fence_without_marker",
        "a fence stores its marker in the Delta table by compare-and-set",
        (
            Edit(
                f"{_OUTSIDE}/delta_table.py",
                "            if not receipts.needs_marker(version, fence):\n",
                "            if fence:\n",
            ),
        ),
        first_seed=_LAKES,
    ),
    Mutant(
        "delta_commit_without_look",
        "an attempt looks at the version of its batch before each try to commit to a Delta table",
        (
            Edit(
                f"{_OUTSIDE}/delta_table.py",
                "            match receipts.found(version, receipt, own=own):\n",
                "            match Found.FREE:\n",
            ),
        ),
        first_seed=_LAKES + 18,
    ),
)
"""Detected by schedules of real processes."""

DELTA_MUTANTS = (
    Mutant(
        "delta_replay_by_coordinates",
        "a replay removes rows of its own pipeline's batches from a Delta table, and no others with its coordinates",
        (
            Edit(
                f"{_SINK}/replacing.py",
                '        return pc.and_(self._inside(rows), pc.is_in(rows["tideline_batch"], value_set=ours))\n',
                "        return self._inside(rows)\n",
            ),
        ),
        seen_by=f"{_SHARED}::test_a_replay_into_a_delta_table_removes_rows_of_its_own_pipeline_only",
    ),
    Mutant(
        "delta_table_without_owner",
        "a Delta table without an owner gets one when it is first used",
        (
            Edit(
                f"{_SINK}/lake_table.py",
                "    if properties := _to_own(table, pipeline):\n",
                "    if properties := dict[str, str]():\n",
            ),
        ),
        seen_by=f"{_SHARED}::test_a_table_that_was_created_beforehand_gets_an_owner_and_is_shared_by_consent_of_both",
    ),
    Mutant(
        "delta_replay_beside_strangers",
        "a replay into a Delta table refuses rows of its offsets whose batch the ledger does not know",
        (
            Edit(
                f"{_SINK}/replacing.py",
                "        if strange := self._unknown(batches - self.ours):\n",
                "        if strange := set[int]():\n",
            ),
        ),
        seen_by=f"{_SHARED}::test_a_replay_refuses_rows_of_its_offsets_that_no_batch_of_the_ledger_has_loaded",
    ),
    Mutant(
        "delta_commit_moved_behind_others",
        "a Delta commit goes exactly behind the version that was looked at",
        (Edit(f"{_OUTSIDE}/delta_log.py", "        max_commit_retries=0,\n", "        max_commit_retries=15,\n"),),
        seen_by=f"{_UPKEEP}::test_a_replay_whose_files_are_merged_before_its_commit_replaces_them_all_the_same",
    ),
    Mutant(
        "delta_fence_without_table",
        "a Delta table that does not exist is fenced by a placeholder",
        (
            Edit(
                f"{_OUTSIDE}/delta_table.py",
                "            table = self.open() or self._placeholder(trial)\n            if table is None:\n                continue\n",
                "            table = self.open()\n            if table is None:\n                return None\n",
            ),
        ),
        seen_by=f"{_TABLE}::test_a_table_that_does_not_exist_is_fenced_too",
    ),
    Mutant(
        "delta_look_without_marker",
        "an attempt that was fenced does not commit to a Delta table",
        (
            Edit(
                f"{_OUTSIDE}/delta_table.py",
                "                case Found.SUPERSEDED:\n                    raise",
                "                case Found.SUPERSEDED if receipt:\n                    raise",
            ),
        ),
        seen_by=f"{_TABLE}::test_an_attempt_that_wakes_up_after_the_fence_is_refused",
    ),
    Mutant(
        "staged_files_removed_before_the_fence",
        "staged files are removed only after their attempt is fenced",
        (
            Edit(
                f"{_OUTSIDE}/delta_cleaning.py",
                "return receipts.marker(fence) < (version or 0)",
                "return receipts.marker(fence) < (version or fence * 2 + 1)",
            ),
        ),
        seen_by=f"{_UPKEEP}::test_files_of_an_attempt_are_removed_only_after_it_is_fenced",
    ),
    Mutant(
        "merge_of_files_that_are_gone",
        "small files are merged only if the table still has all of them",
        (
            Edit(
                f"{_OUTSIDE}/delta_upkeep.py",
                "        if table is None or not {*parts} <= {*_parts(table)}:\n            break",
                "        if table is None:\n            break",
            ),
        ),
        seen_by=f"{_UPKEEP}::test_a_merge_that_is_overtaken_before_its_commit_happens_not_at_all",
    ),
    Mutant(
        "commit_behind_features_that_are_not_kept",
        "no commit goes behind a version of a Delta table with a feature that is not kept",
        (
            Edit(
                f"{_OUTSIDE}/delta_log.py",
                "    if unkept := delta_features.unkept(table, replaces=replaces):\n",
                "    if unkept := delta_features.unkept(table, replaces=replaces)[:0]:\n",
            ),
        ),
        seen_by=f"{_FEATURES}::test_a_merge_of_files_that_have_got_deletion_vectors_since_they_were_chosen_is_refused",
    ),
    Mutant(
        "upkeep_of_a_table_with_features_that_are_not_kept",
        "upkeep leaves a Delta table alone that has a feature that is not kept",
        (
            Edit(
                f"{_OUTSIDE}/delta_upkeep.py",
                "(unkept := delta_features.unkept(table))",
                "(unkept := delta_features.unkept(table)[:0])",
            ),
        ),
        seen_by=f"{_FEATURES}::test_rows_that_spark_has_deleted_stay_deleted_and_no_other_is_doubled",
    ),
    Mutant(
        "refusal_taken_for_a_lost_race",
        "a commit that the library refuses is not tried again",
        (
            Edit(
                f"{_OUTSIDE}/delta_log.py",
                "is_taken = newest.version() > table.version()",
                "is_taken = newest.version() >= table.version()",
            ),
        ),
        seen_by=f"{_FEATURES}::test_a_refusal_of_the_library_is_told_from_a_lost_race",
    ),
    Mutant(
        "data_files_not_flushed",
        "data files in a folder are on disk before they are committed",
        (
            Edit(
                f"{_OUTSIDE}/delta_log.py",
                "        delta_disk.flush_files(table, [change.path for change in changes if isinstance(change, AddAction)])\n",
                "",
            ),
        ),
        seen_by=f"{_DISK}::test_files_are_flushed_before_their_commit_and_the_commit_before_its_receipt",
    ),
    Mutant(
        "log_not_flushed",
        "a commit to a table in a folder is on disk before its receipt is returned",
        (
            Edit(
                f"{_OUTSIDE}/delta_log.py",
                "        delta_disk.flush_log(table)\n    except CommitFailedError",
                "    except CommitFailedError",
            ),
        ),
        seen_by=f"{_DISK}::test_files_are_flushed_before_their_commit_and_the_commit_before_its_receipt",
    ),
    Mutant(
        "found_receipt_not_flushed",
        "a receipt that is found in a folder is on disk before it is believed",
        (
            Edit(
                f"{_OUTSIDE}/delta_table.py", "            if version is not None:\n", "            if version == -1:\n"
            ),
        ),
        seen_by=f"{_DISK}::test_who_finds_the_receipt_of_a_process_that_was_killed_flushes_all_that_it_rests_on",
    ),
    Mutant(
        "new_folders_not_flushed",
        "the folders that a new table lies in are on disk before its first receipt",
        (Edit(f"{_OUTSIDE}/delta_disk.py", '*_up(root / _LOG, Path("/"))', "root"),),
        seen_by=f"{_DISK}::test_a_new_table_is_flushed_with_all_folders_that_were_made_for_it",
    ),
    Mutant(
        "rows_of_a_lake_not_compared",
        "doctor compares the records in a Delta table with what is published",
        (
            Edit(
                "include/tideline/cli/checks/rows.py",
                "    if wrong:\n        still",
                "    wrong = {}\n    if wrong:\n        still",
            ),
        ),
        seen_by=f"{_ROWS}::test_a_delta_table_that_was_restored_to_an_older_version_lacks_batches_and_replays_bring_them_back",
    ),
    Mutant(
        "rows_of_other_offsets_counted",
        "doctor counts only rows within the offsets of their batch",
        (Edit(f"{_OUTSIDE}/delta_rows.py", "found.append(rows.filter(inside)", "found.append(rows"),),
        seen_by=f"{_ROWS}::test_rows_of_other_offsets_under_the_number_of_a_batch_do_not_count",
    ),
    Mutant(
        "rows_of_a_table_not_compared",
        "doctor compares the records in a table of the ledger's database with what is published",
        (
            Edit(
                "include/tideline/ledger/sql/queries/view_missing_rows.sql",
                "HAVING count(DISTINCT t.kafka_offset) <> w.n_written",
                "HAVING count(DISTINCT t.kafka_offset) > w.n_written",
            ),
        ),
        seen_by=f"{_ROWS}::test_rows_that_another_program_has_deleted_from_a_table_are_named_with_their_batch",
    ),
    Mutant(
        "delta_rows_of_rejects_kept",
        "a record that is rejected has no row in a Delta table",
        (Edit(f"{_SINK}/counting.py", "    if n_rows < seen.n_rows:\n", "    if n_rows < 0:\n"),),
        seen_by="tests/integration/sinks/test_lake_loads.py::test_a_record_with_one_row_that_does_not_fit_is_rejected_with_all_its_rows",
    ),
    Mutant(
        "missing_table_taken_for_a_new_one",
        "a Delta table that an attempt was to commit to, and that is not there, is neither created nor fenced",
        (
            Edit(
                f"{_OUTSIDE}/delta_table.py",
                "        if table is None and (why := self.known()) is not None:\n            raise",
                "        if table is None and (why := None):\n            raise",
            ),
        ),
        seen_by=f"{_MISSING}::test_nothing_is_created_fenced_or_given_up_where_a_table_is_missing_that_an_attempt_was_to_commit_to",
    ),
    Mutant(
        "table_prepared_without_the_ledger",
        "an attempt does not create a Delta table that an earlier batch was to be committed to",
        (
            Edit(
                "spark_jobs/sinks/delta/sink.py",
                "delta_table.sink(pipeline, evidence.of(ledger, pipeline))",
                "delta_table.sink(pipeline)",
            ),
        ),
        seen_by=f"{_MISSING}::test_a_new_batch_is_not_written_where_an_earlier_ones_table_is_missing",
    ),
    Mutant(
        "commit_to_a_table_created_anew",
        "an attempt commits nothing to a table that was created anew since it has prepared it",
        (
            Edit(
                f"{_OUTSIDE}/delta_table.py",
                "            if PLACEHOLDER in pa.schema(table.schema()).names:\n                raise delta_errors.created_anew",
                "            if False:\n                raise delta_errors.created_anew",
            ),
        ),
        seen_by=f"{_MISSING}::test_a_table_that_was_removed_on_purpose_begins_anew_by_a_decision",
    ),
    Mutant(
        "claimed_batch_taken_for_evidence",
        "a batch that was only claimed does not prove that its table exists",
        (
            Edit(
                "include/tideline/ledger/sql/queries/find_newest_intent.sql",
                "JOIN tideline.intent i ON i.batch_id = b.batch_id JOIN tideline.attempt a ON a.attempt_id = i.attempt_id\n"
                "WHERE b.pipeline = %(pipeline)s AND b.outside AND i.output = %(output)s\n",
                "JOIN tideline.attempt a ON a.batch_id = b.batch_id\nWHERE b.pipeline = %(pipeline)s AND b.outside AND %(output)s <> ''\n",
            ),
        ),
        seen_by=f"{_MISSING}::test_a_batch_that_was_only_claimed_is_no_evidence",
    ),
    Mutant(
        "forgotten_commit_taken_for_a_strange_one",
        "doctor asks no person about a commit that is old and whose fence the ledger has",
        (Edit("include/tideline/cli/checks/outside.py", 'batch["written_fence"] != error.fence', "True"),),
        seen_by="tests/integration/sinks/test_forgotten_commits.py::test_doctor_asks_no_person_about_a_published_batch_whose_commit_is_forgotten",
    ),
)
"""Detected by a test of their own."""
