"""Mutants of dead letters: what lets a reader of committed records see each reject once. A test of its own detects each."""

from faults.mutants.mutant import Edit, Mutant

_SENDING = "include/tideline/outside/dead_letters.py"
_MIGRATION = "include/tideline/ledger/sql/migrations/0014_letters.sql"
_QUERIES = "include/tideline/ledger/sql/queries"
_ONCE = "tests/integration/sinks/test_letters_once.py"

LETTER_MUTANTS = (
    Mutant(
        "letters_marked_before_the_commit",
        "letters are owed until the topic has them",
        (
            Edit(
                _SENDING,
                "                said.append(_send(ledger, topic, batch, limit))\n",
                "                letters.settle(ledger, batch.batch_id)\n                said.append(_send(ledger, topic, batch, limit))\n",
            ),
        ),
        seen_by=f"{_ONCE}::test_letters_are_owed_until_the_topic_has_them",
    ),
    Mutant(
        "letters_never_marked",
        "letters that the topic has are owed no more",
        (Edit(_SENDING, "                letters.settle(ledger, batch.batch_id)\n", "                pass\n"),),
        seen_by=f"{_ONCE}::test_letters_are_owed_until_the_topic_has_them",
    ),
    Mutant(
        "letters_under_a_new_name_each_time",
        "all senders of a batch's letters have one transactional id, so that the next one finds the receipt",
        (Edit(_SENDING, 'purpose=".rejects")', 'purpose=".rejects." + __import__("uuid").uuid4().hex)'),),
        seen_by=f"{_ONCE}::test_letters_that_the_topic_has_are_not_sent_again",
    ),
    Mutant(
        "letters_share_the_receipt_of_the_rows",
        "letters have a receipt of their own beside that of the batch's rows",
        (Edit(_SENDING, 'purpose=".rejects")', 'purpose="")'),),
        seen_by=f"{_ONCE}::test_rows_and_rejects_of_a_batch_may_go_to_one_topic",
    ),
    Mutant(
        "letters_of_another_ledger",
        "the receipt of an attempt that the ledger does not know is not taken for its own",
        (
            Edit(
                _SENDING,
                "    except SupersededError as error:\n",
                '    except SupersededError as error:\n        return f"batch {batch_id}: its rejects are in the topic"\n',
            ),
        ),
        seen_by=f"{_ONCE}::test_a_receipt_of_an_attempt_that_the_ledger_does_not_know_is_not_taken_for_its_own",
    ),
    Mutant(
        "letters_wait_for_a_person",
        "letters do not wait for those of a batch that needs a person",
        (
            Edit(
                _SENDING,
                "            except NeedsOperatorError as error:",
                "            except NotImplementedError as error:",
            ),
        ),
        seen_by=f"{_ONCE}::test_a_receipt_of_an_attempt_that_the_ledger_does_not_know_is_not_taken_for_its_own",
    ),
    Mutant(
        "letters_fail_the_load",
        "letters that cannot be sent fail no load",
        (Edit(_SENDING, "    except TidelineError as error:\n", "    except SupersededError as error:\n"),),
        seen_by=f"{_ONCE}::test_a_sender_that_fails_is_no_error_and_leaves_them_owed",
    ),
    Mutant(
        "letters_in_any_order",
        "letters have the order of the source",
        (
            Edit(
                f"{_QUERIES}/list_letters.sql",
                "ORDER BY reject.stream_id, reject.kafka_offset;",
                "ORDER BY reject.kafka_offset DESC;",
            ),
        ),
        seen_by=f"{_ONCE}::test_letters_are_owed_until_the_topic_has_them",
    ),
    Mutant(
        "letters_of_all_batches",
        "a transaction holds the letters of one batch",
        (
            Edit(
                f"{_QUERIES}/list_letters.sql",
                "WHERE reject.batch_id = %(batch_id)s",
                "WHERE reject.batch_id >= %(batch_id)s",
            ),
        ),
        seen_by=f"{_ONCE}::test_each_batch_has_letters_of_its_own",
    ),
    Mutant(
        "letters_owed_before_publication",
        "only a batch that is published owes letters",
        (
            Edit(
                _MIGRATION,
                "AND pipeline = NEW.pipeline AND state IN ('published', 'advanced', 'superseded')) THEN",
                "AND pipeline = NEW.pipeline) THEN",
            ),
        ),
        seen_by=f"{_ONCE}::test_only_a_published_batch_with_rejects_owes_letters",
    ),
    Mutant(
        "letters_not_noted_by_the_publication",
        "the transaction that publishes a batch with rejects notes that it owes letters",
        (Edit(_MIGRATION, "WHEN (NEW.state = 'published' AND OLD.state <> 'published')", "WHEN (false)"),),
        seen_by=f"{_ONCE}::test_letters_are_owed_until_the_topic_has_them",
    ),
    Mutant(
        "letters_of_a_batch_without_rejects",
        "a batch without rejects owes no letters",
        (Edit(_MIGRATION, "WHERE EXISTS (SELECT FROM tideline.reject WHERE batch_id = NEW.batch_id)", "WHERE true"),),
        seen_by=f"{_ONCE}::test_only_a_published_batch_with_rejects_owes_letters",
    ),
    Mutant(
        "letters_owed_again",
        "letters that were sent are never owed again",
        (Edit(_MIGRATION, "ELSIF OLD.sent_at IS NOT NULL OR NEW.sent_at IS NULL\n       OR (", "ELSIF ("),),
        seen_by=f"{_ONCE}::test_what_is_noted_about_letters_stays",
    ),
    Mutant(
        "letters_forgotten",
        "what is noted about letters is never deleted",
        (
            Edit(
                _MIGRATION,
                "BEFORE DELETE ON tideline.letters FOR EACH ROW",
                "BEFORE DELETE ON tideline.letters FOR EACH ROW WHEN (false)",
            ),
        ),
        seen_by=f"{_ONCE}::test_what_is_noted_about_letters_stays",
    ),
    Mutant(
        "too_large_letter_fails_the_others",
        "a letter whose value is too large for the topic goes without it",
        (Edit(_SENDING, '    if size + len(letter.value or b"") <= limit:\n', "    if True:\n"),),
        seen_by=f"{_ONCE}::test_a_value_that_is_too_large_goes_without_it_and_keeps_no_other_letter_back",
    ),
    Mutant(
        "letter_without_origin",
        "a letter names the record that was rejected, why, and at which step",
        (Edit(_SENDING, "        (ORIGIN, letter.origin.encode()),\n", ""),),
        seen_by=f"{_ONCE}::test_letters_are_owed_until_the_topic_has_them",
    ),
)
