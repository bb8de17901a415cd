"""Mutants for the guards in the Python of the ledger and of the sink: each removes one guard."""

from faults.mutants.mutant import Edit, Mutant

LEDGER_MUTANTS = (
    Mutant(
        "publish_in_any_state",
        "publish asks in which state the batch is",
        (
            Edit(
                "include/tideline/ledger/publishing.py",
                'if batch["state"] == "writing" and batch["attempt"] == attempt.attempt:\n        return None',
                'if batch["attempt"] == attempt.attempt:\n        return None',
            ),
        ),
    ),
    Mutant(
        "publish_by_anybody",
        "publish asks who holds the batch at all",
        (
            Edit(
                "include/tideline/ledger/publishing.py",
                "            found = _holder(ledger, attempt)\n",
                "            found = None\n",
            ),
        ),
    ),
    Mutant(
        "refusal_unsaid",
        "an attempt that is refused says so",
        (
            Edit(
                "include/tideline/ledger/publishing.py",
                "    if found is not None:\n        raise refuse",
                "    if found is None and False:\n        raise refuse",
            ),
        ),
    ),
    Mutant(
        "nothing_superseded",
        "batches that a replay has replaced are superseded",
        (Edit("include/tideline/ledger/publishing.py", "    _supersede(ledger, attempt, owners)\n", ""),),
    ),
    Mutant(
        "old_rejects_stay",
        "a replay removes the rejects of what it reads again",
        (
            Edit(
                "include/tideline/ledger/publishing.py",
                '        ledger.run("replace_rejects", batch_id=attempt.batch_id)\n',
                "        pass\n",
            ),
        ),
    ),
    Mutant(
        "old_coverage_stays",
        "a replay or backfill takes coverage away from those who had it",
        (
            Edit(
                "include/tideline/ledger/publishing.py",
                '    ledger.run("uncover_ranges", batch_id=attempt.batch_id)\n',
                "",
            ),
        ),
    ),
    Mutant(
        "heads_stay",
        "a walk moves the heads before it asks which batches they have passed",
        (Edit("include/tideline/ledger/heads.py", '    ledger.rows("pass_coverage", pipeline=pipeline)\n', ""),),
    ),
    Mutant(
        "claim_in_any_state",
        "a claim asks whether there is anything left to write",
        (
            Edit(
                "include/tideline/ledger/attempts.py",
                "        if state not in {BatchState.PLANNED, BatchState.FAILED, BatchState.WRITING}:\n            return state\n",
                "",
            ),
        ),
    ),
    Mutant(
        "nobody_takes_over",
        "a batch of a writer that fell silent is taken over",
        (
            Edit(
                "include/tideline/ledger/attempts.py",
                '    return same_task or batch["silent_seconds"] > stale_after_seconds',
                "    return same_task",
            ),
        ),
    ),
    Mutant(
        "old_attempt_stays_open",
        "a takeover ends the attempt before it",
        (
            Edit(
                "include/tideline/ledger/attempts.py",
                '    if batch["attempt"] is not None:\n        ledger.run(\n            "end_attempt"',
                '    if False:\n        ledger.run(\n            "end_attempt"',
            ),
        ),
    ),
    Mutant(
        "fence_stays",
        "a claim raises the fence",
        (Edit("include/tideline/ledger/attempts.py", 'fence=batch["fence"] + 1', 'fence=max(batch["fence"], 1)'),),
    ),
    Mutant(
        "failed_batch_kept",
        "an attempt that failed gives its batch back",
        (
            Edit(
                "include/tideline/ledger/attempts.py",
                '        ledger.rows("fail_batch", batch_id=attempt.batch_id, attempt=attempt.attempt)\n',
                "",
            ),
        ),
    ),
    Mutant(
        "failure_unsaid",
        "an error makes the attempt a failed one",
        (
            Edit(
                "include/tideline/ledger/attempts.py",
                "            fail(ledger, attempt, str(error))",
                "            pass",
            ),
        ),
    ),
    Mutant(
        "published_abandoned",
        "what is published cannot be abandoned",
        (
            Edit(
                "include/tideline/ledger/decisions.py",
                "    elif state in {BatchState.PUBLISHED, BatchState.ADVANCED, BatchState.SUPERSEDED}:",
                "    elif False:",
            ),
        ),
    ),
    Mutant(
        "replaced_rows_stay",
        "a replay deletes the rows that it replaces",
        (
            Edit(
                "spark_jobs/sinks/postgres_output.py",
                "    if staged.attempt.kind is BatchKind.REPLAY:\n",
                "    if False:\n",
            ),
        ),
    ),
    Mutant(
        "publish_by_an_older_attempt",
        "publish asks whether a newer attempt holds the batch",
        (
            Edit(
                "include/tideline/ledger/publishing.py",
                'if batch["state"] == "writing" and batch["attempt"] == attempt.attempt:\n        return None',
                'if batch["state"] == "writing":\n        return None',
            ),
        ),
    ),
    Mutant(
        "commit_taken_for_granted",
        "a COMMIT that was not answered is looked up",
        (
            Edit(
                "include/tideline/ledger/publishing.py",
                "        if not was_published(ledger, attempt):\n            raise\n",
                "        ledger.reconnect()\n",
            ),
        ),
    ),
    Mutant(
        "commit_never_looked_up",
        "a COMMIT that was not answered may have succeeded",
        (
            Edit(
                "include/tideline/ledger/publishing.py",
                "        if not was_published(ledger, attempt):\n            raise\n",
                "        raise\n",
            ),
        ),
        first_seed=309,
    ),
    Mutant(
        "redriven_uncompared",
        "a re-drive compares which rejects it has read with which are there",
        (
            Edit(
                "include/tideline/ledger/redrives.py",
                'if found["n_gone"] or found["n_unread"] or found["n_undecoded"]:',
                "if False:",
            ),
        ),
    ),
    Mutant(
        "redrive_covers",
        "a re-drive leaves coverage alone",
        (
            Edit(
                "include/tideline/ledger/publishing.py",
                "    if attempt.kind is not BatchKind.REDRIVE:\n",
                "    if attempt.kind is not None:\n",
            ),
        ),
    ),
    Mutant(
        "written_abandoned",
        "a batch that somebody is writing cannot be abandoned",
        (
            Edit(
                "include/tideline/ledger/decisions.py",
                '        elif batch["silent_seconds"] <= STALE_AFTER_SECONDS:',
                "        elif False:",
            ),
        ),
    ),
)
