"""Mutants of stateful pipelines: of folding, of publishing states, and of rewinds."""

from faults.mutants.mutant import Edit, Mutant

_FOLDING = "spark_jobs/state/folding.py"
_KEY_STATE = "spark_jobs/state/key_state.py"
_FOLDED_TABLE = "spark_jobs/sinks/postgres/folded_table.py"
_PUBLISHING = "include/tideline/ledger/folding.py"
_REWINDS = "include/tideline/ledger/rewinds.py"
_REWINDING = "include/tideline/flow/rewinding.py"
_ORDER = "include/tideline/flow/folding_order.py"
_STATE_SQL = "include/tideline/ledger/sql/migrations/0016_state.sql"
_LAWS = "tests/integration/state/test_state_laws.py"
_UNDO_LAWS = "tests/integration/state/test_undo_laws.py"
_STATEFUL = 6_000_000_000
"""Schedules of a pipeline with a state have seeds from here on: `faults.drawn_schedules.STATEFUL`, which imports the product."""

STATE_MUTANTS = (
    Mutant(
        "state_in_another_transaction",
        "states are written in the transaction that publishes their batch",
        (
            Edit(
                _FOLDED_TABLE,
                "            folding.publish_states(ledger, attempt, states)\n            return written\n",
                "            return written\n",
            ),
            Edit(
                _FOLDED_TABLE,
                "        try:\n            return in_one_step(insert_output)\n",
                "        with publication.ledger.transaction():\n            folding.publish_states(publication.ledger, attempt, states)\n"
                "        try:\n            return in_one_step(insert_output)\n",
            ),
        ),
        first_seed=_STATEFUL,
    ),
    Mutant(
        "timer_comes_again",
        "a timer that has come is gone",
        (
            Edit(
                _KEY_STATE,
                "        if not state.is_assigned:\n            state.clear()\n",
                "        if not state.is_assigned:\n            return rows\n",
            ),
        ),
        first_seed=_STATEFUL,
    ),
    Mutant(
        "timer_after_its_record",
        "a timer comes before the record that reaches it",
        (Edit(_FOLDING, "        if key.is_due(at):\n", "        if False:\n"),),
        first_seed=_STATEFUL,
    ),
    Mutant(
        "no_timers_at_the_end",
        "timers that the watermark has reached come at the end of the batch",
        (
            Edit(
                "spark_jobs/stateful.py",
                "        if not due:\n            return []\n",
                "        if due:\n            return []\n",
            ),
        ),
        first_seed=_STATEFUL,
    ),
    Mutant(
        "rejected_record_moves_the_watermark",
        "a record that is rejected does not raise the watermark",
        (
            Edit(
                _FOLDING,
                "        try:\n            made = key.on_record(",
                "        latest = self.latest.get(record.stream_id)\n"
                "        self.latest[record.stream_id] = at if latest is None else max(at, latest)\n"
                "        try:\n            made = key.on_record(",
            ),
        ),
        first_seed=_STATEFUL,
    ),
    Mutant(
        "rejected_record_lets_timers_come",
        "a record that is rejected lets no timer of its key come",
        (Edit(_FOLDING, "            if before is not None:\n", "            if False:\n"),),
        first_seed=_STATEFUL,
    ),
    Mutant(
        "key_in_two_partitions",
        "a key belongs to one partition",
        (Edit(_FOLDING, "if key.is_kept and key.stream != stream.name:", "if False:"),),
        first_seed=_STATEFUL,
    ),
    Mutant(
        "no_reset_after_a_gap",
        "keys begin anew after a gap, where the declaration says so",
        (Edit(_PUBLISHING, "    if staged.resets and gaps:\n", "    if False:\n"),),
        first_seed=_STATEFUL,
    ),
    Mutant(
        "states_of_lost_tasks",
        "only the states that the winning tasks have staged count",
        (
            Edit(_PUBLISHING, '    ledger.run_sql(_query("discard_staged_states", staged), bound)\n', ""),
            Edit(
                _PUBLISHING,
                "        if n_rows != sum(winners.values()) or n_keys != n_rows:\n",
                "        if n_rows < sum(winners.values()):\n",
            ),
        ),
        first_seed=_STATEFUL,
    ),
    Mutant(
        "rows_stay_after_a_rewind",
        "a rewind deletes the rows of the batches that it undoes",
        (Edit(_REWINDING, "rewinds.delete_rows(ledger, pipeline.table_sink.table, undone)", "0"),),
        first_seed=_STATEFUL,
    ),
    Mutant(
        "rejects_stay_after_a_rewind",
        "a rewind deletes the rejects of the batches that it undoes",
        (Edit(_REWINDS, '    ledger.run("delete_rewound_rejects", batch_ids=given)\n', ""),),
        first_seed=_STATEFUL,
    ),
    Mutant(
        "oldest_undone_first",
        "undo is applied from the newest batch back",
        (Edit(_REWINDS, "    for batch_id in given:\n", "    for batch_id in reversed(given):\n"),),
        first_seed=_STATEFUL,
    ),
    Mutant(
        "rewound_offsets_forgotten",
        "what a rewind has left is planned again",
        (
            Edit(_ORDER, "in turns.rewound(call.ledger, call.pipeline.name):", "in ():"),
            Edit(
                _REWINDING,
                "    planned = reservations.reserve(ledger, pipeline.name, run, BatchKind.BACKFILL, again, reason=reason, stateful=True)\n",
                "    planned = []\n",
            ),
        ),
        first_seed=_STATEFUL,
    ),
    Mutant(
        "dry_run_that_rewinds",
        "a dry run of a rewind changes nothing",
        (Edit(_REWINDING, "reason, dry_run=dry_run) as now:", "reason) as now:"),),
        first_seed=_STATEFUL,
    ),
)
"""Detected by the simulation."""

