"""Mutants for the guards that are in Postgres, or that matter only with its locks.

Each removes one guard, together with the second line of defence behind it where there is one.
"""

from faults.mutants.mutant import Edit, Mutant

_QUERIES = "include/tideline/ledger/sql/queries"
_MIGRATIONS = "include/tideline/ledger/sql/migrations"
_PUBLISHING = "include/tideline/ledger/publishing.py"
_SINK = "spark_jobs/sinks/postgres"

POSTGRES_MUTANTS = (
    Mutant(
        "two_owners_in_output",
        "no offset has two owners in the output (the exclusion constraint, and the statement that takes coverage from earlier owners)",
        (
            Edit(_PUBLISHING, '    ledger.run("uncover_ranges", batch_id=attempt.batch_id)\n', ""),
            Edit(
                f"{_MIGRATIONS}/0001_ledger.sql",
                "WITH &&, (offsets::int8range) WITH &&)\n);\n\nCREATE TABLE tideline.reject",
                "WITH &&, (offsets::int8range) WITH &&) WHERE (false)\n);\n\nCREATE TABLE tideline.reject",
            ),
        ),
    ),
    Mutant(
        "heads_pass_unpublished",
        "heads only pass offsets that are accounted for (the statement, and its trigger)",
        (
            Edit(
                f"{_QUERIES}/pass_coverage.sql",
                "int8range(walk.next_offset, walk.next_offset, '[]')",
                "int8range(walk.next_offset, NULL)",
            ),
            Edit(
                f"{_MIGRATIONS}/0008_hostile_brokers.sql", "IF NEW.next_offset > OLD.next_offset THEN", "IF false THEN"
            ),
        ),
        first_seed=3,
    ),
    Mutant(
        "advanced_before_heads",
        "a batch is advanced when all heads have passed it (the statement, and its trigger)",
        (
            Edit(f"{_QUERIES}/advance_batches.sql", "NOT (kind = 'live' AND EXISTS", "NOT (false AND EXISTS"),
            Edit(f"{_MIGRATIONS}/0025_identity.sql", "IF NEW.state = 'advanced' AND", "IF false AND"),
        ),
        first_seed=12,
    ),
    Mutant(
        "losing_tasks_count",
        "only rows of the winning tasks count (the filter, and the sum over the winners)",
        (
            Edit(f"{_SINK}/count_staged.sql", "WHERE tideline_task = ANY (%(tasks)s)\n", ""),
            Edit(f"{_SINK}/insert_staged.sql", "WHERE s.tideline_task = ANY (%(tasks)s);", ";"),
            Edit("spark_jobs/sinks/discard_rejected.sql", "AND s.tideline_task = ANY (%(tasks)s);", ";"),
            Edit(f"{_SINK}/insertion.py", "if n_discarded + n_rows != sum(staged.tasks.values()):", "if False:"),
        ),
    ),
    Mutant(
        "gaps_undetected",
        "offsets without a record are detected where gaps are not allowed",
        (Edit(f"{_MIGRATIONS}/0001_ledger.sql", "CHECK (n_gap = 0 OR gaps_allowed)", "CHECK (true)"),),
        first_seed=3,
    ),
    Mutant(
        "counts_of_all_attempts",
        "records that another attempt has read are not counted",
        (
            Edit(
                f"{_QUERIES}/record_counts.sql",
                "FROM tideline.staged_count WHERE attempt_id = %(attempt_id)s GROUP BY",
                "FROM tideline.staged_count GROUP BY",
            ),
        ),
        first_seed=3,
    ),
    Mutant(
        "rejects_of_all_attempts",
        "rejects of another attempt are not rejects of the batch",
        (Edit(f"{_QUERIES}/move_rejects.sql", "WHERE attempt_id = %(attempt_id)s", "WHERE %(attempt_id)s > 0"),),
        first_seed=3,
    ),
    Mutant(
        "stale_attempt_fails_a_batch",
        "only the attempt that holds a batch sets it to `failed`",
        (Edit(f"{_QUERIES}/fail_batch.sql", " AND attempt = %(attempt)s", " AND %(attempt)s IS NOT NULL"),),
        first_seed=36,
    ),
    Mutant(
        "batch_read_before_its_lock",
        "a batch is locked before it is read",
        (
            Edit(
                f"{_QUERIES}/lock_batch.sql",
                "SELECT FROM tideline.batch WHERE batch_id = %(batch_id)s FOR NO KEY UPDATE;\n",
                "",
            ),
            Edit(
                f"{_QUERIES}/lock_batch.sql",
                "WHERE batch.batch_id = %(batch_id)s;",
                "WHERE batch.batch_id = %(batch_id)s FOR NO KEY UPDATE OF batch;",
            ),
        ),
        first_seed=54,
    ),
    Mutant(
        "failure_without_an_event",
        "every change of a batch's state writes an event",
        (
            Edit(
                f"{_MIGRATIONS}/0013_outside_sinks.sql",
                "    INSERT INTO tideline.event (action, pipeline, batch_id, attempt, from_state, to_state)\n",
                "    IF NEW.state = 'failed' THEN RETURN NULL; END IF;\n"
                "    INSERT INTO tideline.event (action, pipeline, batch_id, attempt, from_state, to_state)\n",
            ),
        ),
    ),
    Mutant(
        "other_incarnation_replaced",
        "a replay deletes only rows of its own topic incarnation (and only of batches that owned its offsets)",
        (
            Edit(f"{_SINK}/delete_replaced.sql", "t.kafka_topic_id = r.topic_id AND ", ""),
            Edit(f"{_SINK}/delete_replaced.sql", "  AND t.tideline_batch IN (SELECT batch_id FROM ours);", ";"),
        ),
        first_seed=825,
    ),
    Mutant(
        "replay_takes_unloaded",
        "a replay takes only loaded offsets (the trigger of the plan, and that of rejects)",
        (
            Edit(
                f"{_MIGRATIONS}/0016_state.sql",
                "IF owner.kind = 'replay' AND NOT coalesce",
                "IF false AND NOT coalesce",
            ),
            Edit("include/tideline/flow/targets.py", "if replace and _why_not(owner) is None]", "if replace]"),
        ),
        first_seed=90,
    ),
)
"""Detected by schedules of real processes."""
