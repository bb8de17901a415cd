"""Mutants for the guards of the flow and of the comparisons that it uses: each removes one guard."""

from faults.mutants.mutant import Edit, Mutant

FLOW_MUTANTS = (
    Mutant(
        "open_batches_not_adopted",
        "a plan begins with the open batches of earlier runs",
        (Edit("include/tideline/flow/planning.py", "    return Plan(adopted + new,", "    return Plan(new,"),),
    ),
    Mutant(
        "request_not_compared",
        "requested offsets are compared with those that Kafka has",
        (Edit("include/tideline/flow/planning.py", "    targets.check_held(found, shares)\n", ""),),
    ),
    Mutant(
        "batches_of_a_run_replanned",
        "a run gets the same batches at each try",
        (
            Edit(
                "include/tideline/flow/planning.py",
                "    reservations.join_run(ledger, pipeline.name, call.run, planned.batch_ids)\n",
                "",
            ),
        ),
    ),
    Mutant(
        "reserved_is_free",
        "offsets that another batch has reserved are not planned",
        (
            Edit(
                "include/tideline/flow/candidates.py",
                "list(subtract(OffsetRange(stream.next_offset, end), stream.reserved))",
                "[OffsetRange(stream.next_offset, end)]",
            ),
        ),
    ),
    Mutant(
        "replay_takes_open",
        "a replay takes no offsets of open batches",
        (Edit("include/tideline/flow/targets.py", "if replace and _why_not(owner) is None]", "if replace]"),),
    ),
    Mutant(
        "backfill_takes_open",
        "a backfill takes no offsets of open batches",
        (
            Edit(
                "include/tideline/flow/targets.py",
                "owner for owner in owned.get(stream_id, []) if owner.batch_id is not None and",
                "owner for owner in owned.get(stream_id, []) if owner.batch_id is not None and not owner.is_open and",
            ),
        ),
    ),
    Mutant(
        "advance_checks_nothing",
        "advance checks that the batches of its run are advanced",
        (Edit("include/tideline/flow/advancing.py", "    if blocked:", "    if False:"),),
    ),
    Mutant(
        "skip_takes_anything",
        "a skip takes no offsets that are loaded or reserved",
        (
            Edit(
                "include/tideline/flow/operator_decisions.py",
                "for rest in subtract(piece.offsets, taken):",
                "for rest in [piece.offsets]:",
            ),
            Edit(
                "include/tideline/flow/operator_decisions.py",
                "            _check_skip(ledger, found, stream, piece)\n",
                "",
            ),
        ),
    ),
    Mutant(
        "skip_over_holes",
        "a skip takes no offsets that are in a hole already",
        (
            Edit(
                "include/tideline/flow/operator_decisions.py",
                "for rest in subtract(piece.offsets, taken):",
                "for rest in [piece.offsets]:",
            ),
        ),
    ),
    Mutant(
        "new_incarnation_undetected",
        "a topic that was created again is detected",
        (Edit("include/tideline/domain/streams.py", "    if topic.topic_id != topic_id:", "    if False:"),),
    ),
    Mutant(
        "topic_id_compared_once",
        "the topic id is compared again before publishing",
        (
            Edit(
                "include/tideline/flow/writing.py",
                "    if other is not None or topic is None or not whole:\n        return other\n",
                "    if not whole:\n        return None\n    if other is not None or topic is None:\n        return other\n",
            ),
        ),
    ),
    Mutant(
        "retention_undetected",
        "offsets that retention has deleted unread are detected",
        (
            Edit(
                "include/tideline/domain/streams.py",
                "    if gone := lost(stream, facts):",
                "    if (gone := lost(stream, facts)) and False:",
            ),
        ),
    ),
    Mutant(
        "range_not_compared",
        "planned ranges are compared with the log before they are read",
        (
            Edit(
                "include/tideline/flow/writing.py",
                "    return range_problem(piece.offsets, topic.partition(piece.partition))",
                "    return None",
            ),
        ),
    ),
    Mutant(
        "batch_of_stopped_stream_kept",
        "a plan abandons the batches over stopped streams",
        (
            Edit(
                "include/tideline/flow/planning.py",
                "    abandoning.abandon_unreadable(ledger, pipeline.name)\n    given",
                "    given",
            ),
            Edit(
                "include/tideline/flow/planning.py",
                "        while abandoning.abandon_unreadable(ledger, pipeline.name):",
                "        while False:",
            ),
        ),
    ),
    Mutant(
        "loss_without_a_hole",
        "an accepted loss becomes a hole",
        (
            Edit(
                "include/tideline/flow/operator_decisions.py",
                '        decisions.leave_hole(ledger, stream, piece, "lost", reason=reason)\n',
                "        pass\n",
            ),
        ),
    ),
    Mutant(
        "old_streams_not_retired",
        "adopting a topic retires the streams of the old one",
        (Edit("include/tideline/flow/adopting.py", "            _retire(ledger, old, seals)\n", ""),),
    ),
    Mutant(
        "announced_again",
        "an event that exists is not created again",
        (
            Edit(
                "include/tideline/flow/announcing.py",
                "    seen = [batch for batch in waiting if batch.attempt in announced]",
                "    announced, seen = set(), []",
            ),
        ),
    ),
)

