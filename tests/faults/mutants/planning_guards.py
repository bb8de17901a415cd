"""Mutants for the turns that planners of a pipeline take, and for what plans see of the brokers' logs."""

from faults.mutants.mutant import Edit, Mutant

_QUERIES = "include/tideline/ledger/sql/queries"
_MIGRATIONS = "include/tideline/ledger/sql/migrations"
_CANDIDATES = "include/tideline/flow/candidates.py"
_TESTS = "tests/integration/test_planning_races.py"
_ADDED = "tests/integration/test_added_partitions.py"
_MANY = "tests/integration/test_plans_of_many_partitions.py"
_HANGING = "tests/integration/test_hanging_transactions.py"

PLANNING_MUTANTS = (
    Mutant(
        "planners_do_not_wait",
        "planners of a pipeline take turns",
        (Edit(f"{_QUERIES}/lock_pipeline.sql", " FOR NO KEY UPDATE", ""),),
        seen_by=_TESTS,
    ),
    Mutant(
        "offset_in_two_batches",
        "no offset is reserved twice (the exclusion constraint, and the turns of planners)",
        (
            Edit(f"{_QUERIES}/lock_pipeline.sql", " FOR NO KEY UPDATE", ""),
            Edit(f"{_MIGRATIONS}/0001_ledger.sql", "        WHERE (reserves)\n", "        WHERE (false)\n"),
        ),
        seen_by=_TESTS,
    ),
    Mutant(
        "added_partitions_loaded",
        "partitions that a topic gains wait for a person, where a pipeline compares the offsets of a key's records",
        (
            Edit(
                _CANDIDATES,
                "growing.hold(ledger, pipeline, known, compare(known, topics, missing, replaced))",
                "compare(known, topics, missing, replaced)",
            ),
        ),
        seen_by=f"{_ADDED}::test_nothing_of_an_added_partition_is_loaded_before_a_person_has_decided",
    ),
    Mutant(
        "divided_anew_and_loaded",
        "where keys are divided anew, the partitions that were there before wait as well",
        (Edit("include/tideline/flow/growing.py", "if len(topic.partitions) % before[topic.topic_id]", "if False"),),
        seen_by=f"{_ADDED}::test_where_keys_are_divided_anew_the_partitions_before_stop_too",
    ),
    Mutant(
        "high_watermark_not_asked",
        "what lies behind the last stable offset is asked for",
        (
            Edit(
                "include/tideline/kafka/offsets.py",
                "marks = connection.existing(_listing(connection, latest, committed=False))",
                "marks = connection.existing(_listing(connection, latest))",
            ),
        ),
        seen_by=f"{_HANGING}::test_hourly_plans_behind_a_hanging_transaction_say_so_each_time_until_it_ends",
    ),
    Mutant(
        "passing_answer_fails_the_call",
        "what brokers answer for a moment is asked again",
        (
            Edit(
                "include/tideline/kafka/connection.py",
                "PassingError if error.code() in passing.CODES else RetryableError",
                "RetryableError",
            ),
        ),
        seen_by="tests/integration/test_passing_answers.py::test_an_answer_that_passes_is_waited_for",
    ),
    Mutant(
        "partitions_searched_one_by_one",
        "all partitions take a step of a search for a time together",
        (
            Edit(
                "include/tideline/flow/timeline.py",
                "begins |= first_late(partial(self._are_late, when), odd)",
                "for place, part in odd.items():\n            begins |= first_late(partial(self._are_late, when), {place: part})",
            ),
        ),
        seen_by=f"{_MANY}::test_the_looks_of_a_window_do_not_grow_with_the_partitions",
    ),
    Mutant(
        "plan_waits_no_longer_than_others",
        "Postgres lets a plan idle for longer, while it asks brokers",
        (
            Edit(
                f"{_QUERIES}/lock_pipeline.sql",
                "SELECT set_config('idle_in_transaction_session_timeout', %(idle_ms)s::text, true);\n",
                "",
            ),
        ),
        seen_by=f"{_MANY}::test_a_plan_may_wait_for_brokers_longer_than_other_transactions",
    ),
    Mutant(
        "held_records_are_no_lag",
        "what a hanging transaction holds back is lag",
        (Edit("include/tideline/inspection/session.py", "facts.n_unstable if self.holds(row) else 0", "0"),),
        seen_by=f"{_HANGING}::test_what_a_hanging_transaction_holds_back_is_lag_and_uses_up_its_retention",
    ),
)
