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
    Mutant(
        "nested_text_unchecked",
        "a value that is held whole and that Postgres cannot hold is a reject",
        (Edit("spark_jobs/records/whole_json.py", "and _NUL.search(value):", "and False:"),),
        seen_by="tests/unit/test_whole_json.py::test_what_postgres_cannot_hold_is_a_reject_and_its_neighbours_are_not",
    ),
    Mutant(
        "majority_of_types",
        "a field whose values have several types is held whole",
        (
            Edit(
                "include/tideline/authoring/inference.py",
                "    if len(kinds) > 1:\n",
                "    kinds = dict(kinds.most_common(1))\n    if len(kinds) > 1:\n",
            ),
        ),
        seen_by="tests/unit/test_inference.py::test_what_values_do_not_decide_is_a_doubt",
    ),
    Mutant(
        "new_pipeline_in_red",
        "a pipeline that has never loaded and has no topic yet needs no person",
        (Edit("include/tideline/web/needs.py", "            if found.has_begun\n", "            if True\n"),),
        seen_by="tests/unit/test_page_needs.py::test_a_pipeline_that_has_never_loaded_waits_for_its_topic_and_needs_no_person",
    ),
    Mutant(
        "undeclared_called_away",
        "a pipeline without a folder is not said to have brokers that do not answer",
        (
            Edit(
                "include/tideline/web/templates/coverage.html",
                "{% if found.is_away %}Kafka does not answer.",
                "{% if true %}Kafka does not answer.",
            ),
        ),
        seen_by="tests/unit/test_page_texts.py::test_a_pipeline_whose_folder_is_gone_is_not_said_to_have_brokers_that_do_not_answer",
    ),
    Mutant(
        "retired_pipeline_loads_unseen",
        "a plan brings a retired pipeline back",
        (
            Edit(
                "include/tideline/flow/planning.py",
                "    decisions.set_retired(ledger, pipeline.name, retired=False)  # nothing that loads is out of sight\n",
                "",
            ),
        ),
        seen_by="tests/faults/memory/test_retiring.py::test_both_ledgers_bring_a_pipeline_back_that_plans",
    ),
    Mutant(
        "retired_with_open_batches",
        "a pipeline whose batches could still be written retires neither by the command line nor by SQL",
        (
            Edit(
                f"{_MIGRATIONS}/0027_retired_pipelines.sql",
                "WHERE pipeline = NEW.pipeline AND state IN ('planned', 'writing', 'failed')",
                "WHERE false",
            ),
        ),
        seen_by="tests/integration/test_retired_pipelines.py::test_a_pipeline_whose_batches_could_still_be_written_does_not_retire",
    ),
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
        "output_not_claimed",
        "a plan claims its outputs",
        (
            Edit(
                "include/tideline/flow/planning.py",
                "    claimed_outputs.claim(ledger, pipeline.name, call.outputs)\n",
                "",
            ),
        ),
        seen_by="tests/faults/memory/test_claims.py",
    ),
    Mutant(
        "output_moves_with_its_declaration",
        "the output of a pipeline that has been loaded moves by a decision only",
        (
            Edit(f"{_QUERIES}/claim_output.sql", " AND NOT EXISTS (SELECT FROM moves)", ""),
            Edit(
                "include/tideline/ledger/claimed_outputs.py",
                '            raise _moves(pipeline, output, described(row["kind"], row["place"]))\n',
                "            pass\n",
            ),
        ),
        seen_by="tests/integration/test_claimed_outputs.py::test_two_deployments_that_declare_one_pipeline_with_different_tables_do_not_load_them_in_turns",
    ),
    Mutant(
        "topic_not_claimed",
        "a topic is claimed by the id of its cluster and its name",
        (Edit("include/tideline/flow/claiming.py", '/{sink.topic}"', '/{sink.topic}.{pipeline.name}"'),),
        seen_by="tests/integration/test_claimed_outputs.py::test_a_plan_refuses_a_lake_or_a_topic_that_another_pipeline_writes",
    ),
    Mutant(
        "lake_claimed_as_declared",
        "a Delta table is claimed by its real path",
        (Edit("include/tideline/outside/places.py", "else os.path.realpath(uri)", "else uri"),),
        seen_by="tests/integration/test_claimed_outputs.py::test_an_output_is_claimed_by_its_real_place",
    ),
    Mutant(
        "rejects_stay_claimed",
        "a topic of rejects that is not declared any more is free for others",
        (
            Edit(
                "include/tideline/flow/planning.py",
                "    claimed_outputs.release(ledger, pipeline.name, call.outputs)\n",
                "",
            ),
        ),
        seen_by="tests/integration/test_claimed_outputs.py::test_a_topic_of_rejects_that_is_not_declared_any_more_is_free_for_others",
    ),
    Mutant(
        "write_does_not_claim",
        "a write claims its outputs once more",
        (
            Edit(
                "spark_jobs/preparation.py",
                "    flow.claim_outputs(ledger, pipeline, flow.outputs(pipeline, broker))\n",
                "",
            ),
        ),
        seen_by="tests/integration/test_shared_tables.py::test_a_write_asks_once_more_who_has_the_table",
    ),
    Mutant(
        "view_not_refused",
        "a view, a foreign table and the like are refused before the read",
        (
            Edit(
                f"{_SINK}/fitting.py",
                '    if table.kind is not None and table.kind not in {"r", "p"}:\n',
                "    if False:\n",
            ),
        ),
        seen_by="tests/integration/test_table_fits.py::test_what_does_not_keep_rows_as_they_are_inserted_is_refused_before_the_read_and_named",
    ),
    Mutant(
        "rules_not_refused",
        "a table with rules that rewrite what the sink sends is refused before the read",
        (Edit(f"{_SINK}/fitting.py", " if event in rewritten\n", " if not event\n"),),
        seen_by="tests/integration/test_table_fits.py::test_what_does_not_keep_rows_as_they_are_inserted_is_refused_before_the_read_and_named",
    ),
    Mutant(
        "unlogged_partition_not_refused",
        "a table with an UNLOGGED partition is refused before the read",
        (
            Edit(
                f"{_SINK}/describe_laws.sql",
                "AND (u.oid = c.oid OR u.oid IN (SELECT t.relid FROM pg_partition_tree(c.oid) t WHERE t.isleaf))",
                "AND u.oid = c.oid",
            ),
        ),
        seen_by="tests/integration/test_table_fits.py::test_what_does_not_keep_rows_as_they_are_inserted_is_refused_before_the_read_and_named",
    ),
    Mutant(
        "published_by_another_release",
        "a publication compares the migrations of the ledger with those that its process has begun with",
        (
            Edit(
                _PUBLISHING,
                '    versions.require_same(ledger.rows("lock_release")[0]["n_applied"], str(attempt))\n',
                "",
            ),
        ),
        seen_by="tests/integration/test_migrations.py::test_a_driver_of_the_release_before_publishes_nothing_on_a_migrated_ledger",
    ),
    Mutant(
        "published_beside_a_migration",
        "a publication and a migration exclude each other",
        (
            Edit(
                f"{_QUERIES}/lock_release.sql",
                "SELECT pg_advisory_xact_lock_shared(hashtext('tideline.migration'));\n",
                "",
            ),
        ),
        seen_by="tests/integration/test_migrations.py::test_a_publication_and_a_migration_wait_for_each_other",
    ),
    Mutant(
        "row_of_a_law_is_shown",
        "no row of the ledger is part of a message",
        (
            Edit(
                "include/tideline/ledger/database_errors.py",
                "    return primary if detail is None or _FAILING_ROW in detail else",
                "    return primary if detail is None else",
            ),
        ),
        seen_by="tests/integration/test_named_laws.py",
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
    Mutant(
        "coverage_scanned_in_a_join",
        "no query scans the index of a law in a join, where Postgres can lose its entries",
        (
            Edit(
                "include/tideline/ledger/sql/migrations/0028_lost_entries.sql",
                "RETURNS SETOF tideline.coverage\n    LANGUAGE sql STABLE ROWS 1 SET search_path = pg_catalog, pg_temp AS",
                "RETURNS SETOF tideline.coverage\n    LANGUAGE sql STABLE AS",
            ),
        ),
        seen_by="tests/integration/test_lost_entries.py::test_offsets_that_get_another_owner_leave_every_entry_in_the_index",
    ),
    Mutant(
        "view_with_the_rights_of_its_owner",
        "a view shows only what the user who asks may read in the tables",
        (
            Edit(
                "include/tideline/ledger/sql/migrations/0029_views.sql",
                "CREATE VIEW tideline.holes WITH (security_invoker) AS",
                "CREATE VIEW tideline.holes AS",
            ),
        ),
        seen_by="tests/integration/test_views.py::test_a_view_shows_nobody_what_the_tables_do_not",
    ),
    *IDENTITY_MUTANTS,
    *RELEASE_MUTANTS,
    *HISTORY_MUTANTS,
    *ROLE_MUTANTS,
    *COLUMN_MUTANTS,
    *SESSION_MUTANTS,
)
"""Schedules detect these too seldom. A test of its own leads up to the moment in which each matters."""
