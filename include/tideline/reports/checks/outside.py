"""Compare the receipts of an outside sink with the ledger, and try whether its storage keeps what commits rest on."""

import re
from collections.abc import Iterable, Sequence

from tideline.declaration.pipelines import Pipeline
from tideline.domain.checks import Check, bad, listed, ok, warn
from tideline.domain.offsets import OffsetRange, subtract
from tideline.domain.receipts import BatchIdentity, Receipt
from tideline.ledger import invariants, queries
from tideline.ledger.connection import Ledger
from tideline.ledger.queries import Row
from tideline.sinks import kinds
from tideline.sinks.outside import LEAST_DAYS, ForgottenError, OutsideSink

MOST = 20
"""How many of the newest batches are looked up."""
_DAY = 86_400
_CHECK = "receipts"
_RANGE = re.compile(r"(\S+)/(\d+) \[(\d+), (\d+)\)")
"""As `Attempt.describe_ranges` writes it."""


def receipts(ledger: Ledger, pipeline: Pipeline, batches: Sequence[Row]) -> Iterable[Check]:
    """Check that each receipt is of a batch and an attempt that the ledger knows, and that each published batch has the receipt of its writer.

    Of all batches that the sink has, those are found that the ledger does not know; of the others the newest are looked up. A sink may have
    forgotten the identity of an attempt whose commit is old. Then its fence is compared.

    Args:
        ledger: It is asked whether an output that does not exist must.
        pipeline: It has an outside sink.
        batches: Those of `invariants.outside_batches`.
    """
    sink = kinds.of(pipeline).outside(pipeline, ledger)
    if sink is None:
        return
    days = sink.remembers_days if batches else None
    remembered = None if days is None else days * _DAY
    strange, missing, n_looked = _unknown(ledger, pipeline.name, sink), [], 0
    for batch in batches:
        n_looked += 1
        try:
            receipt = sink.look(BatchIdentity(batch["identity"], batch["batch_id"]))
        except ForgottenError as error:
            if batch["written_fence"] != error.fence:
                strange.append(f"batch {batch['batch_id']} by attempt {error.fence}, whose commit is forgotten")
            continue
        if receipt is not None and str(receipt.attempt) not in batch["attempts"]:
            strange.append(
                f"batch {batch['batch_id']} ({batch['identity']}) by attempt {receipt.fence} ({receipt.attempt})"
            )
        elif _is_missing(batch, receipt, remembered):
            missing.append(f"batch {batch['batch_id']}: {_said(receipt)}")
    if strange:
        yield bad(
            pipeline.name,
            _CHECK,
            f"{pipeline.sink.output} holds rows of batches or attempts that the ledger does not know: {listed(strange, most=MOST + 1)}",
            "was the ledger restored to an earlier moment? see docs/runbook.md#receipt-of-another-ledger",
        )
    if missing:
        yield bad(
            pipeline.name,
            _CHECK,
            f"the ledger has published batches that {pipeline.sink.output} does not show as committed: {listed(missing)}",
            "was the output restored, deleted or written by another program? replay what it has lost: docs/operating.md#restoring-the-ledger",
        )
    if not strange and not missing:
        yield ok(
            pipeline.name, _CHECK, f"{n_looked} batches looked up in {pipeline.sink.output}, each as the ledger has it"
        )


def _unknown(ledger: Ledger, pipeline: str, sink: OutsideSink) -> list[str]:
    """Return what the sink has committed of batches that the ledger does not know, each with what the sink says of it.

    Without those whose rows a restore has taken back, and those over whose offsets a person has left holes.
    """
    identities = sink.identities()
    with ledger.transaction():
        unknown = invariants.unknown_batches(ledger, identities)
    found = []
    for identity in unknown[-MOST:]:
        try:
            receipt = sink.look(BatchIdentity(identity))
        except ForgottenError as error:
            found.append(f"{identity} by attempt {error.fence}, whose commit is forgotten")
            continue
        if receipt is not None and not receipt.gone and not _is_left_out(ledger, pipeline, receipt.said):
            found.append(f"{identity} by attempt {receipt.fence}" + (f" ({receipt.said})" if receipt.said else ""))
    return found + [f"{len(unknown) - MOST} more that were not looked up"] * (bool(found) and len(unknown) > MOST)


def _is_left_out(ledger: Ledger, pipeline: str, said: str) -> bool:
    """Return whether all offsets that a sink says of a commit are in holes. False if it says none, or not all."""
    ranges = [
        (topic, int(partition), OffsetRange(int(start), int(end)))
        for topic, partition, start, end in _RANGE.findall(said)
    ]
    if not ranges or said.endswith(" more"):
        return False
    with ledger.transaction():
        holes = queries.holes(ledger, pipeline)
    for topic, partition, offsets in ranges:
        there = [
            OffsetRange(row["start_offset"], row["end_offset"])
            for row in holes
            if (row["topic"], row["partition"]) == (topic, partition)
        ]
        if [*subtract(offsets, there)]:
            return False
    return True


def memory(pipeline: Pipeline) -> Iterable[Check]:
    """Check that the brokers of an output topic remember for long enough which batches are in it."""
    found = kinds.of(pipeline).memory(pipeline)
    if found is None:
        return
    days = found.days
    if days is None:
        yield warn(
            pipeline.name,
            "memory",
            f"the user may not read how long the brokers of {pipeline.sink.output} remember groups: receipts older than "
            f"{found.sure_days * 24:.0f} hours are not compared",
            "grant DescribeConfigs on the cluster (docs/permissions.md), or look yourself that offsets.retention.minutes is 1440 or more",
        )
    elif days < LEAST_DAYS:
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
    """Try whether the place of the output can hold exactly once: whether storage refuses the second of two commits to one version."""
    problems = kinds.of(pipeline).probe(pipeline, ledger)
    if problems is None:
        return
    if problems:
        yield bad(
            pipeline.name,
            "commits",
            "; ".join(problems),
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
