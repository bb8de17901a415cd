"""The guards of the flow, and of the comparisons that it goes by, each of which is taken away once."""

from faults.mutants.mutant import Edit, Mutant

FLOW_MUTANTS = (
    Mutant(
        "open_batches_forgotten",
        "a plan begins with the batches that were left open",
        (Edit("include/tideline/flow/planning.py", "return Plan(opened + new)", "return Plan(new)"),),
    ),
    Mutant(
        "asked_without_looking",
        "what is asked for is compared with what Kafka holds",
        (Edit("include/tideline/flow/planning.py", "    targets.check_held(found, shares)\n", ""),),
    ),
    Mutant(
        "batches_of_a_run_forgotten",
        "a run keeps the batches that it was given",
        (
            Edit(
                "include/tideline/flow/planning.py",
                "    reservations.join_run(ledger, pipeline.name, asked.run, planned.batch_ids)\n",
                "",
            ),
        ),
    ),
    Mutant(
        "reserved_is_free",
        "what another batch has reserved is not free",
        (
            Edit(
                "include/tideline/flow/candidates.py",
                "list(subtract(OffsetRange(stream.next_offset, end), stream.reserved))",
                "[OffsetRange(stream.next_offset, end)]",
            ),
        ),
    ),
    Mutant(
        "replay_takes_open",
        "a replay leaves alone what an open batch will load",
        (Edit("include/tideline/flow/targets.py", "if replace and _why_not(owner) is None]", "if replace]"),),
    ),
    Mutant(
        "backfill_takes_open",
        "a backfill leaves alone what an open batch will load",
        (
            Edit(
                "include/tideline/flow/targets.py",
                "owner for owner in owned.get(stream_id, []) if owner.batch_id is not None and",
                "owner for owner in owned.get(stream_id, []) if owner.batch_id is not None and not owner.is_open and",
            ),
        ),
    ),
    Mutant(
        "advance_believes",
        "advance asks whether its batches are through",
        (Edit("include/tideline/flow/advancing.py", "    if blocked:", "    if False:"),),
    ),
    Mutant(
        "skip_takes_anything",
        "a skip asks what is loaded or reserved",
        (
            Edit(
                "include/tideline/flow/deciding.py",
                "for rest in subtract(piece.offsets, taken):",
                "for rest in [piece.offsets]:",
            ),
            Edit("include/tideline/flow/deciding.py", "        _check_skip(ledger, found, stream, piece)\n", ""),
        ),
    ),
    Mutant(
        "skip_over_holes",
        "a skip leaves out what is in a hole already",
        (
            Edit(
                "include/tideline/flow/deciding.py",
                "for rest in subtract(piece.offsets, taken):",
                "for rest in [piece.offsets]:",
            ),
        ),
    ),
    Mutant(
        "other_topic_unseen",
        "a topic that was created again is noticed",
        (Edit("include/tideline/domain/streams.py", "    if topic.topic_id != topic_id:", "    if False:"),),
    ),
    Mutant(
        "topic_not_rechecked",
        "publish asks once more whether the topic is still the one that was planned",
        (
            Edit(
                "include/tideline/flow/writing.py",
                "    if other is not None or topic is None or not whole:\n        return other\n",
                "    if not whole:\n        return None\n    if other is not None or topic is None:\n        return other\n",
            ),
        ),
    ),
    Mutant(
        "retention_unseen",
        "what retention has deleted unread is noticed",
        (
            Edit(
                "include/tideline/domain/streams.py",
                "    if gone := lost(stream, facts):",
                "    if (gone := lost(stream, facts)) and False:",
            ),
        ),
    ),
    Mutant(
        "unreadable_unseen",
        "what is to be read is compared with what Kafka holds before the read",
        (
            Edit(
                "include/tideline/flow/writing.py",
                "    return range_problem(piece.offsets, topic.partition(piece.partition))",
                "    return None",
            ),
        ),
    ),
    Mutant(
        "unreadable_kept",
        "a plan gives up the batches over streams that have stopped",
        (
            Edit(
                "include/tideline/flow/planning.py",
                "    decisions.abandon_unreadable(ledger, pipeline.name)\n    given",
                "    given",
            ),
            Edit(
                "include/tideline/flow/planning.py",
                "        while decisions.abandon_unreadable(ledger, pipeline.name):",
                "        while False:",
            ),
        ),
    ),
    Mutant(
        "loss_without_a_hole",
        "a loss that is accepted leaves a hole",
        (
            Edit(
                "include/tideline/flow/deciding.py",
                '        decisions.leave_hole(ledger, stream, piece, "lost", reason=reason)\n',
                "        pass\n",
            ),
        ),
    ),
    Mutant(
        "adopted_beside_the_old",
        "who adopts a topic lets the streams of the old one retire",
        (Edit("include/tideline/flow/deciding.py", "        _retire(ledger, old)\n", ""),),
    ),
)
