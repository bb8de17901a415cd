"""recover, intend, settle: how a batch of an outside sink is published. And how one is given up: `sealed` fences it first.

    claim -> recover -> check_source -> stage -> intend -> the sink's commit -> settle

The law: each batch is published by exactly the attempt that has committed it outside, with its counts. The fence comes before the check of the
source: what is committed must settle even when Kafka has lost the offsets since.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from tideline.declaration.pipelines import Pipeline, load_named
from tideline.domain.receipts import Receipt
from tideline.errors import FatalError, NeedsOperatorError
from tideline.flow import claiming, writing
from tideline.kafka.broker import Broker
from tideline.ledger import intents
from tideline.ledger.abandoning import UnsealedError
from tideline.ledger.attempts import Attempt
from tideline.ledger.connection import Ledger
from tideline.ledger.intents import Intent
from tideline.ledger.publishing import Counts, Written
from tideline.sinks import kinds
from tideline.sinks.outside import ForgottenError, OutsideSink, UncertainError

T = TypeVar("T")
Seals = Mapping[int, int]
"""By batch, the fence below which an outside sink lets no attempt commit any more."""
_DAY = 86_400


def recover(ledger: Ledger, pipeline: Pipeline, attempt: Attempt) -> list[Counts] | None:
    """Fence the attempts before this one, and settle what one of them has committed. Return None if there is nothing to settle.

    Called after the claim and before anything is read. Afterwards no earlier attempt can commit. The first attempt has none to fence, and only looks:
    the batch may be committed by an attempt that the ledger does not know since it was restored.

    Raises:
        NeedsOperatorError: The declaration names another sink than an earlier attempt has written to, the receipt is of an attempt that this ledger
            does not know, the sink may have forgotten a receipt, or an output that must exist does not.
        RetryableError: The sink or the ledger did not answer.
    """
    sink = _sink(ledger, pipeline, attempt)
    if sink is None:
        return None
    if attempt.fence == 1:
        receipt = sink.look(attempt.batch)
        return None if receipt is None else _settle(ledger, attempt, receipt)
    stored = intents.of_batch(ledger, attempt.batch_id)
    claiming.check_former(ledger, pipeline, attempt.batch_id)
    receipt = sink.fence(attempt.batch, attempt.fence)
    if receipt is not None:
        return _settle(ledger, attempt, receipt)
    _check_age(sink, pipeline, attempt.batch_id, stored)
    if stored:
        with ledger.transaction():
            intents.seal(ledger, attempt.batch_id, attempt.fence)
    return None


def _settle(ledger: Ledger, attempt: Attempt, receipt: Receipt) -> list[Counts]:
    """Settle what an earlier attempt has committed, unless a restore of the output has taken its rows back."""
    if receipt.gone:
        raise NeedsOperatorError(
            f"{attempt.pipeline} batch {attempt.batch_id}: attempt {receipt.fence} has committed it, and the output was restored to a moment before "
            "that: its rows are gone, and the receipt has stayed",
            next_step=f"give the batch up, so that its offsets are loaded anew: tideline abandon {attempt.batch_id} --reason ...",
            entry="output-was-restored",
        )
    return settle(ledger, attempt, receipt)


def _sink(ledger: Ledger, pipeline: Pipeline, attempt: Attempt) -> OutsideSink | None:
    if attempt.outside != kinds.of(pipeline).is_outside:
        where = "outside of" if attempt.outside else "in"
        raise NeedsOperatorError(
            f"{attempt} was planned for an output {where} the ledger's database; the declaration names {pipeline.sink.output} now",
            next_step="put the former section `sink` back until no batch is open; "
            f"or give the batch up with it, so that it is planned again: tideline abandon {attempt.batch_id} --reason ...",
            entry="sink-has-changed",
        )
    return kinds.of(pipeline).outside(pipeline, ledger)


def _check_age(sink: OutsideSink, pipeline: Pipeline, batch_id: int, stored: Sequence[Intent]) -> None:
    """Make sure that the sink still remembers what it would have of intents that name no position: nothing could be searched for them."""
    oldest = max((intent.age_seconds for intent in stored if intent.position is None), default=0.0)
    days = sink.remembers_days if oldest else None
    if days is not None and oldest > days * _DAY:
        raise NeedsOperatorError(
            f"{pipeline.name} batch {batch_id}: an attempt wanted to commit it more than {days:g} days ago, and {pipeline.sink.output} may have "
            "forgotten whether it did",
            next_step=f"look for records of the batch in {pipeline.sink.output}; if there are none: "
            f"tideline abandon {batch_id} --force --reason ...",
            entry="receipt-may-be-forgotten",
        )


def intend(
    ledger: Ledger,
    broker: Broker,
    pipeline: Pipeline,
    attempt: Attempt,
    written: Written,
    *,
    n_rows: int,
    filtered_by_difference: bool,
    position: Mapping[str, Any] | None = None,
) -> None:
    """Check everything that a publication checks, and store what the attempt is about to commit outside, and where the output ends before that.

    Raises:
        SupersededError: A newer attempt holds the batch. Nothing was changed.
        NeedsOperatorError: The topic was created again since the plan, offsets are missing, or too many records were rejected.
        RetryableError: The broker or the ledger did not answer, or another batch has changed what a re-drive has read.
    """
    facts = writing.check_staged(ledger, broker, pipeline, attempt)
    intent = Intent(
        attempt_id=attempt.attempt_id,
        attempt=attempt.attempt,
        fence=attempt.fence,
        output=pipeline.sink.output,
        n_rows=n_rows,
        written=written,
        facts=facts,
        filtered_by_difference=filtered_by_difference,
        position=position,
    )
    intents.intend(ledger, attempt, intent)


def settle(ledger: Ledger, attempt: Attempt, receipt: Receipt) -> list[Counts]:
    """Publish a batch with the counts, rejects and facts of the attempt that has committed it. `attempt` holds the batch. Nothing is read anew.

    Raises:
        SupersededError: A newer attempt holds the batch, and settles it.
        NeedsOperatorError: This ledger does not know the attempt of the receipt.
        RetryableError: The ledger did not answer, and the batch is not published.
    """
    for intent in intents.of_batch(ledger, attempt.batch_id):
        if (intent.attempt, intent.fence) == (receipt.attempt, receipt.fence):
            return intents.settle(ledger, attempt, intent)
    raise _unknown(attempt.pipeline, attempt.batch_id, receipt)


def _unknown(pipeline: str, batch_id: int, receipt: Receipt) -> NeedsOperatorError:
    return NeedsOperatorError(
        f"{pipeline} batch {batch_id}: the output holds its rows by attempt {receipt.fence} ({receipt.attempt}), which this ledger does not know: "
        "was the ledger restored to an earlier moment?",
        next_step="read docs/operating.md#restoring-the-ledger before anything is loaded: leave a hole over its offsets (tideline skip); only if its "
        f"rows were removed from the output: tideline abandon {batch_id} --force --reason ...",
        entry="receipt-of-another-ledger",
    )


def sealed(
    ledger: Ledger,
    decide: Callable[[Seals], T],
    *,
    pipeline: Pipeline | None = None,
    force: bool = False,
    dry_run: bool = False,
) -> T:
    """Carry out a decision that abandons batches, and fence those first that may be committed outside.

    The sink is asked outside of the ledger's transaction. So `decide` is called with the fences of what was sealed, by batch, and is called again
    for each batch that needs one. It abandons such a batch only if no attempt has claimed it since.

    Args:
        ledger: The ledger's session.
        decide: One transaction. It is rolled back when it raises `UnsealedError`.
        pipeline: The declaration. By default it is loaded when a batch needs it.
        force: Also give up a batch whose receipt this ledger does not know or may be forgotten, or whose output does not exist any more.
        dry_run: Whether `decide` undoes itself. Then the sink is not asked, because its fence would stay; it may refuse later.

    Raises:
        FatalError: An attempt has committed the batch.
        RetryableError: The sink did not answer. Nothing was decided.
    """
    seals: dict[int, int] = {}
    while True:
        try:
            return decide(seals)
        except UnsealedError as found:
            if dry_run:
                seals[found.batch_id] = found.fence + 1
                continue
            declared = pipeline or load_named(found.pipeline)
            seals[found.batch_id] = _fence(ledger, declared, found, force=force)


def _fence(ledger: Ledger, pipeline: Pipeline, found: UnsealedError, *, force: bool) -> int:
    """Fence all attempts of a batch, and return the fence below which none can commit."""
    stored = intents.of_batch(ledger, found.batch_id)
    below = found.fence + 1
    if not _can_be_asked(ledger, pipeline, found.batch_id, force=force):
        return below
    sink = kinds.of(pipeline).outside(pipeline, ledger)
    if sink is None:  # then the outputs differ
        raise AssertionError(f"{pipeline.name}: {pipeline.sink.output} is not outside")
    try:
        receipt = sink.fence(found.batch, below)
    except ForgottenError:
        if not force:
            raise
        return below
    except UncertainError:
        if not force or (sink := kinds.of(pipeline).outside(pipeline, ledger, searching=False)) is None:
            raise
        receipt = sink.fence(found.batch, below)
    if receipt is None:
        if not force:
            _check_age(sink, pipeline, found.batch_id, stored)
        return below
    if not receipt.gone:  # else a restore of the output has taken its rows back
        _check_receipt(pipeline, found.batch_id, receipt, stored, force=force)
    return below


def _can_be_asked(ledger: Ledger, pipeline: Pipeline, batch_id: int, *, force: bool) -> bool:
    """Return whether the declaration leads to the output that may have the batch. By force it need not: that output may not exist any more."""
    try:
        claiming.check_former(ledger, pipeline, batch_id)
    except NeedsOperatorError:
        if not force:
            raise
        return False
    return True


def _check_receipt(
    pipeline: Pipeline, batch_id: int, receipt: Receipt, stored: Sequence[Intent], *, force: bool
) -> None:
    """Refuse to give up a batch whose rows are in the output."""
    if any(intent.attempt == receipt.attempt for intent in stored):
        raise FatalError(
            f"{pipeline.name} batch {batch_id} is committed by attempt {receipt.fence}: its rows are in {pipeline.sink.output}, "
            "and what is in the output cannot be abandoned",
            next_step=f"let its publication be completed; no record is read again: tideline retry {batch_id} --reason ...",
            entry="committed-outside",
        )
    if not force:
        raise _unknown(pipeline.name, batch_id, receipt)
