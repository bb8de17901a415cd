"""Mutants for the guards of an upsert table."""

from faults.mutants.mutant import Edit, Mutant

_SINK = "spark_jobs/sinks/postgres"
_MODEL = "tests/integration/sinks/test_upsert_model.py"
_MARKS = "tests/integration/sinks/test_upsert_marks.py"
_NAMES = "tests/integration/sinks/test_any_column_name.py"
_REDUCE = f"{_MODEL}::test_any_order_of_loads_replays_and_redrives_equals_the_reduce"

UPSERT_MUTANTS = (
    Mutant(
        "deleted_without_a_mark",
        "a tombstone leaves a mark",
        (Edit(f"{_SINK}/mark_deleted.sql", "WHERE NOT n.loses_to_mark\n", "WHERE false\n"),),
        seen_by=_REDUCE,
    ),
    Mutant(
        "older_record_wins",
        "a record that is older than the row of its key does not replace it",
        (
            Edit(f"{_SINK}/upsert_newest.sql", "WHERE NOT n.loses_to_row AND NOT", "WHERE NOT"),
            Edit(f"{_SINK}/count_winning.sql", "WHERE NOT loses_to_row AND NOT", "WHERE NOT"),
        ),
        seen_by=_REDUCE,
    ),
    Mutant(
        "marks_not_consulted",
        "a record that is older than the tombstone of its key inserts no row",
        (
            Edit(f"{_SINK}/upsert_newest.sql", " AND NOT n.loses_to_mark", ""),
            Edit(f"{_SINK}/count_winning.sql", " AND NOT loses_to_mark", ""),
        ),
        seen_by=_REDUCE,
    ),
    Mutant(
        "older_tombstone_deletes",
        "a tombstone deletes only a row that is older",
        (Edit(f"{_SINK}/delete_deleted.sql", " AND NOT n.loses_to_row", ""),),
        seen_by=_REDUCE,
    ),
    Mutant(
        "any_record_of_a_key",
        "of the staged records of a key the newest is written",
        (Edit(f"{_SINK}/gather_newest.sql", "i.number DESC, s.kafka_offset DESC", "i.number, s.kafka_offset"),),
        seen_by=_REDUCE,
    ),
    Mutant(
        "incarnation_ignored",
        "a record of a topic that was created again is newer, whatever its offset",
        (Edit(f"{_SINK}/gather_newest.sql", "min(stream_id) AS number", "0 AS number"),),
        seen_by=f"{_MODEL}::test_records_of_a_topic_that_was_created_again_are_newer_whatever_their_offsets",
    ),
    Mutant(
        "order_ignored",
        "the declared order compares before offsets do",
        (Edit(f"{_SINK}/upserting.py", "order = () if deletes else upsert.order", "order = ()"),),
        seen_by=f"{_MODEL}::test_an_order_decides_whatever_the_partition_and_the_order_of_loads",
    ),
    Mutant(
        "marks_not_locked",
        "publications into one table take turns",
        (Edit(f"{_SINK}/lock_marks.sql", "LOCK TABLE {marks} IN SHARE ROW EXCLUSIVE MODE;", "SELECT '{marks}';"),),
        seen_by=f"{_MODEL}::test_a_row_and_its_tombstone_that_are_published_at_once_leave_no_row",
    ),
    Mutant(
        "offsets_of_partitions_compared",
        "a key from two partitions is refused",
        (
            Edit(
                f"{_SINK}/list_two_streams.sql", "HAVING min(tideline_stream) <> max(tideline_stream)", "HAVING false"
            ),
            Edit(f"{_SINK}/list_incomparable.sql", "LIMIT 1", "LIMIT 0"),
        ),
        seen_by=f"{_MODEL}::test_a_key_from_two_partitions_is_refused_and_changes_nothing",
    ),
    Mutant(
        "mark_goes_with_its_tombstone",
        "a mark stays when compaction has removed its tombstone",
        (Edit(f"{_SINK}/delete_replaced_marks.sql", "NOT %(deletes)s", "true OR NOT %(deletes)s"),),
        seen_by=f"{_MARKS}::test_a_mark_stays_although_compaction_has_removed_its_tombstone",
    ),
    Mutant(
        "mark_pruned_before_a_reject",
        "a mark stays while a reject holds an older record",
        (
            Edit(
                "include/tideline/ledger/sql/queries/prune_marks.sql",
                "WHERE j.stream_id = s.stream_id)) AS first_to_come",
                "WHERE false)) AS first_to_come",
            ),
        ),
        seen_by=f"{_MARKS}::test_an_older_reject_keeps_its_mark_until_it_is_redriven",
    ),
    Mutant(
        "mark_pruned_before_an_open_batch",
        "a mark stays while an open batch has older offsets",
        (
            Edit(
                "include/tideline/ledger/sql/queries/prune_marks.sql",
                "WHERE b.state IN ('planned', 'writing', 'failed')",
                "WHERE false",
            ),
        ),
        seen_by=f"{_MARKS}::test_an_open_batch_of_older_offsets_keeps_its_mark",
    ),
    Mutant(
        "returned_topic_compared",
        "records of a topic that has come back are not compared with those of the topic in between",
        (Edit(f"{_SINK}/list_incomparable.sql", "   OR is_later AND other_number", "   OR false AND other_number"),),
        seen_by="tests/integration/sinks/test_upsert_returned.py::test_records_of_a_topic_that_has_come_back_are_not_compared_with_those_of_"
        "the_topic_in_between",
    ),
    Mutant(
        "return_forgotten",
        "a stream remembers from where on its topic has come back",
        (
            Edit(
                "include/tideline/ledger/sql/migrations/0023_returned_topics.sql",
                "NEW.returned_offset := coalesce(OLD.returned_offset, NEW.next_offset);",
                "NEW.returned_offset := NEW.next_offset + 100;",
            ),
        ),
        seen_by="tests/integration/sinks/test_upsert_returned.py::test_neither_are_they_with_its_tombstones",
    ),
    Mutant(
        "names_of_rows_among_those_of_the_statement",
        "a column of an upsert table may have the name of one that the sink's statements give",
        (Edit(f"{_SINK}/upserting.py", 'name: f"column_{number}"', "name: name"),),
        seen_by=f"{_NAMES}::test_an_upsert_keeps_the_newest_accepted_record_of_each_key",
    ),
    Mutant(
        "key_not_qualified",
        "a key may have the name of a column of a trial's records",
        (Edit(f"{_SINK}/keep_refused_keys.sql", "SELECT {tried_key} FROM", "SELECT {key} FROM"),),
        seen_by=f"{_NAMES}::test_an_upsert_keeps_the_newest_accepted_record_of_each_key",
    ),
    Mutant(
        "deletions_by_a_column",
        "no column of the records makes them tombstones",
        (
            Edit(
                "spark_jobs/records/record_steps.py",
                "return _DELETES in (table.schema.metadata or {})",
                "return _DELETES.decode() in table.column_names or _DELETES in (table.schema.metadata or {})",
            ),
        ),
        seen_by="tests/unit/test_trial.py::test_a_column_makes_no_tombstone_of_its_record_whatever_its_name",
    ),
)
