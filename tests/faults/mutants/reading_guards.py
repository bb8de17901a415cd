"""Mutants for the guards of reading many short ranges with one consumer, and of reading with the Python client."""

from faults.mutants.mutant import Edit, Mutant

_READER = "spark_jobs/readers/short_ranges.py"
_TESTS = "tests/integration/test_short_ranges.py"
_CLIENT = "spark_jobs/readers/python_client.py"
_TESTS_OF_CLIENT = "tests/integration/test_python_client_reader.py"

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
    Mutant(
        "misdated_record_stops_its_batch",
        "a batch with a timestamp that Spark refuses is read with the Python client",
        (Edit("spark_jobs/spark_errors.py", "        if _MISDATED in text:", "        if not text:"),),
        seen_by="tests/faults/bad_input/test_bad_input.py::test_a_timestamp_that_spark_cannot_hold_is_null_and_costs_no_other_record",
    ),
    Mutant(
        "client_reads_behind_the_end",
        "the Python client's records behind the end of a range are not part of the batch",
        (Edit(_CLIENT, "if offset >= piece.end:", "if offset > piece.end:"),),
        seen_by=f"{_TESTS_OF_CLIENT}::test_a_task_reads_its_parts_and_no_further",
    ),
    Mutant(
        "parts_of_a_range_share_a_task",
        "each part of a split range has a task of its own",
        (Edit(_CLIENT, "            yield from ((one,) for one in slices)", "            yield tuple(slices)"),),
        seen_by=f"{_TESTS_OF_CLIENT}::test_each_part_of_a_split_range_has_a_task_of_its_own",
    ),
)
