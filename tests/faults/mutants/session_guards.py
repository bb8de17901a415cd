"""Mutants for the settings of sessions, on which the laws depend. A test of its own detects each."""

from faults.mutants.mutant import Edit, Mutant

_MIGRATION = "include/tideline/ledger/sql/migrations/0021_isolation.sql"
_SETTINGS = "include/tideline/ledger/session_settings.py"
_CONNECTION = "include/tideline/ledger/connection.py"
_OPENING = "include/tideline/ledger/opening.py"
_ERRORS = "tests/integration/test_database_errors.py"
_TESTS = "tests/integration/test_session_settings.py"

SESSION_MUTANTS = (
    Mutant(
        "level_of_the_database",
        "sessions set the isolation level, and triggers refuse another one",
        (
            Edit(_SETTINGS, '    "default_transaction_isolation": "read committed",\n', ""),
            Edit(_CONNECTION, '            connection.set_session(isolation_level="READ COMMITTED")\n', ""),
            Edit(_MIGRATION, "IF current_setting(", "IF false AND current_setting("),
        ),
        seen_by=f"{_TESTS}::test_what_a_tombstone_has_deleted_stays_deleted_at_any_level_of_the_database",
    ),
    Mutant(
        "any_level_at_a_prompt",
        "triggers refuse writes at another isolation level",
        (Edit(_MIGRATION, "IF current_setting(", "IF false AND current_setting("),),
        seen_by=_TESTS,
    ),
    Mutant(
        "settings_left_to_the_pooler",
        "settings that a pooler has dropped are set by a statement",
        (
            Edit(
                _OPENING,
                "    session.execute(opening(mark))\n",
                '    session.execute(opening(mark).replace("set_config(key, value, false)", "key"))\n',
            ),
        ),
        seen_by=f"{_TESTS}::test_the_values_of_our_sessions_win",
    ),
    Mutant(
        "transactions_pooled",
        "a transaction that a pooler has given to another session of the server is refused",
        (Edit(_CONNECTION, "if self.behind_pooler and not", "if False and not"),),
        seen_by=f"{_TESTS}::test_a_pooler_of_transactions_is_refused_before_a_statement_reaches_another_session",
    ),
    Mutant(
        "session_without_laws",
        "a session in which no trigger fires is refused",
        (Edit(_OPENING, 'if found["replication_role"] == "replica":', "if False:"),),
        seen_by=f"{_TESTS}::test_a_session_without_laws_is_refused",
    ),
    Mutant(
        "any_encoding",
        "a ledger needs a database that can keep every text",
        (Edit("include/tideline/ledger/migrate.py", "    if found != ENCODING:\n", "    if False:\n"),),
        seen_by="tests/integration/test_migrations.py::test_a_database_that_cannot_keep_every_text_is_refused_and_named",
    ),
    Mutant(
        "names_of_types_quoted",
        "sessions set what their statements depend on",
        (Edit(_SETTINGS, '    "quote_all_identifiers": "off",  # the names of types are compared\n', ""),),
        seen_by="tests/integration/test_odd_databases.py::test_sessions_have_the_settings_that_statements_depend_on",
    ),
    Mutant(
        "errors_of_the_database_left_as_they_are",
        "no error of psycopg2 leaves a session",
        (
            Edit(_CONNECTION, "            if self._is_inside:\n                raise\n", "            raise\n"),
            Edit(
                _CONNECTION,
                "        except psycopg2.Error as error:  # a law",
                "        except ZeroDivisionError as error:  # a law",
            ),
        ),
        seen_by=_ERRORS,
    ),
    Mutant(
        "unknown_errors_end_the_job",
        "an error of no class of Tideline fails its batch only",
        (
            Edit(
                "spark_jobs/batch_loop.py",
                "        except Exception as error:  # noqa: BLE001 - whatever it is, the other batches are not at fault\n",
                "        except TidelineError as error:\n",
            ),
        ),
        seen_by="tests/unit/test_batch_loop.py",
    ),
    Mutant(
        "heart_dies_of_an_error",
        "heartbeats go on after any error",
        (
            Edit(
                "spark_jobs/heartbeat.py",
                "        except Exception as error:  # noqa: BLE001 - the next heartbeat may succeed\n",
                "        except TidelineError as error:\n",
            ),
        ),
        seen_by=f"{_ERRORS}::test_the_heart_survives_every_error_and_beats_again_when_the_ledger_is_well",
    ),
    Mutant(
        "idle_session_of_a_driver",
        "a session that was ended while it was idle is opened again",
        (Edit(_CONNECTION, "> AWAKE_SECONDS and not self._answers()", "> AWAKE_SECONDS and False"),),
        seen_by=f"{_ERRORS}::test_a_driver_whose_session_was_ended_while_spark_staged_publishes_its_attempt",
    ),
    Mutant(
        "idle_session_of_a_task",
        "a session of a task that was ended while it was idle is opened again",
        (Edit("spark_jobs/records/task_sessions.py", "if not is_idle or self._answers():", "if True:"),),
        seen_by=f"{_ERRORS}::test_a_task_whose_session_was_ended_while_it_transformed_goes_on",
    ),
)
