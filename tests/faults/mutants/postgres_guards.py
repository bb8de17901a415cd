"""The guards that stand in Postgres, or need its locks to matter: each is taken away once, together with the second line behind it where there is
one.
"""

from faults.mutants.announcing_guards import ANNOUNCING_MUTANTS
from faults.mutants.identity_guards import IDENTITY_MUTANTS
from faults.mutants.mutant import Edit, Mutant
from faults.mutants.release_guards import RELEASE_MUTANTS

_QUERIES = "include/tideline/ledger/sql/queries"
_MIGRATIONS = "include/tideline/ledger/sql/migrations"
_PUBLISHING = "include/tideline/ledger/publishing.py"
_SINK = "spark_jobs/sinks"

POSTGRES_MUTANTS = (
    Mutant(
        "publish_by_any_attempt",
        "publish asks which attempt holds the batch",
        (
            Edit(
                _PUBLISHING, ' and batch["attempt"] == attempt.attempt:\n        return None', ":\n        return None"
            ),
            Edit(f"{_QUERIES}/publish_batch.sql", " AND attempt = %(attempt)s", ""),
        ),
        first_seed=42,
    ),
    Mutant(
        "planners_do_not_wait",
        "planners of a pipeline take turns",
        (Edit(f"{_QUERIES}/lock_pipeline.sql", " FOR NO KEY UPDATE", ""),),
        first_seed=78,
    ),
    Mutant(
        "offset_in_two_batches",
        "no offset is reserved twice (the exclusion constraint, with the turns of planners)",
        (
            Edit(f"{_QUERIES}/lock_pipeline.sql", " FOR NO KEY UPDATE", ""),
            Edit(f"{_MIGRATIONS}/0001_ledger.sql", "        WHERE (reserves)\n", "        WHERE (false)\n"),
        ),
        first_seed=78,
    ),
    Mutant(
        "two_owners_in_output",
        "no offset has two owners in the output (the exclusion constraint, with the room that publish makes)",
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
        "heads only pass what is accounted for (the walk, with its trigger)",
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
        "a batch is advanced when all heads have passed it (the statement, with its trigger)",
        (
            Edit(f"{_QUERIES}/advance_batches.sql", "NOT (kind = 'live' AND EXISTS", "NOT (false AND EXISTS"),
            Edit(f"{_MIGRATIONS}/0004_moves.sql", "IF NEW.state = 'advanced' AND", "IF false AND"),
        ),
        first_seed=12,
    ),
    Mutant(
        "losers_count",
        "only rows of the tasks that won count (the filter, with the sum over the winners)",
        (
            Edit(f"{_SINK}/count_staged.sql", "WHERE tideline_task = ANY (%(tasks)s)\n", ""),
            Edit(f"{_SINK}/insert_staged.sql", "WHERE s.tideline_task = ANY (%(tasks)s);", ";"),
            Edit(f"{_SINK}/discard_rejected.sql", "AND s.tideline_task = ANY (%(tasks)s);", ";"),
            Edit(f"{_SINK}/postgres_output.py", "if n_discarded + n_rows != sum(staged.tasks.values()):", "if False:"),
        ),
        first_seed=3,
    ),
    Mutant(
        "gaps_unseen",
        "offsets that gave no record are missed where gaps are refused",
        (Edit(f"{_MIGRATIONS}/0001_ledger.sql", "CHECK (n_gap = 0 OR gaps_allowed)", "CHECK (true)"),),
        first_seed=3,
    ),
    Mutant(
        "counts_of_all_attempts",
        "what another attempt has read is not counted",
        (
            Edit(
                f"{_QUERIES}/record_counts.sql",
                "FROM tideline.staged_count WHERE attempt_id = %(attempt_id)s GROUP BY",
                "FROM tideline.staged_count GROUP BY",
            ),
        ),
    ),
    Mutant(
        "rejects_of_all_attempts",
        "what another attempt has rejected is not a reject of the batch",
        (Edit(f"{_QUERIES}/move_rejects.sql", "WHERE attempt_id = %(attempt_id)s", "WHERE %(attempt_id)s > 0"),),
    ),
    Mutant(
        "anybody_fails_a_batch",
        "only the attempt that holds a batch gives it back",
        (Edit(f"{_QUERIES}/fail_batch.sql", " AND attempt = %(attempt)s", " AND %(attempt)s IS NOT NULL"),),
        first_seed=36,
    ),
    Mutant(
        "heads_before_the_turn",
        "who plans for a look takes its locks in the order of a plan",
        (
            Edit(
                "include/tideline/flow/planning.py",
                "            reservations.lock_pipeline(ledger, pipeline.name)\n            heads.walk(ledger, pipeline.name)\n",
                "            heads.walk(ledger, pipeline.name)\n",
            ),
        ),
        first_seed=54,
    ),
    Mutant(
        "batch_read_before_its_lock",
        "a batch is locked first and read then",
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
        "failures_leave_no_history",
        "every change of a batch's state stands in the history",
        (
            Edit(
                f"{_MIGRATIONS}/0004_moves.sql",
                "    INSERT INTO tideline.event (action, pipeline, batch_id, attempt, from_state, to_state)\n",
                "    IF NEW.state = 'failed' THEN RETURN NULL; END IF;\n"
                "    INSERT INTO tideline.event (action, pipeline, batch_id, attempt, from_state, to_state)\n",
            ),
        ),
    ),
    Mutant(
        "other_incarnation_replaced",
        "a replay deletes rows of its own topic only, and not of one that had the name before (nor of other batches than had its offsets)",
        (
            Edit(f"{_SINK}/delete_replaced.sql", "t.kafka_topic_id = r.topic_id AND ", ""),
            Edit(f"{_SINK}/delete_replaced.sql", "  AND t.tideline_batch IN (SELECT batch_id FROM ours);", ";"),
        ),
        first_seed=165,
    ),
    Mutant(
        "replay_takes_what_is_free",
        "a replay takes only what is loaded (the plan's trigger, with its rejects)",
        (
            Edit(
                f"{_MIGRATIONS}/0004_moves.sql",
                "IF owner.kind = 'replay' AND NOT coalesce",
                "IF false AND NOT coalesce",
            ),
            Edit("include/tideline/flow/targets.py", "if replace and _why_not(owner) is None]", "if replace]"),
        ),
        first_seed=9,
    ),
)
"""Seen by schedules of real processes."""