FLOW_TESTED_MUTANTS = (
    Mutant(
        "marked_plan_unnoticed",
        "a run whose plan has returned nothing writes nothing in silence",
        (Edit("include/tideline/airflow/spark_submit.py", "if not _batches(given):", "if False:"),),
        seen_by="tests/dags/test_spark_submit.py::test_a_plan_that_was_marked_as_success_before_it_ran_fails_the_task_in_words",
    ),
    Mutant(
        "future_record_ends_a_run",
        "a record that is ahead of the clock ends no run",
        (
            Edit(
                "include/tideline/flow/timeline.py",
                "found_ends[place] = end if self._is_ahead(found) else min(found.offset, end)",
                "found_ends[place] = min(found.offset, end)",
            ),
        ),
        seen_by="tests/integration/test_odd_timestamps.py::test_hourly_runs_of_a_day_end_without_lag_and_have_loaded_each_record_once",
    ),
    Mutant(
        "future_record_is_a_boundary",
        "a record that is ahead of the clock does not end a window",
        (
            Edit(
                "include/tideline/flow/timeline.py",
                "            if self._is_ahead(found) and found.offset < ends[place]",
                "            if False",
            ),
        ),
        seen_by="tests/integration/test_odd_timestamps.py::test_a_window_of_a_past_hour_ends_behind_a_record_that_is_ahead",
    ),
    Mutant(
        "regrown_log_undetected",
        "a truncated log that has grown again is detected",
        (
            Edit(
                "include/tideline/flow/candidates.py",
                "    replaced = truncation.replaced(broker, known, topics)\n",
                "    replaced: dict[int, OffsetRange] = {}\n",
            ),
        ),
        seen_by="tests/integration/test_cut_logs.py::test_a_log_that_was_cut_and_has_grown_past_the_head_again_is_noticed",
    ),
    Mutant(
        "retired_topic_undetected",
        "a retired topic that is back is detected",
        (
            Edit(
                "include/tideline/domain/streams.py",
                "            if topic is not None and not is_other(stream, topic):\n                inconsistent",
                "            if False:\n                inconsistent",
            ),
            Edit("include/tideline/flow/adopting.py", "            _resume(ledger, returned)\n", ""),
        ),
        seen_by="tests/integration/test_adopted_topics.py::test_a_retired_topic_that_returns_is_named_and_continues_once_it_is_adopted",
    ),
    Mutant(
        "replays_adopted",
        "a run for new records takes no replays of other runs",
        (
            Edit(
                "include/tideline/flow/planning.py",
                "adopted = [batch.batch_id for batch in opened if batch.for_heads]",
                "adopted = [batch.batch_id for batch in opened]",
            ),
        ),
        seen_by="tests/integration/test_adoption.py::test_the_replay_of_an_operator_delays_no_new_records",
    ),
    Mutant(
        "grace_ignored",
        "a batch that was planned a moment ago is left to its run",
        (
            Edit(
                "include/tideline/ledger/sql/queries/list_unclaimed.sql",
                "state <> 'planned' OR planned_at < clock_timestamp() - make_interval(secs => %(grace_seconds)s)",
                "state <> 'planned' OR %(grace_seconds)s > 0",
            ),
        ),
        seen_by="tests/integration/test_latest_wins.py::test_runs_that_plan_before_the_last_one_has_begun_take_nothing_from_it",
    ),
    Mutant(
        "second_check_decides",
        "a truncation that was seen counts, although a second check no longer shows it",
        (Edit("include/tideline/flow/truncation.py", "(known.log_start, seen)", "(known.log_start, known.end)"),),
        seen_by="tests/faults/simulation/test_once_failed.py",
    ),
)
