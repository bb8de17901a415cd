"""Record which pipeline writes which output. Called by `flow`.

Each plan claims the outputs that its pipeline declares, and each write claims them again before it begins, in the order
rows, rejects.

The laws: two pipelines write one output only if both declare that they share it; and a pipeline that has loaded something
gets another output only by a decision. Claims are stored in the ledger, so that the laws also hold between deployments
that do not see each other's declarations.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import psycopg2.errors
from psycopg2.extras import DictRow

from tideline.errors import FatalError, RetryableError, TidelineError
from tideline.ledger import reservations
from tideline.ledger.connection import Ledger
from tideline.ledger.queries import Row

ROWS, REJECTS = "rows", "rejects"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimedOutput:
    """One place that a pipeline writes to."""

    purpose: str
    """`rows` or `rejects`."""
    kind: str
    """`postgres`, `kafka` or `delta`."""
    place: str
    """What is the same however it is declared: schema.table of the ledger's database, cluster id/topic, real path or address."""
    shared: bool

    def __str__(self) -> str:
        """Return what people call it."""
        return described(self.kind, self.place)


def described(kind: str, place: str) -> str:
    """Return what people call a claimed output."""
    match kind:
        case "kafka":
            cluster, topic = place.split("/")
            return f"topic {topic} of cluster {cluster}"
        case "delta":
            return f"Delta table {place}"
        case _:
            return f"table {place}"


def claim(ledger: Ledger, pipeline: str, outputs: Sequence[ClaimedOutput]) -> None:
    """Claim, within a transaction, the outputs that the pipeline declares.

    Raises:
        FatalError: Another pipeline has one of them, and not both declare it shared. Or the pipeline has loaded something,
            and its claim is of another place.
        RetryableError: Another pipeline claims it at this moment.
    """
    for output in outputs:
        with _taken(pipeline, output):
            found = ledger.rows(
                "claim_output",
                pipeline=pipeline,
                purpose=output.purpose,
                kind=output.kind,
                place=output.place,
                shared=output.shared,
            )
        if others := [row for row in found if row["found"] == "other"]:
            raise _of_another(pipeline, output, others)
        for row in found:
            raise _moves(pipeline, output, described(row["kind"], row["place"]))


def release(ledger: Ledger, pipeline: str, outputs: Sequence[ClaimedOutput]) -> None:
    """Free the topic of rejects that a pipeline has and does not declare any more, within the transaction of a plan or a decision.

    Not with each claim: the role that writes has no right to delete one.
    """
    declared = next((output.place for output in outputs if output.purpose == REJECTS), None)
    ledger.run("free_rejects", pipeline=pipeline, place=declared)


def move(ledger: Ledger, pipeline: str, outputs: Sequence[ClaimedOutput]) -> str | None:
    """Move the claim for a pipeline's rows, within the transaction of a decision. Return what it had, which may be this one; None if it had none.

    Args:
        ledger: In the transaction.
        pipeline: Its name.
        outputs: All that it declares: its rows may go to what was its topic of rejects.

    Raises:
        FatalError: A batch of the pipeline is being written or may be in the former output, or another pipeline has the output.
        RetryableError: Another pipeline claims it at this moment.
    """
    output = next(one for one in outputs if one.purpose == ROWS)
    opened = reservations.open_batches(ledger, pipeline)
    writing = [batch.batch_id for batch in opened if batch.state == "writing"]
    if writing:
        raise FatalError(
            f"{pipeline}: expected no batch that is being written, found {', '.join(map(str, writing))}: it goes to the former output",
            next_step=f"wait until it is published, or give it up: tideline abandon {writing[0]} --force --reason ...",
            entry="output-has-moved",
        )
    if unsettled := [batch.batch_id for batch in opened if ledger.rows("list_unsealed", batch_id=batch.batch_id)]:
        raise FatalError(
            f"{pipeline}: expected no batch that an attempt may have committed to the former output, found {', '.join(map(str, unsettled))}",
            next_step=f"with the former section sink: tideline retry {unsettled[0]} --reason ..., or tideline abandon {unsettled[0]} --reason ...",
            entry="output-has-moved",
        )
    if others := [row for row in writers(ledger, pipeline, output) if not (row["shared"] and output.shared)]:
        raise _of_another(pipeline, output, others)
    release(ledger, pipeline, outputs)
    with _taken(pipeline, output):
        rows = ledger.rows("move_output", pipeline=pipeline, kind=output.kind, place=output.place, shared=output.shared)
    return described(rows[0]["kind"], rows[0]["place"]) if rows else None


def writers(ledger: Ledger, pipeline: str, output: ClaimedOutput) -> list[Row]:
    """Return the claims of other pipelines on an output of a pipeline, within a transaction."""
    found = ledger.rows("view_output_writers", kind=output.kind, place=output.place)
    return [dict(row) for row in found if row["pipeline"] != pipeline]


def of(ledger: Ledger, pipeline: str) -> dict[str, Row]:
    """Return the claims of a pipeline by their purpose, within a transaction."""
    return {row["purpose"]: dict(row) for row in ledger.rows("view_claims", pipeline=pipeline)}


@contextmanager
def _taken(pipeline: str, output: ClaimedOutput) -> Iterator[None]:
    try:
        yield
    except psycopg2.errors.ExclusionViolation as error:
        raise RetryableError(
            f"{pipeline}: another pipeline has just claimed {output}",
            next_step="run the task again: it names the other pipeline",
            entry="output-of-another-pipeline",
        ) from error


def _of_another(pipeline: str, output: ClaimedOutput, others: Sequence[Row | DictRow]) -> TidelineError:
    names = ", ".join(row["pipeline"] for row in others)
    undeclared = [pipeline] if not output.shared else []
    undeclared += [row["pipeline"] for row in others if not row["shared"]]
    key = "sink" if output.purpose == ROWS else "rejects.topic"
    return FatalError(
        f"{pipeline}: expected {output} for {'itself' if output.purpose == ROWS else 'rejects'}, found that pipeline {names} writes it as well",
        next_step=f"declare another {key}, or declare sink.shared: true in {' and '.join(undeclared)} and let these plan again; "
        f"if {names} was given up: tideline free-output {others[0]['pipeline']} --reason ...",
        entry="output-of-another-pipeline",
    )


def _moves(pipeline: str, output: ClaimedOutput, had: str) -> FatalError:
    return FatalError(
        f"{pipeline}: expected {had}, which it loads, found that its declaration names {output}: records would be in the one or the other",
        next_step=f"if the declaration is right: tideline move-output {pipeline} --reason ...; "
        "if not, correct section sink, also in another deployment with this ledger",
        entry="output-has-moved",
    )


def free(ledger: Ledger, pipeline: str) -> list[str]:
    """Free the outputs of a pipeline that was given up, so that others can claim them. Return what they are called.

    Raises:
        FatalError: The pipeline has none, or batches of it are open: they could still be published into them.
    """
    opened = sorted(batch.batch_id for batch in reservations.open_batches(ledger, pipeline))
    if opened:
        raise FatalError(
            f"{pipeline}: expected no open batches, found {', '.join(map(str, opened))}: they could still be written",
            next_step=f"give them up first: tideline abandon {opened[0]} --reason ...",
            entry="output-is-not-free",
        )
    rows = ledger.rows("free_outputs", pipeline=pipeline)
    if not rows:
        raise FatalError(
            f"{pipeline}: expected an output that it writes, found none in the ledger",
            next_step="look at the pipelines: tideline pipelines",
            entry="output-is-not-free",
        )
    return sorted(described(row["kind"], row["place"]) for row in rows)
