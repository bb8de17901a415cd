"""Mutants of the protocol of outside sinks."""

from faults.mutants.mutant import Edit, Mutant

_SETTLING = "include/tideline/flow/settling.py"
_INTENTS = "include/tideline/ledger/intents.py"
_QUERIES = "include/tideline/ledger/sql/queries"
_OUTSIDE = 3_000_000_000
"""Schedules with an outside sink have seeds from here on: `faults.drawn_schedules.OUTSIDE`, which imports the product."""

OUTSIDE_MUTANTS = (
    Mutant(
        "no_fence",
        "a claim fences the attempts before it, and settles what one of them has committed",
        (Edit(_SETTLING, "    receipt = sink.fence(attempt.batch, attempt.fence)\n", "    receipt = None\n"),),
        first_seed=_OUTSIDE,
    ),
    Mutant(
        "look_without_a_marker",
        "a claim leaves a marker that keeps commits in flight from landing",
        (Edit(_SETTLING, "sink.fence(attempt.batch, attempt.fence)", "sink.look(attempt.batch)"),),
        first_seed=_OUTSIDE,
    ),
    Mutant(
        "abandoned_after_a_look",
        "what may be committed outside is fenced before it is abandoned",
        (
            Edit(
                _SETTLING,
                "        receipt = sink.fence(found.batch, below)\n    except ForgottenError:",
                "        receipt = sink.look(found.batch)\n    except ForgottenError:",
            ),
        ),
        first_seed=_OUTSIDE,
    ),
    Mutant(
        "abandoned_without_a_seal",
        "what may be committed outside is sealed before it is abandoned",
        (
            Edit(
                "include/tideline/ledger/abandoning.py",
                "    if intents.unsealed(ledger, batch_id):",
                "    if False:",
            ),
        ),
        first_seed=_OUTSIDE,
    ),
    Mutant(
        "settled_with_own_counts",
        "a batch is settled with the counts and rejects of the attempt that has committed it",
        (Edit(_INTENTS, "        replace(attempt, attempt_id=intent.attempt_id),\n", "        replace(attempt),\n"),),
        first_seed=_OUTSIDE,
    ),
    Mutant(
        "settled_after_the_source_check",
        "what is committed is settled before the source is checked",
        (
            Edit(
                "spark_jobs/write_batches.py",
                "        settled = flow.recover(ledger, pipeline, attempt)\n",
                "        flow.check_source(ledger, Broker(pipeline.source), attempt)\n        settled = flow.recover(ledger, pipeline, attempt)\n",
            ),
        ),
        first_seed=_OUTSIDE,
    ),
    Mutant(
        "no_trial",
        "an attempt carries out its whole publication before it commits outside",
        (
            Edit(
                _INTENTS,
                "                    with ledger.trial():\n                        _publish(ledger, attempt, intent)\n",
                "",
            ),
        ),
        first_seed=_OUTSIDE,
    ),
    Mutant(
        "unknown_taken_for_committed",
        "a commit without an answer counts only if its receipt is found",
        (
            Edit(
                "spark_jobs/sinks/outside.py",
                "        if found is None or found.attempt != attempt.attempt:\n            raise ",
                "        if found is None or found.attempt != attempt.attempt:\n"
                "            found = Receipt(fence=attempt.fence, attempt=attempt.attempt) ",
            ),
        ),
        first_seed=_OUTSIDE,
    ),
    Mutant(
        "committed_without_an_intent",
        "an intent is stored only by the attempt that holds the batch",
        (
            Edit(
                _INTENTS,
                "                found = publishing.holder(ledger, attempt)\n                if found is None:\n"
                '                    ledger.rows("lock_attempt"',
                '                found = None\n                if found is None:\n                    ledger.rows("lock_attempt"',
            ),
        ),
        first_seed=_OUTSIDE,
    ),
    Mutant(
        "held_offsets_replayed",
        "a plan leaves offsets alone that an open replay or re-drive of an outside sink holds",
        (
            Edit(
                "include/tideline/flow/targets.py",
                "decisions.held_alone(ledger, [(stream_id, offsets) for offsets in replaced], outside=outside):",
                "():",
            ),
        ),
        first_seed=_OUTSIDE,
    ),
)
"""Detected by the simulation."""