STATE_TESTED_MUTANTS = (
    Mutant(
        "keyed_columns_by_name",
        "a column of records that are folded may have the name of one that they get",
        (Edit("spark_jobs/state/arrow_records.py", "name: table.column(at) for", "name: table.column(name) for"),),
        seen_by="tests/unit/test_state_trials.py::test_columns_may_have_the_names_of_those_that_records_get_when_they_are_folded",
    ),
    Mutant(
        "no_position_check",
        "a batch whose ranges do not begin where the state stands is not published",
        (
            Edit(
                _STATE_SQL,
                "    IF since > lower(piece) OR since < lower(piece) AND NOT coalesce(",
                "    IF false AND NOT coalesce(",
            ),
        ),
        seen_by=f"{_LAWS}::test_a_batch_whose_ranges_do_not_begin_where_the_state_stands_is_not_published",
    ),
    Mutant(
        "rewound_hole_passed",
        "what a rewind has left is loaded before anything after it",
        (
            Edit(
                _STATE_SQL,
                "WHERE c.batch_id IS NULL AND c.hole <> 'rewound'), false)",
                "WHERE c.batch_id IS NULL), false)",
            ),
        ),
        seen_by=f"{_UNDO_LAWS}::test_what_a_rewind_has_left_is_loaded_before_anything_after_it",
    ),
    Mutant(
        "undo_in_any_order",
        "the database refuses undo that is not applied from the newest batch back",
        (
            Edit(
                _STATE_SQL,
                "k.undo = 'kept' AND k.seq > b.seq WHERE b.undo = 'applied') THEN",
                "false WHERE b.undo = 'applied') THEN",
            ),
        ),
        seen_by=f"{_UNDO_LAWS}::test_undo_is_applied_by_a_rewind_from_the_newest_batch_back",
    ),
    Mutant(
        "undo_pruned_early",
        "undo stays while its batch may still be rewound",
        (
            Edit(
                _STATE_SQL,
                "AS g JOIN tideline.state_batch USING (batch_id) WHERE undo = 'kept') THEN\n",
                "AS g JOIN tideline.state_batch USING (batch_id) WHERE false) THEN\n",
            ),
        ),
        seen_by=f"{_UNDO_LAWS}::test_no_client_writes_undo_or_deletes_it_while_it_is_kept",
    ),
    Mutant(
        "folded_and_not_published",
        "what is folded is published in the same transaction",
        (
            Edit(
                _STATE_SQL,
                "    IF EXISTS (SELECT FROM tideline.batch WHERE batch_id = NEW.batch_id AND state = 'writing') THEN\n",
                "    IF false THEN\n",
            ),
        ),
        seen_by=f"{_LAWS}::test_what_is_folded_is_published_in_the_same_transaction",
    ),
    Mutant(
        "no_version_check",
        "an attempt that has read another state than there is now is refused",
        (Edit(_PUBLISHING, "        if position.version != before.version:\n", "        if False:\n"),),
        seen_by="tests/integration/state/test_folding.py::test_an_attempt_that_has_read_another_state_is_refused",
    ),
    Mutant(
        "late_within_a_batch",
        "records of one batch are not late for each other",
        (
            Edit(
                _FOLDING,
                "stream.watermark is not None and at < stream.watermark:",
                "at < self.latest.get(record.stream_id, at):",
            ),
        ),
        seen_by="tests/unit/test_state_folding.py::test_records_of_one_batch_are_not_late_for_each_other",
    ),
    Mutant(
        "record_of_the_future",
        "a record ahead of its time raises no watermark",
        (Edit(_FOLDING, "        if reason := self._is_ahead(stream, record, at):\n            return reason\n", ""),),
        seen_by="tests/unit/test_state_folding.py::test_a_record_ahead_of_its_time_is_a_reject_and_leaves_the_partition_as_it_was",
    ),
    Mutant(
        "judged_by_the_last_plan",
        "a record is judged by the first plan of its offset, also after a rewind",
        (Edit("spark_jobs/state/before.py", "min(plan.at for plan in given", "max(plan.at for plan in given"),),
        seen_by="tests/integration/state/test_rewound_loads.py::test_a_record_ahead_of_its_time_has_the_same_fate_after_a_rewind",
    ),
    Mutant(
        "timers_in_one_transaction",
        "no transaction is open while the processor of the author runs",
        (
            Edit(
                "spark_jobs/sinks/postgres/state_session.py",
                '                for row in rows:\n                    yield row["key"], _stored(row, one.stream_id, one.stream)\n',
                '                    for row in rows:\n                        yield row["key"], _stored(row, one.stream_id, one.stream)\n',
            ),
        ),
        seen_by="tests/integration/state/test_due_pages.py::test_no_transaction_is_open_while_the_processor_runs",
    ),
    Mutant(
        "page_after_the_timer",
        "a page of timers begins behind the last key of the one before, also where keys have the same timer",
        (
            Edit(
                "spark_jobs/sinks/postgres/select_due.sql",
                "\n       AND (s.expires_at, s.key) > (%(after_at)s::timestamptz, %(after_key)s)\n",
                "\n       AND s.expires_at > %(after_at)s::timestamptz\n",
            ),
        ),
        seen_by="tests/integration/state/test_due_pages.py::test_pages_hold_each_key_whose_timer_has_come_once",
    ),
    Mutant(
        "overlapping_pieces_folded",
        "records that come in another order than that of their offsets are not folded",
        (Edit("spark_jobs/state/buckets.py", "piece.stream == stream and piece.first <= last", "piece.first < 0"),),
        seen_by="tests/unit/test_state_buckets.py::test_pieces_that_overlap_are_refused",
    ),
    Mutant(
        "order_of_offsets_lost",
        "Spark folds the records of a key in the order of their offsets",
        (
            Edit(
                "spark_jobs/stateful.py",
                "parts.sortWithinPartitions(BUCKET, STREAM, FIRST)",
                "parts.sortWithinPartitions(BUCKET, STREAM, FIRST, ascending=False)",
            ),
        ),
        seen_by="tests/integration/state/test_stateful_loads.py::test_sessions_over_several_batches_are_those_of_one_fold_in_memory",
    ),
)
"""Detected by a test of their own."""
