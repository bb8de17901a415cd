"""Mutants of the Kafka sink: what lets a reader of committed records see each row once. A test of its own detects each."""

from faults.mutants.mutant import Edit, Mutant

_OUTSIDE = "include/tideline/outside"
_SINK = "spark_jobs/sinks/kafka"
_TOPIC = "tests/integration/sinks/test_kafka_topic.py"
_RACES = "tests/integration/sinks/test_kafka_topic_races.py"
_STAGED = "tests/integration/sinks/test_staged_messages.py"
_FORGOTTEN = "tests/integration/sinks/test_forgotten_receipts.py"
_ENCODED = "tests/unit/test_topic_encoding.py"
_DOCTOR = "tests/integration/sinks/test_doctor_topics.py"

TOPIC_MUTANTS = (
    Mutant(
        "receipt_outside_of_the_transaction",
        "the receipt of a batch is committed in the transaction of its rows",
        (
            Edit(
                f"{_OUTSIDE}/kafka_transaction.py",
                "self._again_if_it_may(lambda: self._producer.send_offsets_to_transaction([offset], metadata, TIMEOUT_S))",
                "(metadata, group.commit(offsets=[offset], asynchronous=False))",
            ),
        ),
        seen_by=f"{_TOPIC}::test_an_attempt_that_dies_before_its_commit_holds_no_reader_up",
    ),
    Mutant(
        "found_receipt_not_compared",
        "an attempt commits only if no other one has, and none has fenced it",
        (
            Edit(
                f"{_OUTSIDE}/kafka_topic.py",
                "                    if batch.is_committed_by(own):\n                        return own\n",
                "",
            ),
        ),
        seen_by=f"{_TOPIC}::test_an_attempt_that_commits_again_is_told_that_it_has",
    ),
    Mutant(
        "transactional_id_of_each_attempt",
        "all attempts at a batch have one transactional id: who begins ends the others",
        (
            Edit(
                f"{_OUTSIDE}/kafka_transaction.py",
                '"transactional.id": place.name,',
                '"transactional.id": f"{place.name}.{time.time_ns()}",',
            ),
        ),
        seen_by=f"{_TOPIC}::test_a_retry_is_read_once_when_the_frozen_attempt_thaws_afterwards[commit]",
    ),
    Mutant(
        "topic_fenced_without_a_marker",
        "a fence leaves a marker, so that an attempt that has not begun yet commits nothing",
        (
            Edit(
                f"{_OUTSIDE}/kafka_topic.py",
                "            elif needs_marker(number(version), fence):\n",
                "            elif False:\n",
            ),
        ),
        seen_by=f"{_TOPIC}::test_an_abandoned_batch_is_never_read_when_the_frozen_attempt_thaws[begin]",
    ),
    Mutant(
        "fence_looks_before_it_begins",
        "a fence ends all other producers of the batch, and only then looks for a receipt",
        (
            Edit(
                f"{_OUTSIDE}/kafka_topic.py",
                "        with batch.explaining(), Transaction(batch.place) as transaction:\n            version = committed(batch.place)\n",
                "        version = committed(batch.place)\n        with batch.explaining(), Transaction(batch.place) as transaction:\n",
            ),
        ),
        seen_by=f"{_RACES}::test_what_is_committed_just_before_a_fence_ends_all_others_is_its_receipt",
    ),
    Mutant(
        "commit_looks_before_it_begins",
        "an attempt ends all other producers of the batch, and only then looks whether it may commit",
        (
            Edit(
                f"{_OUTSIDE}/kafka_topic.py",
                "                with Transaction(batch.place) as transaction:\n"
                "                    if batch.is_committed_by(own):\n"
                "                        return own\n",
                "                if batch.is_committed_by(own):\n"
                "                    return own\n"
                "                with Transaction(batch.place) as transaction:\n",
            ),
        ),
        seen_by=f"{_RACES}::test_what_is_committed_just_before_another_attempt_begins_is_not_committed_again",
    ),
    Mutant(
        "look_at_unstable_offsets",
        "a receipt is read only when no transaction that may hold one is open",
        (
            Edit(
                f"{_OUTSIDE}/kafka_transaction.py",
                'consumer = Consumer({**place.settings, **LOOKING, "group.id": place.name, "error_cb": refused.append})',
                'consumer = Consumer({**place.settings, **LOOKING, "group.id": place.name, "error_cb": refused.append, '
                '"isolation.level": "read_uncommitted"})',
            ),
        ),
        seen_by=f"{_RACES}::test_a_look_waits_for_a_commit_in_flight",
    ),
    Mutant(
        "rows_not_counted_before_the_commit",
        "a transaction commits as many rows as were staged, or none",
        (Edit(f"{_OUTSIDE}/kafka_topic.py", "if expected is not None and sent != expected:", "if False:"),),
        seen_by=f"{_TOPIC}::test_another_number_of_rows_than_staged_commits_nothing",
    ),
    Mutant(
        "ended_transaction_taken_for_committed",
        "a transaction that ends with an error counts only if its receipt is found",
        (
            Edit(
                f"{_OUTSIDE}/kafka_topic.py",
                "                if not batch.turns_out_to_be_committed_by(own, error):\n",
                "                if False:\n",
            ),
        ),
        seen_by=f"{_TOPIC}::test_an_orphan_that_begins_while_the_retry_writes_only_delays_it",
    ),
    Mutant(
        "lost_answer_taken_for_failure",
        "a commit whose answer is lost is looked up",
        (
            Edit(
                f"{_OUTSIDE}/kafka_topic.py",
                "                if not batch.turns_out_to_be_committed_by(own, error):\n",
                "                if True:\n",
            ),
        ),
        seen_by=f"{_RACES}::test_a_commit_that_ends_with_an_error_and_has_happened_is_found",
    ),
    Mutant(
        "failed_transaction_left_open",
        "a transaction that is not committed is aborted at once, and holds no reader up",
        (
            Edit(
                f"{_OUTSIDE}/kafka_transaction.py",
                "            if self._open:\n                self._producer.abort",
                "            if False:\n                self._producer.abort",
            ),
        ),
        seen_by=f"{_RACES}::test_a_transaction_that_fails_ends_at_once_and_holds_no_reader_up",
    ),
    Mutant(
        "offset_of_another_program_taken_for_a_receipt",
        "an offset that Tideline has not committed is no receipt and no room for one",
        (
            Edit(
                f"{_OUTSIDE}/kafka_batch.py",
                "            raise self.where.foreign(self.place.name, version.number, version.metadata) from None\n",
                "            return None\n",
            ),
        ),
        seen_by=f"{_TOPIC}::test_a_group_that_another_program_uses_is_refused",
    ),
    Mutant(
        "any_even_offset_taken_for_a_marker",
        "an offset without Tideline's metadata is no marker",
        (
            Edit(
                f"{_OUTSIDE}/kafka_batch.py",
                "(fence is None and version.metadata == FENCED)",
                "fence is None",
            ),
        ),
        seen_by=f"{_FORGOTTEN}::test_an_offset_of_another_program_is_neither_a_receipt_nor_a_marker[14]",
    ),
    Mutant(
        "forgotten_receipt_not_searched",
        "where no receipt is found, the topic is searched for the records of the attempt that may have committed",
        (
            Edit(
                f"{_OUTSIDE}/kafka_topic.py",
                "if receipt is None and (receipt := self._forgotten(batch, identity, version)):",
                "if False:",
            ),
        ),
        seen_by=f"{_FORGOTTEN}::test_a_batch_whose_receipt_is_forgotten_is_found_by_its_records_and_never_sent_again",
    ),
    Mutant(
        "absence_in_a_shortened_topic_taken_for_proof",
        "where the topic does not tell any more whether an old attempt has committed, a person is asked",
        (Edit(f"{_OUTSIDE}/kafka_batch.py", "if gone and days > limits.sure_days:", "if False:"),),
        seen_by=f"{_FORGOTTEN}::test_a_topic_that_was_shortened_tells_nothing_so_a_person_is_asked",
    ),
    Mutant(
        "attempt_left_out_of_records",
        "each record names the attempt that has sent it",
        (Edit(f"{_SINK}/sending.py", "(ORIGIN, origin.encode()), sender, *zip", "(ORIGIN, origin.encode()), *zip"),),
        seen_by="tests/integration/sinks/test_kafka_driver_deaths.py::test_a_batch_whose_receipt_is_forgotten_is_settled_and_not_sent_again",
    ),
    Mutant(
        "search_ends_before_an_open_transaction",
        "a search that another producer's open transaction holds up is tried again",
        (
            Edit(
                f"{_OUTSIDE}/kafka_search.py",
                "if kind is not Got.NOTHING and offset >= ends[number] - (kind is Got.RECORD):",
                "if kind is Got.END or offset >= ends[number] - 1:",
            ),
        ),
        seen_by=f"{_FORGOTTEN}::test_an_open_transaction_of_another_producer_lets_the_search_be_tried_again",
    ),
    Mutant(
        "group_of_a_batch_is_far_behind",
        "the group of a batch does not look like a consumer that lags",
        (Edit(f"{_OUTSIDE}/kafka_transaction.py", "_ABOVE_ANY_END = 10**15", "_ABOVE_ANY_END = 0"),),
        seen_by=f"{_FORGOTTEN}::test_the_group_of_a_batch_is_not_behind_for_monitors_of_lag",
    ),
    Mutant(
        "forgetful_brokers_accepted",
        "brokers that remember receipts for less than a day are refused before anything is read",
        (
            Edit(
                f"{_OUTSIDE}/kafka_topic.py",
                "if limits.memory_days is not None and limits.memory_days < LEAST_DAYS:",
                "if False:",
            ),
        ),
        seen_by=f"{_FORGOTTEN}::test_brokers_that_forget_within_a_minute_let_no_batch_be_sent_twice_and_are_refused",
    ),
    Mutant(
        "another_partitioner",
        "a key goes to the partition where Java's clients put it",
        (
            Edit(
                f"{_OUTSIDE}/kafka_transaction.py",
                '"partitioner": "murmur2_random"',
                '"partitioner": "consistent_random"',
            ),
        ),
        seen_by=f"{_RACES}::test_a_key_goes_where_javas_partitioner_puts_it",
    ),
    Mutant(
        "no_key_hashed_like_a_key",
        "records without a key spread over the partitions",
        (Edit(f"{_OUTSIDE}/kafka_transaction.py", '"partitioner": "murmur2_random"', '"partitioner": "murmur2"'),),
        seen_by=f"{_RACES}::test_records_without_a_key_spread_over_the_partitions",
    ),
    Mutant(
        "missing_topic_taken_for_a_new_one",
        "a topic that was written and is gone needs a person",
        (Edit(f"{_OUTSIDE}/kafka_topic.py", "raise where.missing(self._known())", "raise where.missing()"),),
        seen_by=f"{_RACES}::test_a_topic_that_was_written_and_is_gone_needs_a_person",
    ),
    Mutant(
        "topic_created_by_asking",
        "a producer never lets the brokers create the topic that it writes to",
        (
            Edit(
                f"{_OUTSIDE}/kafka_transaction.py",
                '"allow.auto.create.topics": False',
                '"allow.auto.create.topics": True',
            ),
        ),
        seen_by="tests/integration/sinks/test_kafka_unknown_commit.py::test_a_topic_that_is_deleted_while_rows_are_sent_stays_deleted",
    ),
    Mutant(
        "rows_of_losing_tasks_sent",
        "only rows of winning tasks are sent",
        (Edit(f"{_SINK}/send_staged.sql", "WHERE tideline_task = ANY ({tasks})", "WHERE {tasks} IS NOT NULL"),),
        seen_by=f"{_STAGED}::test_rows_of_winning_tasks_are_sent_as_they_were_read_with_their_origin",
    ),
    Mutant(
        "rows_of_losing_tasks_counted",
        "only rows of winning tasks are counted",
        (Edit(f"{_SINK}/count_staged.sql", "WHERE tideline_task = ANY (%(tasks)s)", "WHERE %(tasks)s IS NOT NULL"),),
        seen_by=f"{_STAGED}::test_rows_of_winning_tasks_are_counted_by_record",
    ),
    Mutant(
        "rows_sent_in_any_order",
        "rows are sent in the order of the source",
        (
            Edit(
                f"{_SINK}/send_staged.sql",
                "ORDER BY tideline_stream, kafka_offset, item_order",
                "ORDER BY tideline_stream",
            ),
        ),
        seen_by=f"{_STAGED}::test_rows_of_winning_tasks_are_sent_as_they_were_read_with_their_origin",
    ),
    Mutant(
        "items_in_any_order",
        "the rows of one record are sent in the order of their item",
        (Edit(f"{_SINK}/encoding.py", '(number + 2**63).to_bytes(8, "big")', "str(number).encode()"),),
        seen_by=f"{_ENCODED}::test_items_sort_as_their_numbers_do",
    ),
    Mutant(
        "origin_left_out",
        "each record names the source record that it came from",
        (
            Edit(
                f"{_SINK}/sending.py",
                "[(ORIGIN, origin.encode()), sender, *zip(names, contents, strict=True)]",
                "[sender, *zip(names, contents, strict=True)]",
            ),
        ),
        seen_by=f"{_STAGED}::test_rows_of_winning_tasks_are_sent_as_they_were_read_with_their_origin",
    ),
    Mutant(
        "rows_of_rejects_sent",
        "a record that was rejected sends none of its rows",
        (Edit(f"{_SINK}/counting.py", "            n_discarded += _discard_rejected(publication, attempt)\n", ""),),
        seen_by=f"{_STAGED}::test_a_record_that_was_rejected_sends_none_of_its_rows",
    ),
    Mutant(
        "rows_with_one_origin_sent",
        "rows of a record that cannot be told apart make it a reject",
        (
            Edit(
                f"{_SINK}/counting.py",
                'twins = any(row["n_rows"] > row["n_origins"] for row in found)',
                "twins = False",
            ),
        ),
        seen_by=f"{_STAGED}::test_a_record_whose_rows_have_one_origin_is_rejected",
    ),
    Mutant(
        "emptied_staging_taken_for_nothing",
        "staged rows that are gone fail the attempt",
        (Edit(f"{_SINK}/counting.py", "    if n_discarded + n_rows != n_staged:\n", "    if False:\n"),),
        seen_by=f"{_STAGED}::test_staged_rows_that_a_crash_of_the_server_has_emptied_are_not_counted_as_nothing",
    ),
    Mutant(
        "rows_of_foreign_records_sent",
        "a row belongs to a record of its batch",
        (Edit(f"{_SINK}/counting.py", '    if row["n_rows"]:\n', "    if False:\n"),),
        seen_by=f"{_STAGED}::test_rows_of_a_record_that_the_attempt_has_not_read_are_refused",
    ),
    Mutant(
        "no_key_for_a_compacted_topic",
        "a record without a key is a reject where the topic is compacted",
        (Edit(f"{_SINK}/encoding.py", "        if self.needs_key and", "        if False and"),),
        seen_by=f"{_ENCODED}::test_a_compacted_topic_takes_no_record_without_a_key",
    ),
    Mutant(
        "queue_smaller_than_a_record",
        "the queue of the client has room for every record that the topic takes",
        (
            Edit(
                f"{_OUTSIDE}/kafka_transaction.py",
                "(max(_QUEUE_BYTES, 2 * place.max_bytes) + 1023) // 1024",
                "_QUEUE_BYTES // 1024",
            ),
        ),
        seen_by="tests/integration/sinks/test_large_records.py::test_a_record_that_the_topic_takes_is_sent_at_once_however_large_it_is",
    ),
    Mutant(
        "request_of_brokers_not_asked",
        "a topic takes no larger record than a request of its brokers may hold",
        (
            Edit(
                f"{_OUTSIDE}/kafka_limits.py",
                "            min(_values(brokers, _REQUEST), default=_REQUEST_BYTES) - _OF_A_REQUEST,\n",
                "",
            ),
        ),
        seen_by="tests/integration/sinks/test_large_records.py::test_a_topic_takes_no_more_than_a_request_of_its_brokers_may_hold",
    ),
    Mutant(
        "size_not_checked",
        "a record that is too large for the topic is a reject, and does not fail its whole batch",
        (Edit(f"{_SINK}/encoding.py", "        if largest > self.max_bytes:\n", "        if False:\n"),),
        seen_by=f"{_ENCODED}::test_a_record_larger_than_the_topic_takes_is_refused_before_it_fails_the_whole_transaction",
    ),
    Mutant(
        "cut_topic_not_named",
        "doctor compares where the log of a topic begins with where each batch was sent",
        (Edit(f"{_OUTSIDE}/kafka_rows.py", "if start > first and", "if start > log.ends[number] and"),),
        seen_by=f"{_DOCTOR}::test_batches_whose_records_a_program_has_deleted_from_a_topic_are_named_and_can_be_sent_again",
    ),
    Mutant(
        "topic_created_again_not_named",
        "doctor compares the id of a topic with the one that each batch was sent to",
        (Edit(f"{_OUTSIDE}/kafka_rows.py", 'if batch.position["topic_id"] != log.topic_id:', "if False:"),),
        seen_by=f"{_DOCTOR}::test_batches_of_a_topic_that_was_created_again_are_named",
    ),
    Mutant(
        "retention_taken_for_a_loss",
        "doctor names no batch that the retention of its topic may have deleted",
        (Edit(f"{_OUTSIDE}/kafka_rows.py", "return size >= 0 or", "return size >= 0 and"),),
        seen_by=f"{_DOCTOR}::test_what_the_retention_of_the_topic_may_have_deleted_is_no_loss",
    ),
)