OUTSIDE_TESTED_MUTANTS = (
    Mutant(
        "alone_missing",
        "only one replay or re-drive of an outside sink may be open for an offset",
        (
            Edit(f"{_QUERIES}/reserve_ranges.sql", "batch.outside AND batch.kind IN ('replay', 'redrive')", "false"),
            Edit(
                "include/tideline/ledger/sql/migrations/0028_lost_entries.sql",
                "owner.outside AND owner.kind IN ('replay', 'redrive')",
                "false AND owner.kind IN ('replay')",
            ),
        ),
        seen_by="tests/integration/sinks/test_outside_laws.py::test_only_one_replay_or_redrive_of_an_offset_is_open",
    ),
    Mutant(
        "intent_after_the_commit",
        "an attempt stores its intent before it commits outside",
        (
            Edit(
                "spark_jobs/sinks/outside.py",
                "    flow.intend(\n        ledger,\n",
                '    late = __import__("functools").partial(\n        flow.intend,\n        ledger,\n',
            ),
            Edit(
                "spark_jobs/sinks/outside.py",
                "    return flow.settle(ledger, attempt, receipt)\n",
                "    late()\n    return flow.settle(ledger, attempt, receipt)\n",
            ),
        ),
        seen_by="tests/integration/sinks/test_outside_crashes.py::"
        "test_what_was_committed_before_a_crash_is_settled_by_the_next_claim_with_the_counts_of_the_dead",
    ),
    Mutant(
        "replays_for_two_kinds_of_sink",
        "open replays and re-drives of an offset are planned for one kind of sink",
        (
            Edit(
                "include/tideline/ledger/sql/migrations/0028_lost_entries.sql",
                "AND b.outside <> owner.outside) THEN",
                "AND false) THEN",
            ),
        ),
        seen_by="tests/integration/sinks/test_outside_laws.py::test_open_replays_and_redrives_of_an_offset_are_planned_for_one_kind_of_sink",
    ),
    Mutant(
        "replay_of_the_former_sink_overtaken",
        "a plan of an outside sink leaves offsets alone that a replay for the former table holds",
        (
            Edit(
                "include/tideline/ledger/sql/queries/list_alone.sql",
                "r.alone OR %(outside)s AND",
                "r.alone OR %(outside)s AND false AND",
            ),
        ),
        seen_by="tests/integration/sinks/test_outside_receipts.py::"
        "test_a_replay_planned_for_a_table_is_neither_written_nor_overtaken_when_the_sink_is_outside",
    ),
    Mutant(
        "intended_staging_cleared",
        "upkeep spares what a later attempt may settle",
        (
            Edit(
                "include/tideline/ledger/sql/queries/clear_dead_staging.sql",
                "EXISTS (SELECT FROM tideline.intent i WHERE i.attempt_id = staged.attempt_id OFFSET 0)",
                "false",
            ),
            Edit(
                "include/tideline/ledger/sql/migrations/0013_outside_sinks.sql",
                "WHERE state IN ('planned', 'writing', 'failed') AND attempt_id IN (SELECT attempt_id FROM gone)) THEN",
                "WHERE false) THEN",
            ),
        ),
        seen_by="tests/integration/sinks/test_outside_laws.py::test_upkeep_spares_what_a_later_attempt_may_settle",
    ),
    Mutant(
        "late_task_changes_an_intent",
        "what an attempt has staged never changes after its intent",
        (
            Edit(
                "include/tideline/ledger/sql/migrations/0013_outside_sinks.sql",
                "    IF EXISTS (SELECT FROM tideline.intent WHERE attempt_id IN (SELECT attempt_id FROM came)) THEN",
                "    IF false THEN",
            ),
        ),
        seen_by="tests/integration/sinks/test_outside_laws.py::test_a_task_that_runs_late_changes_nothing_of_an_intent",
    ),
    Mutant(
        "intent_without_the_lock",
        "an intent waits for tasks of its attempt that are storing counts or rejects",
        (Edit(_INTENTS, '                    ledger.rows("lock_attempt", attempt_id=attempt.attempt_id)\n', ""),),
        seen_by="tests/integration/sinks/test_outside_laws.py::test_a_task_that_stores_while_the_intent_is_stored_is_waited_for",
    ),
    Mutant(
        "another_place_fenced",
        "attempts are fenced in the output that they were to commit to, not in one of the same name elsewhere",
        (Edit("include/tideline/flow/claiming.py", "    if claimed is not None and", "    if False and"),),
        seen_by="tests/integration/sinks/test_outside_receipts.py"
        "::test_an_output_of_the_same_name_in_another_place_is_neither_asked_nor_fenced",
    ),
    Mutant(
        "moved_with_a_batch_in_it",
        "an output moves only when no attempt may have committed an open batch to it",
        (
            Edit(
                "include/tideline/ledger/sql/migrations/0026_outputs.sql",
                "    ELSIF tideline.may_have_committed(OLD.pipeline) THEN\n",
                "    ELSIF false THEN\n",
            ),
        ),
        seen_by="tests/integration/sinks/test_outside_receipts.py"
        "::test_an_output_does_not_move_while_a_batch_may_have_been_committed_to_it",
    ),
)
"""Detected by a test of their own."""
