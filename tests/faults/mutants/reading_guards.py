"""Mutants for the guards of reading many short ranges with one consumer."""

from faults.mutants.mutant import Edit, Mutant

_READER = "spark_jobs/readers/short_ranges.py"
_TESTS = "tests/integration/test_short_ranges.py"

READING_MUTANTS = (
    Mutant(
        "read_behind_the_end",
        "records behind the end of a range that a fetch returns are not part of the batch",
        (
            Edit(
                _READER,
                'functions.col("offset") < functions.get(by_topic[functions.col("topic")], functions.col("partition"))',
                'functions.get(by_topic[functions.col("topic")], functions.col("partition")).isNotNull()',
            ),
        ),
        seen_by=f"{_TESTS}::test_records_before_and_behind_a_range_are_not_in_it",
    ),
    Mutant(
        "half_read_range_kept",
        "no record is kept of a range that is left to Spark's reader",
        (Edit(_READER, ".where(_within(finished))", ".where(_within(by_place.values()))"),),
        seen_by=f"{_TESTS}::test_what_does_not_fit_into_the_drivers_memory_is_left_whole",
    ),
)
