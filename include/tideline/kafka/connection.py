"""The connection to the brokers: one admin client, and its errors as messages for an operator.

Owns waiting for results and the texts of errors. The queries themselves are in `tideline.kafka.broker`.
"""

import contextlib
import difflib
from collections.abc import Iterable, Mapping
from concurrent.futures import Future, wait
from functools import partial
from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from tideline.declaration.brokers import Brokers
from tideline.errors import FatalError, RetryableError, TidelineError
from tideline.kafka import passing
from tideline.kafka.passing import PassingError
from tideline.kafka.settings import client_settings
from tideline.redaction import without

TIMEOUT_S = 10
_FORBIDDEN = {
    KafkaError.TOPIC_AUTHORIZATION_FAILED: "grant the pipeline's user DESCRIBE and READ on the topic",
    KafkaError.CLUSTER_AUTHORIZATION_FAILED: "grant the pipeline's user DESCRIBE and READ on the topic",
    KafkaError.GROUP_AUTHORIZATION_FAILED: "grant the pipeline's user READ on the group",
}
_UNAUTHENTICATED = KafkaError._AUTHENTICATION  # noqa: SLF001 - public: names of librdkafka's own errors begin with _
_UNTRUSTED = KafkaError._SSL  # noqa: SLF001 - as above
_NONE_GIVEN = "Failed to acquire SASL OAUTHBEARER token"
"""How the client begins what it says of a token that it did not get, whether the issuer refuses it or is down."""
_ISSUER_REFUSES = (
    "invalid_request",
    "invalid_client",
    "invalid_grant",
    "unauthorized_client",
    "unsupported_grant_type",
    "invalid_scope",
)
"""What an issuer says if it refuses a request, by RFC 6749, section 5.2."""


