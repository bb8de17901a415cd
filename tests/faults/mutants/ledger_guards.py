"""Mutants for the guards in the Python of the ledger and of the sink: each removes one guard."""

from faults.mutants.mutant import Edit, Mutant

LEDGER_MUTANTS = (
    Mutant(
        "publish_in_any_state",
        "publish checks the state of the batch",
        (
            Edit(
                "include/tideline/ledger/publishing.py",
                'if batch["state"] == "writing" and batch["attempt"] == attempt.attempt:\n        return None',
                'if batch["attempt"] == attempt.attempt:\n        return None',
            ),
        ),
    ),
    Mutant(
        "publish_without_the_batch",
        "publish checks that its attempt holds the batch and is the newest",
        (
            Edit(
                "include/tideline/ledger/publishing.py",
                "                found = holder(ledger, attempt)\n",
                "                found = None\n",
            ),
        ),
    ),
    Mutant(
        "refusal_not_raised",
        "a refused attempt raises an error",
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
        "a replay or backfill takes the coverage of its offsets from the owners before it",
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
        "heads are moved before the batches behind them become advanced",
        (Edit("include/tideline/ledger/heads.py", '    ledger.rows("pass_coverage", pipeline=pipeline)\n', ""),),
    ),
    Mutant(
        "claim_in_any_state",
        "a claim leaves published and abandoned batches alone",
        (
            Edit(
                "include/tideline/ledger/attempts.py",
                "        if state not in {BatchState.PLANNED, BatchState.FAILED, BatchState.WRITING}:\n            return state\n",
                "",
            ),
        ),
    ),
    Mutant(
        "no_takeover",
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
        "failed_batch_stays_writing",
        "a failed attempt sets its batch to `failed`",
        (
            Edit(
                "include/tideline/ledger/attempts.py",
                '        ledger.rows("fail_batch", batch_id=attempt.batch_id, attempt=attempt.attempt)\n',
                "",
            ),
        ),
    ),
    Mutant(
        "failure_not_recorded",
        "an error is recorded as the failure of its attempt",
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
        "a published batch cannot be abandoned",
        (
            Edit(
                "include/tideline/ledger/abandoning.py",
                "    if state in {BatchState.PUBLISHED, BatchState.ADVANCED, BatchState.SUPERSEDED}:",
                "    if False:",
            ),
        ),
    ),
    Mutant(
        "replaced_rows_stay",
        "a replay deletes the rows that it replaces",
        (
            Edit(
                "spark_jobs/sinks/postgres/insertion.py",
                "    if staged.attempt.kind is BatchKind.REPLAY:\n",
                "    if False:\n",
            ),
        ),
    ),
    Mutant(
        "publish_by_an_older_attempt",
        "publish compares its attempt with the newest one",
        (
            Edit(
                "include/tideline/ledger/publishing.py",
                'if batch["state"] == "writing" and batch["attempt"] == attempt.attempt:\n        return None',
                'if batch["state"] == "writing":\n        return None',
            ),
        ),
    ),
    Mutant(
        "commit_assumed",
        "the result of a COMMIT without an answer is looked up",
        (
            Edit(
                "include/tideline/ledger/publishing.py",
                "            if not was_published(ledger, attempt):\n                raise\n",
                "            ledger.reconnect()\n",
            ),
        ),
    ),
    Mutant(
        "commit_never_looked_up",
        "a COMMIT without an answer may have succeeded",
        (
            Edit(
                "include/tideline/ledger/publishing.py",
                "            if not was_published(ledger, attempt):\n                raise\n",
                "            raise\n",
            ),
        ),
        first_seed=309,
    ),
    Mutant(
        "redriven_not_compared",
        "a re-drive compares the rejects that it has read with those in the ledger",
        (
            Edit(
                "include/tideline/ledger/redrives.py",
                'if found["n_gone"] or found["n_unread"] or found["n_undecoded"]:',
                "if False:",
            ),
        ),
    ),
    Mutant(
        "redrive_changes_coverage",
        "a re-drive does not change coverage",
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
        "a batch that an attempt is writing cannot be abandoned",
        (
            Edit(
                "include/tideline/ledger/abandoning.py",
                ' and batch["silent_seconds"] <= STALE_AFTER_SECONDS:',
                " and False:",
            ),
        ),
    ),
)
