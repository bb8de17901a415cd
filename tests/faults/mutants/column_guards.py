"""Mutants for the guards of values, addresses and time limits. A test of its own detects each."""

from faults.mutants.mutant import Edit, Mutant

_TYPES = "spark_jobs/sinks/postgres/column_types.py"
_FITS = "tests/integration/test_table_fits.py"

COLUMN_MUTANTS = (
    Mutant(
        "blanks_cut",
        "text that is longer than its column is refused, also if the rest is blanks",
        (Edit(_TYPES, "if column.length is not None:", "if False:"),),
        seen_by="tests/unit/test_sink_columns.py",
    ),
    Mutant(
        "zone_assumed",
        "a timestamp without a zone is refused for a column with one",
        (Edit(_TYPES, "if at.is_timestamp(produced) and produced.tz is None and", "if False and"),),
        seen_by=f"{_FITS}::test_a_timestamp_without_a_zone_is_refused_for_timestamptz",
    ),
    Mutant(
        "generated_columns_produced",
        "a column that only the table fills is refused in the output of a transform",
        (Edit(_TYPES, "if column.filled is not None:", "if False:"),),
        seen_by=f"{_FITS}::test_a_column_that_only_the_table_fills_must_not_be_produced",
    ),
    Mutant(
        "wide_decimals_pass",
        "decimals of more than 38 digits are refused before anything is read",
        (Edit(_TYPES, "if at.is_decimal(produced) and produced.precision > _MAX_DIGITS:", "if False:"),),
        seen_by=f"{_FITS}::test_decimals_of_more_than_38_digits_are_refused",
    ),
    Mutant(
        "doubled_in_partitions",
        "two rows of one record are refused although they lie in different partitions of the table",
        (Edit("spark_jobs/sinks/postgres/partition_keys.py", "if not target.partitioned_by:", "if True:"),),
        seen_by="tests/integration/test_partitioned_tables.py::"
        "test_two_rows_of_one_record_are_refused_although_their_partitions_differ",
    ),
    Mutant(
        "heartbeat_begins_late",
        "heartbeats begin with the claim, not with the Spark session",
        (
            Edit(
                "spark_jobs/write_batches.py",
                "            work = alive.enter_context(supervised(ledger, pipeline, attempt))\n"
                "            flow.check_source(ledger, broker, attempt)\n"
                "            spark = session(pipeline.name)\n",
                "            flow.check_source(ledger, broker, attempt)\n"
                "            spark = session(pipeline.name)\n"
                "            work = alive.enter_context(supervised(ledger, pipeline, attempt))\n",
            ),
        ),
        seen_by="tests/integration/test_takeover.py::"
        "test_heartbeats_begin_with_the_claim_also_while_the_session_waits_for_a_cluster",
    ),
    Mutant(
        "timed_out_unrecorded",
        "an attempt that is ended at its time-out is recorded as failed",
        (Edit("spark_jobs/deadline.py", "                attempts.fail(ledger, self._attempt, str(error))\n", ""),),
        seen_by="tests/integration/test_deadline.py::"
        "test_a_driver_that_hangs_ends_and_its_attempt_is_recorded_as_failed",
    ),
    Mutant(
        "address_not_checked",
        "an address in which a password is not escaped is refused before anything connects",
        (
            Edit("include/tideline/ledger/address.py", 'if "@" in login or "/" in login:', "if False:"),
            Edit("include/tideline/ledger/address.py", "if _PERCENT.search(rest):", "if False:"),
        ),
        seen_by="tests/unit/test_secrets.py::test_the_mistake_in_a_wrong_address_is_named",
    ),
)