class Connection:
    """An admin client of the brokers of a source or of an output.

    Args:
        brokers: The addresses and the connection settings.

    Raises:
        FatalError: The declaration, a password or a permission is wrong. Every method may raise it too.
        RetryableError: The brokers did not answer within about 10 seconds. Only methods raise it.
    """

    def __init__(self, brokers: Brokers) -> None:
        settings = client_settings(brokers)
        self._section = brokers.section
        self._needs_token = "sasl.oauthbearer.method" in settings
        self.servers = settings["bootstrap.servers"]
        self._secrets = brokers.secrets()
        self._errors: dict[int, KafkaError] = {}
        # The client's own log is off: it repeats each failed connection many times a second. The callback gets the errors that matter.
        own = {"log_level": 0, "error_cb": partial(_remember, self._errors)}
        try:
            self.admin = AdminClient({**settings, **own})
        except KafkaException as error:  # for example, the CA file does not exist
            raise FatalError(
                f"brokers {self.servers}: the connection settings do not work: {self._said(error.args[0])}",
                next_step=f"correct {self._section}.security in the declaration, or the file that it names",
                entry="kafka-refuses",
            ) from (error if self._said(error.args[0]) == error.args[0].str() else None)

    def cluster_id(self) -> str:
        """Return the id of the cluster that answers."""
        asked = {"cluster": self.admin.describe_cluster(request_timeout=TIMEOUT_S)}
        return str(self.results(asked)["cluster"].cluster_id)

    def results(self, futures: Mapping[Any, Future[Any]]) -> dict[Any, Any]:
        """Wait for all futures and return their results. Keys are topics, partitions of topics, or groups."""
        self._wait(futures)
        results = {}
        for key, future in futures.items():
            try:
                results[key] = future.result()
            except KafkaException as error:
                raise self._explained(error.args[0], _topic(key)) from error
        return results

    def existing(self, futures: Mapping[Any, Future[Any]], *, readable_only: bool = False) -> dict[Any, Any]:
        """Return results as `results` does, without missing topics and, with `readable_only`, without those that the user may not read."""
        self._wait(futures)
        codes = {key: _code(future) for key, future in futures.items()}
        left_out = {key for key, code in codes.items() if readable_only and code in _FORBIDDEN}
        unknown = {key for key, code in codes.items() if code == KafkaError.UNKNOWN_TOPIC_OR_PART}
        if unknown:
            # For a moment a topic that was just created is unknown as well. But it is listed, so it stays, and `results` raises a retryable error.
            listed = set(self.topic_names())
            left_out |= {key for key in unknown if _topic(key) not in listed}
        return self.results({key: future for key, future in futures.items() if key not in left_out})

    def topic_names(self) -> list[str]:
        """Return the names of all topics that the user may see, internal ones too, in no order."""
        try:
            return list(self.admin.list_topics(timeout=TIMEOUT_S).topics)
        except KafkaException as error:
            raise self._explained(error.args[0], "all") from error

    def group_names(self) -> list[str]:
        """Return the names of all consumer groups that the user may see, in no order."""
        found = self.results({"all": self.admin.list_consumer_groups(request_timeout=TIMEOUT_S)})["all"]
        for error in found.errors:
            raise self._explained(error.args[0], "all") from error
        return [listed.group_id for listed in found.valid]

    def check_commits(self, group: str, committed: Iterable[TopicPartition]) -> None:
        """Raise an error for the first offset that the brokers refused to commit, if there is one.

        Raises:
            FatalError: A consumer is a member of the group, the topic does not exist, or the commit is not permitted.
            RetryableError: Any other cause.
        """
        for partition in committed:
            if partition.error is None:
                continue
            if partition.error.code() == KafkaError.UNKNOWN_MEMBER_ID:
                raise FatalError(
                    f"brokers {self.servers}, group {group}: expected no members, found a consumer that has joined it",
                    next_step="stop that consumer, or give it another group.id: this group only shows Tideline's heads",
                    entry="group-in-use",
                )
            raise self._explained(partition.error, partition.topic)

    def missing(self, topics: Iterable[str]) -> dict[str, FatalError]:
        """Return an error for each of these topics, none of which exists."""
        names: list[str] = []
        # The names only improve the message. A failure here must not hide the error itself.
        with contextlib.suppress(TidelineError):
            names = self.topic_names()
        return {topic: self._missing(topic, names) for topic in topics}

    def _missing(self, topic: str, names: Iterable[str]) -> FatalError:
        similar = ", ".join(difflib.get_close_matches(topic, names)) or "none"
        return FatalError(
            f"brokers {self.servers}: topic {topic} does not exist; topics with a similar name: {similar}",
            next_step="correct source.topics in the declaration, or create the topic",
            entry="topic-missing",
        )

    def _wait(self, futures: Mapping[Any, Future[Any]]) -> None:
        self._errors.clear()
        while wait(futures.values(), timeout=0.1).not_done:
            self.admin.poll(0)
            # librdkafka retries a wrong password until the time is up, and then reports a timeout.
            if refusal := self._errors.get(_UNAUTHENTICATED):
                raise self._refused(refusal)

    def _explained(self, error: KafkaError, name: str) -> TidelineError:
        """Return the error to raise for a client's error; `name` is the topic or group of the query."""
        # For a moment a partition of a topic that was just created may be unknown as well. But the topic is listed.
        if error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART and name not in (names := self.topic_names()):
            return self._missing(name, names)
        if error.code() in _FORBIDDEN:
            kind = "group" if error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED else "topic"
            return FatalError(
                f"brokers {self.servers}, {kind} {name}: not permitted: {self._said(error)}",
                next_step=_FORBIDDEN[error.code()],
                entry="kafka-refuses",
            )
        if refusal := self._errors.get(_UNTRUSTED):
            return self._refused(refusal)
        issuer = f", and that the issuer of {self._section}.security gives tokens" if self._needs_token else ""
        causes = "; ".join(self._said(cause) for cause in (error, *self._errors.values()))
        as_it_is = PassingError if error.code() in passing.CODES else RetryableError
        return as_it_is(
            f"brokers {self.servers} could not answer: {causes}",
            next_step=f"check that they run and can be reached from here{issuer}; the task tries again by itself",
            entry="kafka-does-not-answer",
        )

    def _said(self, error: KafkaError) -> str:
        """Return the client's own message. It may quote settings that the client cannot use, so it is withheld if it holds a part of a secret."""
        return without(error.str(), self._secrets)

    def _refused(self, error: KafkaError) -> FatalError | RetryableError:
        said = error.str()
        if said.startswith(_NONE_GIVEN) and not any(refusal in said for refusal in _ISSUER_REFUSES):
            return RetryableError(
                f"brokers {self.servers} could not be asked: {self._said(error)}",
                next_step=f"check that the issuer of {self._section}.security can be reached from here; the task tries again by itself",
                entry="kafka-does-not-answer",
            )
        return FatalError(
            f"brokers {self.servers} refused the connection: {self._said(error)}",
            next_step=f"correct {self._section}.security in the declaration, or the variables and files that it names",
            entry="kafka-refuses",
        )


def _remember(errors: dict[int, KafkaError], error: KafkaError) -> None:
    """Store an error by its code. A method would make a reference cycle, and the client's threads would live until a full garbage collection."""
    errors[error.code()] = error


def _code(future: Future[Any]) -> int | None:
    """Return the error code of a finished future, or None."""
    error = future.exception()
    return error.args[0].code() if isinstance(error, KafkaException) else None


def _topic(key: Any) -> str:
    return str(getattr(key, "topic", None) or getattr(key, "name", None) or key)
