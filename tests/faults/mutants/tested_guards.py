"""Mutants for guards that schedules seldom need: they matter only if two events are within one step, or after a rare act of an operator.

A test of its own detects each.
"""

from faults.mutants.announcing_guards import ANNOUNCING_MUTANTS
from faults.mutants.column_guards import COLUMN_MUTANTS
from faults.mutants.delta_guards import DELTA_MUTANTS
from faults.mutants.history_guards import HISTORY_MUTANTS
from faults.mutants.identity_guards import IDENTITY_MUTANTS
from faults.mutants.letter_guards import LETTER_MUTANTS
from faults.mutants.mutant import Edit, Mutant
from faults.mutants.planning_guards import PLANNING_MUTANTS
from faults.mutants.reading_guards import READING_MUTANTS
from faults.mutants.release_guards import RELEASE_MUTANTS
from faults.mutants.role_guards import ROLE_MUTANTS
from faults.mutants.session_guards import SESSION_MUTANTS
from faults.mutants.topic_guards import TOPIC_MUTANTS
from faults.mutants.upsert_guards import UPSERT_MUTANTS
from faults.mutants.wall_guards import WALL_MUTANTS

_QUERIES = "include/tideline/ledger/sql/queries"
_MIGRATIONS = "include/tideline/ledger/sql/migrations"
_PUBLISHING = "include/tideline/ledger/publishing.py"
_SINK = "spark_jobs/sinks/postgres"

TESTED_MUTANTS = (
    *ANNOUNCING_MUTANTS,
    *DELTA_MUTANTS,
    *LETTER_MUTANTS,
    *PLANNING_MUTANTS,
    *READING_MUTANTS,
    *TOPIC_MUTANTS,
    *UPSERT_MUTANTS,
    *WALL_MUTANTS,
    Mutant(
        "publish_by_any_attempt",
        "publish checks which attempt holds the batch",
        (
            Edit(
                _PUBLISHING, ' and batch["attempt"] == attempt.attempt:\n        return None', ":\n        return None"
            ),
            Edit(f"{_QUERIES}/publish_batch.sql", " AND attempt = %(attempt)s", ""),
        ),
        seen_by="tests/integration/test_attempts.py::test_a_stale_attempt_cannot_publish_before_the_new_one",
    ),
    Mutant(
        "rows_of_others_replaced",
        "a replay deletes only rows of its own pipeline",
        (Edit(f"{_SINK}/delete_replaced.sql", "  AND t.tideline_batch IN (SELECT batch_id FROM ours);", ";"),),
        seen_by="tests/faults/memory/test_claims.py",
    ),
    Mutant(
        "table_not_claimed",
        "a plan claims its table",
        (
            Edit(
                "include/tideline/flow/planning.py",
                "        output_tables.claim(ledger, pipeline.name, pipeline.sink.table, shared=pipeline.sink.shared)\n",
                "        pass\n",
            ),
        ),
        seen_by="tests/faults/memory/test_claims.py",
    ),
    Mutant(
        "heads_moved_once",
        "heads are moved until none moves any more",
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
        "the count of a range does not depend on the other ranges of its task",
        (
            Edit(
                "spark_jobs/records/staged_counts.py",
                'count = self._counts.setdefault(stream_id, {**counted, "n_read": 0',
                'count = self._counts.setdefault(min(self._counts, default=stream_id), {**counted, "n_read": 0',
            ),
        ),
        seen_by="tests/integration/test_staged_counts.py",
    ),
    Mutant(
        "unproven_rows_counted",
        "rows that break a law are refused with the table's own message, and are not counted as staged",
        (
            Edit(
                "spark_jobs/sinks/postgres/copying.py",
                "return _Taken(len(rows) - len(refused), refused)",
                "return _Taken(len(rows), refused)",
            ),
        ),
        seen_by="tests/integration/test_copying.py",
    ),
    Mutant(
        "tasks_wait_for_ever",
        "connections of tasks have the same time-outs as those of the ledger",
        (
            Edit(
                "spark_jobs/sinks/postgres/copying.py",
                "self._session = TaskSession(ledger_url)\n",
                "self._session = TaskSession(ledger_url)\n"
                "        self._session.connection = adbc.connect(ledger_url, autocommit=True)\n",
            ),
        ),
        seen_by="tests/integration/test_copying.py",
    ),
    Mutant(
        "advance_without_the_lock",
        "an advance locks the pipeline before batches and streams",
        (Edit("include/tideline/ledger/heads.py", "if reservations.lock_known(ledger, pipeline)", "if True"),),
        seen_by="tests/integration/test_heads.py",
    ),
    Mutant(
        "dry_run_walks_before_its_lock",
        "a dry run locks the pipeline before batches and streams",
        (
            Edit(
                "include/tideline/flow/drafting.py",
                "            reservations.lock_pipeline(ledger, pipeline.name)\n",
                "",
            ),
        ),
        seen_by="tests/integration/test_dry_run.py",
    ),
    Mutant(
        "lost_staging_undetected",
        "a staging table that a crash of the server has emptied is detected (the sum over the tasks, and the counts)",
        (
            Edit(f"{_SINK}/insertion.py", "if n_discarded + n_rows != sum(staged.tasks.values()):", "if False:"),
            Edit(
                f"{_MIGRATIONS}/0001_ledger.sql", "CHECK (n_read = n_written + n_rejected + n_filtered)", "CHECK (true)"
            ),
        ),
        seen_by="tests/integration/test_ledger_laws.py",
    ),
    Mutant(
        "living_staging_dropped",
        "upkeep keeps the staging tables of living attempts",
        (
            Edit(
                f"{_QUERIES}/list_dead_staging.sql",
                " AND NOT (batch.state = 'writing' AND batch.attempt = attempt.attempt)",
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
        "records with a row that the table refuses become rejects, and the others are published",
        (
            Edit(
                "spark_jobs/sinks/postgres/publishing.py",
                "        except RowsRefusedError as error:\n",
                "        except RowsRefusedError as error:\n            raise\n",
            ),
        ),
        seen_by="tests/faults/memory/test_refused_rows.py",
    ),
    Mutant(
        "first_bad_batch_ends_the_run",
        "a batch that fails for a reason of its own does not prevent the others from being written",
        (
            Edit(
                "spark_jobs/batch_loop.py",
                "        except Exception as error:  # noqa: BLE001 - whatever it is, the other batches are not at fault\n",
                "        except Exception as error:\n            raise\n",
            ),
        ),
        seen_by="tests/unit/test_batch_loop.py",
    ),
    Mutant(
        "owners_listed_once",
        "a replay lists the owners of its offsets again when it has their locks",
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
    *HISTORY_MUTANTS,
    *ROLE_MUTANTS,
    *COLUMN_MUTANTS,
    *SESSION_MUTANTS,
)
"""Schedules detect these too seldom. A test of its own leads up to the moment in which each matters."""
