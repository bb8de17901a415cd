"""Send the rejects of published batches to the pipeline's topic of rejects: each batch in one transaction, once.

Law: a reader of committed records sees each reject of a batch once, even if a sender dies or several send at the same time.
The ledger says for which batches rejects are still to be sent, and the topic's receipt whether they were sent. Batches are
never abandoned here, so no sender needs to be fenced: a sender that begins ends the transactions of all others, and finds the
receipt or sends. The receipt names the attempt that has published the batch: one of a batch of another ledger, after a restore, is
not taken for its own.
"""

import base64
import json
from collections.abc import Iterator
from contextlib import closing

from tideline.declaration.pipelines import Pipeline
from tideline.domain.receipts import Receipt
from tideline.errors import NeedsOperatorError, SupersededError, TidelineError
from tideline.ledger import letters
from tideline.ledger.connection import Ledger
from tideline.ledger.letters import Letter, Owed
from tideline.sinks.kafka.kafka_topic import ORIGIN, KafkaTopic, Message

REASON, STEP, LEFT_OUT = "tideline-reason", "tideline-step", "tideline-left-out"
"""Headers of a letter: why and where the record was rejected, and `value` if the value is too large for the topic."""
_SECONDS = 300
_OVERHEAD = 1_024


def send(ledger: Ledger, pipeline: Pipeline) -> list[str]:
    """Send what published batches owe, and return one line for each batch. Do nothing if the pipeline declares no topic of rejects.

    Errors are lines too: the batches are loaded, and the next call sends what this one has left.
    """
    name = pipeline.rejects.topic
    if name is None:
        return []
    said = []
    try:
        topic = KafkaTopic(pipeline.name, pipeline.source.brokers, name, seconds=_SECONDS, purpose=".rejects")
        batches = letters.owed(ledger, pipeline.name)
        limit = topic.limits().max_bytes if batches else 0
        for batch in batches:
            try:
                said.append(_send(ledger, topic, batch, limit))
            except NeedsOperatorError as error:  # of this batch: the others do not wait for a person
                said.append(f"{pipeline.name}: the rejects of {batch.batch} are not in topic {name}: {error}")
            else:
                letters.settle(ledger, batch.batch_id)
    except TidelineError as error:
        said.append(f"{pipeline.name}: rejects are not all in topic {name} yet, the next run tries again: {error}")
    return said


def _send(ledger: Ledger, topic: KafkaTopic, batch: Owed, limit: int) -> str:
    own = Receipt(fence=1, attempt=batch.attempt)
    try:
        with closing(letters.of_batch(ledger, batch.batch_id)) as rejects:
            topic.commit(batch.batch, own, (_message(reject, limit) for reject in rejects), None, max_bytes=limit)
    except SupersededError as error:
        raise NeedsOperatorError(
            f"{batch.batch}: the topic has its rejects from another attempt, which this ledger does not know: {error.problem}",
            next_step="was the ledger restored to a moment before it was published? to send these too, delete the receipt: "
            f"kafka-consumer-groups.sh --delete --group {topic.name_of(batch.batch)} --bootstrap-server ...",
            entry="receipt-of-another-ledger",
        ) from error
    return f"{batch.batch}: its rejects are in the topic"


def _message(letter: Letter, limit: int) -> Message:
    """Return the record of a reject. A value that is too large for the topic is left out: it must not keep the others from being sent."""
    headers = [
        *_headers(letter.headers),
        (REASON, letter.reason.encode()),
        (STEP, letter.step.encode()),
        (ORIGIN, letter.origin.encode()),
    ]
    size = _OVERHEAD + sum(len(name.encode()) + len(content or b"") + 12 for name, content in headers)
    size += len(letter.key or b"")
    if size + len(letter.value or b"") <= limit:
        return Message(letter.key, letter.value, headers)
    return Message(letter.key, None, [*headers, (LEFT_OUT, b"value")])


def _headers(kept: bytes | None) -> Iterator[tuple[str, bytes | None]]:
    for header in json.loads(kept) if kept else ():
        value = header.get("value")  # left out where it is null
        yield header["key"], None if value is None else base64.b64decode(value)
