"""Compare the receipts of an outside sink with the ledger, and try whether its storage keeps what commits rest on."""

from collections.abc import Iterable, Sequence

from tideline import outside
from tideline.cli.checks import Check, bad, listed, ok, warn
from tideline.declaration.pipelines import Pipeline
from tideline.domain.receipts import Receipt
from tideline.ledger.connection import Ledger
from tideline.ledger.queries import Row
from tideline.outside import ForgottenError

MOST = 20
"""How many of the newest batches are looked up."""
_DAY = 86_400
_CHECK = "receipts"


def receipts(ledger: Ledger, pipeline: Pipeline, batches: Sequence[Row]) -> Iterable[Check]:
    """Check that each receipt is of an attempt that the ledger knows, and that each published batch has the receipt of its writer.

    A sink may have forgotten the identity of an attempt whose commit is old. Then its fence is compared.

    Args:
        ledger: It is asked whether an output that does not exist must.
        pipeline: It has an outside sink.
        batches: Those of `invariants.outside_batches`.
    """
    sink = outside.of(pipeline, ledger)
    if sink is None:
        return
    days = sink.remembers_days if batches else None
    remembered = None if days is None else days * _DAY
    strange, missing, n_looked = [], [], 0
    for batch in batches:
        n_looked += 1
        try:
            receipt = sink.look(batch["batch_id"])
        except ForgottenError as error:
            if batch["written_fence"] != error.fence:
                strange.append(f"batch {batch['batch_id']} by attempt {error.fence}, whose commit is forgotten")
            continue
        if receipt is not None and str(receipt.attempt) not in batch["attempts"]:
            strange.append(f"batch {batch['batch_id']} by attempt {receipt.fence} ({receipt.attempt})")
        elif _is_missing(batch, receipt, remembered):
            missing.append(f"batch {batch['batch_id']}: {_said(receipt)}")
    if strange:
        yield bad(
            pipeline.name,
            _CHECK,
            f"{pipeline.sink.output} holds rows of attempts that the ledger does not know: {listed(strange)}",
            "was the ledger restored to an earlier moment? see docs/runbook.md#receipt-of-another-ledger",
        )
    if missing:
        yield bad(
            pipeline.name,
            _CHECK,
            f"the ledger has published batches that {pipeline.sink.output} does not show as committed: {listed(missing)}",
            "was the output restored, deleted or written by another program? replay what it has lost: docs/restoring.md",
        )
    if not strange and not missing:
        yield ok(
            pipeline.name, _CHECK, f"{n_looked} batches looked up in {pipeline.sink.output}, each as the ledger has it"
        )


def memory(pipeline: Pipeline) -> Iterable[Check]:
    """Check that the brokers of an output topic remember for long enough which batches are in it."""
    limits = outside.limits(pipeline)
    if limits is None:
        return
    days = limits.memory_days
    if days is None:
        yield warn(
            pipeline.name,
            "memory",
            f"the user may not read how long the brokers of {pipeline.sink.output} remember groups: receipts older than "
            f"{limits.sure_days * 24:.0f} hours are not compared",
            "grant DescribeConfigs on the cluster (docs/permissions.md), or look yourself that offsets.retention.minutes is 1440 or more",
        )
    elif days < outside.LEAST_DAYS:
        yield bad(
            pipeline.name,
            "memory",
            f"the brokers of {pipeline.sink.output} forget groups or transactional ids after {days * 24:.3g} hours, and with them which "
            "batches are in the topic: nothing is loaded",
            "raise offsets.retention.minutes and transactional.id.expiration.ms: docs/runbook.md#brokers-forget-too-soon",
        )
    else:
        yield ok(pipeline.name, "memory", f"the brokers of {pipeline.sink.output} remember receipts for {days:g} days")


def commits(ledger: Ledger | None, pipeline: Pipeline) -> Iterable[Check]:
    """Try whether the storage of a Delta table refuses the second of two commits to one version. Leaves nothing there."""
    if pipeline.sink.kind != "delta":
        return
    problem = outside.probe(pipeline, ledger)
    if problem is not None:
        yield bad(
            pipeline.name,
            "commits",
            problem,
            "do not load into this storage: use an S3-compatible store with conditional PUT, or a file system with hard links",
        )
    else:
        yield ok(pipeline.name, "commits", "of two commits to one version of a scratch table, the second is refused")


def _is_missing(batch: Row, receipt: Receipt | None, remembered: float | None) -> bool:
    """Return whether a published batch does not have the receipt of its writer. A receipt may be forgotten after a time."""
    if batch["written_by"] is None or (receipt is not None and receipt.attempt == batch["written_by"]):
        return False
    if receipt is None and batch["state"] == "superseded":
        return False  # its rows were replaced, and its table may have been created anew since
    return receipt is not None or remembered is None or batch["age_seconds"] < remembered


def _said(receipt: Receipt | None) -> str:
    return "no receipt" if receipt is None else f"a receipt of attempt {receipt.fence}"