TESTED_MUTANTS = (
    *ANNOUNCING_MUTANTS,
    Mutant(
        "rows_of_others_replaced",
        "a replay deletes rows of its own pipeline only",
        (Edit(f"{_SINK}/delete_replaced.sql", "  AND t.tideline_batch IN (SELECT batch_id FROM ours);", ";"),),
        seen_by="tests/faults/memory/test_claims.py",
    ),
    Mutant(
        "table_unclaimed",
        "a plan asks who has its table",
        (
            Edit(
                "include/tideline/flow/planning.py",
                "    output_tables.claim(ledger, pipeline.name, pipeline.sink.table, shared=pipeline.sink.shared)\n",
                "",
            ),
        ),
        seen_by="tests/faults/memory/test_claims.py",
    ),
    Mutant(
        "heads_walk_once",
        "heads walk until nothing moves any more",
        (
            Edit(
                f"{_QUERIES}/pass_coverage.sql",
                "    FROM walk, LATERAL",
                "    FROM walk JOIN tideline.stream USING (stream_id, next_offset), LATERAL",
            ),
        ),
        seen_by="tests/integration/test_heads.py",
    ),
    Mutant(
        "counts_of_a_task",
        "what is counted for a range does not depend on which others its task has read",
        (
            Edit(
                "spark_jobs/recording.py",
                'count = self._counts.setdefault(stream_id, {**counted, "n_read": 0',
                'count = self._counts.setdefault(min(self._counts, default=stream_id), {**counted, "n_read": 0',
            ),
        ),
        seen_by="tests/integration/test_recording.py",
    ),
    Mutant(
        "sifted_rows_unproven",
        "rows that break a law are refused in the table's own words, and are not said to be staged",
        (
            Edit(
                "spark_jobs/copying.py",
                "return _Taken(len(rows) - len(refused), refused)",
                "return _Taken(len(rows), refused)",
            ),
        ),
        seen_by="tests/integration/test_copying.py",
    ),
    Mutant(
        "tasks_wait_for_ever",
        "the connections of tasks end waits as the ledger's do",
        (
            Edit(
                "spark_jobs/copying.py",
                "adbc.connect(conninfo(ledger_url), autocommit=True)",
                "adbc.connect(ledger_url, autocommit=True)",
            ),
        ),
        seen_by="tests/integration/test_copying.py",
    ),
    Mutant(
        "walks_do_not_wait",
        "a walk locks all heads in the order of their ids, before it moves one",
        (Edit(f"{_QUERIES}/pass_coverage.sql", " FOR NO KEY UPDATE", ""),),
        seen_by="tests/integration/test_heads.py",
    ),
    Mutant(
        "lost_staging_unseen",
        "staged rows that a crash of the server has emptied are missed (the sum over the tasks, with the counts)",
        (
            Edit(f"{_SINK}/postgres_output.py", "if n_discarded + n_rows != sum(staged.tasks.values()):", "if False:"),
            Edit(
                f"{_MIGRATIONS}/0001_ledger.sql", "CHECK (n_read = n_written + n_rejected + n_filtered)", "CHECK (true)"
            ),
        ),
        seen_by="tests/integration/test_ledger_laws.py",
    ),
    Mutant(
        "living_staging_dropped",
        "upkeep leaves alone what a living attempt has put aside",
        (
            Edit(
                f"{_QUERIES}/list_dead_staging.sql",
                " AND NOT (batch.state = 'writing' AND batch.fence = m.part[2]::int)",
                "",
            ),
            Edit(
                f"{_QUERIES}/clear_dead_staging.sql",
                " AND NOT (batch.state = 'writing' AND batch.attempt = attempt.attempt)",
                "",
            ),
        ),
        seen_by="tests/integration/test_upkeep.py",
    ),
    Mutant(
        "owners_do_not_wait",
        "replays of the same offsets take turns on the batches that own them",
        (Edit(f"{_QUERIES}/lock_owners.sql", "ORDER BY batch_id FOR NO KEY UPDATE;", "ORDER BY batch_id;"),),
        seen_by="tests/integration/test_replay_races.py",
    ),
    Mutant(
        "refused_rows_fail_the_batch",
        "records of which the table refuses a row are found and rejected, and the others are published",
        (
            Edit(
                "spark_jobs/publishing.py",
                "        except RowsRefusedError as error:\n",
                "        except RowsRefusedError as error:\n            raise\n",
            ),
        ),
        seen_by="tests/faults/memory/test_refused_rows.py",
    ),
    Mutant(
        "first_bad_batch_ends_the_run",
        "a batch that fails for a reason of its own does not keep the others from being written",
        (
            Edit(
                "spark_jobs/each_batch.py",
                "        except TidelineError as error:\n",
                "        except TidelineError as error:\n            raise\n",
            ),
        ),
        seen_by="tests/unit/test_each_batch.py",
    ),
    Mutant(
        "owners_looked_at_once",
        "a replay looks again at who owns its offsets once it has their locks",
        (
            Edit(
                _PUBLISHING,
                '    while locked != (owners := [row["batch_id"] for row in ledger.rows("lock_owners", batch_id=attempt.batch_id)]):\n'
                "        locked = owners\n",
                '    owners = [row["batch_id"] for row in ledger.rows("lock_owners", batch_id=attempt.batch_id)]\n',
            ),
        ),
        seen_by="tests/integration/test_replay_races.py",
    ),
    *IDENTITY_MUTANTS,
    *RELEASE_MUTANTS,
)
"""Seen too seldom by schedules: each by a test of its own that leads up to the moment in which it matters."""
