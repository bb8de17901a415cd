"""What goes wrong with an output topic, as messages for an operator."""

from collections.abc import Iterable

from confluent_kafka import KafkaError, KafkaException

from tideline.errors import FatalError, NeedsOperatorError, RetryableError, SupersededError, TidelineError
from tideline.redaction import without
from tideline.sinks.outside import UncertainError

_FORBIDDEN = {
    KafkaError.TOPIC_AUTHORIZATION_FAILED: "READ and WRITE on the output topic",
    KafkaError.CLUSTER_AUTHORIZATION_FAILED: "READ and WRITE on the output topic",
    KafkaError.GROUP_AUTHORIZATION_FAILED: "READ on groups that begin with tideline.",
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "WRITE and DESCRIBE on transactional ids that begin with tideline.",
}
_NOT_ANSWERED = "check that the brokers run and can be reached from here; the task tries again by itself"


class Where:
    """One batch and its output topic, as messages name them.

    Args:
        batch: The pipeline and the batch, as in `impressions batch 42`.
        topic: The output topic.
        servers: The brokers.
        secrets: Texts that no message may show.
    """

    def __init__(self, batch: str, topic: str, servers: str, secrets: list[str]) -> None:
        self._place = f"{batch}, output topic {topic} on {servers}"
        self._topic = topic
        self._secrets = secrets

    def explained(self, error: KafkaException) -> TidelineError:
        """Return the error to raise for a client's error. Whatever it is, the batch is committed once or not at all."""
        cause: KafkaError = error.args[0]
        said = without(cause.str(), self._secrets)
        if cause.code() in _FORBIDDEN:
            return FatalError(
                f"{self._place}: not permitted: {said}",
                next_step=f"grant the user {_FORBIDDEN[cause.code()]}; docs/permissions.md has the commands",
                entry="kafka-refuses",
            )
        if cause.code() == KafkaError.INVALID_TRANSACTION_TIMEOUT:
            return FatalError(
                f"{self._place}: the brokers refuse so long a transaction: {said}",
                next_step="lower sink.transaction_seconds, or raise transaction.max.timeout.ms of the brokers",
                entry="output-topic-does-not-fit",
            )
        if cause.code() == KafkaError.MSG_SIZE_TOO_LARGE:
            return RetryableError(
                f"{self._place}: a record is larger than the topic takes now (max.message.bytes): {said}; nothing was committed",
                next_step="raise max.message.bytes of the topic; or do nothing: the next attempt makes it a reject",
                entry="output-topic-does-not-fit",
            )
        return RetryableError(
            f"{self._place}: the brokers could not answer: {said}",
            next_step=_NOT_ANSWERED,
            entry="kafka-does-not-answer",
        )

    def missing(self, why: str | None = None) -> FatalError | NeedsOperatorError:
        """Return the error to raise if there is no such topic. `why` says why there must be one."""
        create = f"kafka-topics.sh --create --topic {self._topic} --partitions 4 --bootstrap-server ..."
        if why is not None:
            return NeedsOperatorError(
                f"{self._place}: expected the topic, because {why}; the topic does not exist, or the user may not see it",
                next_step="find out who has deleted it; its receipts are gone with its records. Only if it shall begin anew: "
                f"{create}, and write the batch again",
                entry="output-topic-missing",
            )
        return FatalError(
            f"{self._place}: the topic does not exist, or the user may not see it",
            next_step=f"create it, with as many partitions as its readers need: {create}; or correct sink.topic",
            entry="output-topic-missing",
        )

    def timed_out(self, seconds: int) -> RetryableError:
        """Return the error to raise if the brokers have ended the transaction because it took too long."""
        return RetryableError(
            f"{self._place}: expected the transaction to end within {seconds} seconds, "
            "found it ended by the brokers; nothing was committed",
            next_step="lower limits.batch_records, or raise sink.transaction_seconds; the task tries again by itself",
            entry="transaction-timed-out",
        )

    def ended(self) -> RetryableError:
        """Return the error to raise if another process has ended the transaction and has committed nothing."""
        return RetryableError(
            f"{self._place}: another process has ended the transaction; nothing was committed",
            next_step="nothing: an older attempt or a command has looked at the batch meanwhile; the task tries again by itself",
        )

    def unknown(self, error: KafkaException) -> RetryableError:
        """Return the error to raise if the brokers stop answering before they have said whether they have committed."""
        return RetryableError(
            f"{self._place}: the brokers do not answer any more, so whether the rows are committed is not known: "
            f"{without(error.args[0].str(), self._secrets)}",
            next_step="check that the brokers run and can be reached from here; the next try finds out and writes nothing twice",
            entry="kafka-does-not-answer",
        )

    def incomplete(self, expected: int, found: int) -> RetryableError:
        """Return the error to raise if the staged rows are not as many as the ledger counts. Staging is not logged."""
        return RetryableError(
            f"{self._place}: expected {expected} staged rows, found {found}; nothing was committed",
            next_step="nothing: the task tries again by itself and stages all rows anew",
            entry="staged-rows-are-missing",
        )

    def superseded(self, fence: int, found: str) -> SupersededError:
        """Return the error to raise in an attempt that may not commit."""
        return SupersededError(
            f"{self._place}: the attempt with fence {fence} was refused: found {found}",
            next_step="nothing: another attempt has the batch, and this one has changed nothing",
        )

    def held_up(self, where: str) -> RetryableError:
        """Return the error to raise if the topic has to be searched and a reader of committed records does not get to its end."""
        return RetryableError(
            f"{self._place}: an attempt may have committed the batch, and its records may lie behind a transaction of another producer that "
            f"is open in {where}",
            next_step="wait until it has ended: kafka-transactions.sh find-hanging --topic ... shows it; the task tries again by itself",
            entry="receipt-may-be-forgotten",
        )

    def uncertain(self, days: float, memory_days: float | None, gone: Iterable[str]) -> UncertainError:
        """Return the error to raise if neither the brokers nor the topic tell any more whether an attempt has committed."""
        memory = "a time that the user may not read" if memory_days is None else f"{memory_days:g} days"
        return UncertainError(
            f"{self._place}: an attempt wanted to commit it {days:.1f} days ago; the brokers have no receipt, which they may have forgotten "
            f"whether it did or not: they keep one for {memory}. Its records are not in the topic now, and may have been: {'; '.join(gone)}",
            next_step="find out whether readers of the topic have seen its records (header tideline-attempt); see "
            "docs/runbook.md#receipt-may-be-forgotten for both answers",
            entry="receipt-may-be-forgotten",
        )

    def forgetful(self, memory_days: float, least_days: float) -> FatalError:
        """Return the error to raise if the brokers forget receipts too soon."""
        return FatalError(
            f"{self._place}: expected brokers that remember groups and transactional ids for {least_days:g} day or more, "
            f"found {memory_days * 24:.3g} hours: they would forget which batches are in the topic",
            next_step="raise offsets.retention.minutes (by default 10080, a week) and transactional.id.expiration.ms of the brokers; "
            "nothing was read",
            entry="brokers-forget-too-soon",
        )

    def foreign(self, group: str, number: int, metadata: str) -> NeedsOperatorError:
        """Return the error to raise if the group's offset was not committed by Tideline."""
        return NeedsOperatorError(
            f"{self._place}: expected an offset of Tideline in group {group}, found {number} with metadata {metadata!r}",
            next_step="find out who commits offsets to this group; only when no rows of the batch are in the topic: "
            f"kafka-consumer-groups.sh --delete --group {group} --bootstrap-server ...",
            entry="output-group-in-use",
        )
