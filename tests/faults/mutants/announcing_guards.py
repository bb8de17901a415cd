"""Mutants for the guards of the outbox and of what ends a hung driver: each removes one guard."""

from faults.mutants.mutant import Edit, Mutant

ANNOUNCING_MUTANTS = (
    Mutant(
        "announced_before_it_is_seen",
        "a batch leaves the outbox only when its event was seen",
        (
            Edit(
                "include/tideline/flow/announcing.py",
                "    return publications.take(ledger, free, announcer)",
                "    taken = publications.take(ledger, free, announcer)\n    publications.confirm(ledger, free)\n    return taken",
            ),
        ),
        seen_by="tests/integration/test_announcing.py::test_nothing_is_marked_as_announced_before_its_event_was_seen",
    ),
    Mutant(
        "announced_by_the_first_task_only",
        "batches that a task has taken and not announced are taken again",
        (
            Edit(
                "include/tideline/flow/announcing.py",
                "batch.announcer not in running]",
                "batch.announcer is None]",
            ),
        ),
        seen_by="tests/integration/test_announcing.py::test_nothing_is_marked_as_announced_before_its_event_was_seen",
    ),
    Mutant(
        "taken_from_running_tasks",
        "batches that a running task may still announce are left to it",
        (Edit("include/tideline/flow/announcing.py", " and events.may_succeed(other)}", " and False}"),),
        seen_by="tests/integration/test_announcing.py::test_what_a_running_task_may_still_announce_is_left_to_it",
    ),
    Mutant(
        "events_listed_first",
        "running tasks are listed before the existing events",
        (
            Edit(
                "include/tideline/flow/announcing.py",
                "    running = {other for other in others if other is not None and events.may_succeed(other)}\n"
                "    announced = events.announced(min(batch.published_at for batch in waiting))\n",
                "    announced = events.announced(min(batch.published_at for batch in waiting))\n"
                "    running = {other for other in others if other is not None and events.may_succeed(other)}\n",
            ),
        ),
        seen_by="tests/integration/test_announcing.py::test_a_task_that_ends_while_another_one_asks_is_not_doubled",
    ),
    Mutant(
        "taken_by_two_tasks",
        "of two tasks at once only one takes a batch",
        (Edit("include/tideline/ledger/sql/queries/take_waiting.sql", "outbox.n_tries = seen.n_tries AND ", ""),),
        seen_by="tests/integration/test_announcing.py::test_of_two_tasks_that_ask_at_once_one_takes_a_batch",
    ),
    Mutant(
        "published_past_the_outbox",
        "publishing a batch puts it into the outbox",
        (
            Edit(
                "include/tideline/ledger/sql/migrations/0009_outbox.sql",
                "    INSERT INTO tideline.outbox (batch_id, pipeline) VALUES (NEW.batch_id, NEW.pipeline);\n",
                "",
            ),
        ),
        seen_by="tests/integration/test_announcing.py::test_the_next_task_announces_what_no_task_has",
    ),
    Mutant(
        "forced_without_a_fence",
        "a batch is taken from a living attempt only after the fence is raised",
        (
            Edit(
                "include/tideline/ledger/abandoning.py",
                "        _fence(ledger, batch)\n",
                '        _give_up(ledger, batch_id, batch["attempt"], "abandoned by force")\n',
            ),
        ),
        seen_by="tests/integration/test_abandoning_by_force.py::test_a_driver_that_was_forced_out_hears_of_it_at_its_next_beat",
    ),
)
