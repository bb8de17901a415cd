"""Turn exceptions of Spark into short Tideline errors. The stack traces stay in the log of the task, where Spark has written them."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pyspark
from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # it has no types
from pyspark.errors import AnalysisException, PySparkException, PythonException

from tideline.errors import FatalError, NeedsOperatorError, RetryableError, TidelineError
from tideline.ledger.attempts import Attempt

# Matches the last lines of an executor's traceback, if the executor raised an error of Tideline.
_OURS = re.compile(
    r"^tideline\.[\w.]+\.(\w+): (.+?)\n  Next: (.+?)(?:\n  More: docs/runbook\.md#([\w-]+))?$",
    re.MULTILINE | re.DOTALL,
)
_CLASSES: dict[str, type[TidelineError]] = {
    "FatalError": FatalError,
    "StepError": FatalError,
    "RefusedStatementError": FatalError,
    "NeedsOperatorError": NeedsOperatorError,
}
# Raised for records that are missing or that Spark cannot represent, although the broker reports that it has them all.
_UNREADABLE = "KafkaIllegalStateException"
# This is also an AnalysisException, but a `frame` is not at fault: the driver's class path lacks the jars.
_NO_READER = "Failed to find data source: kafka"
# What that exception says of a timestamp that Spark, which counts microseconds, cannot hold.
_MISDATED = "that overflows when converting to Spark's microsecond-precision TimestampType"
# What Java says if the jars of the reader were built for another Spark.
_OF_ANOTHER_SPARK = re.compile(
    r"java\.lang\.(?:NoClassDefFoundError: (?!Could not initialize)"
    r"|(?:NoSuchMethod|NoSuchField|AbstractMethod|IncompatibleClassChange)Error)"
)
_READER = "org.apache.spark.sql.kafka010"
# What the client of Java says of the classes that log in at Amazon MSK, if the class path lacks them.
_NO_LOGIN_OF_AWS = "software.amazon.msk"
_NOT_FOUND = re.compile(r"could not be found|ClassNotFoundException|No LoginModule found")
_NO_MODULE = re.compile(r"No module named '?([\w.]+)")
_MAX_LENGTH = 600  # characters


class MisdatedRecordError(RetryableError):
    """Spark refuses to read a record whose timestamp it cannot hold. Another reader can read the batch."""


@contextmanager
def explained(attempt: Attempt, check_source: Callable[[], None]) -> Iterator[None]:
    """Turn exceptions of Spark that are raised inside the context into one short Tideline error.

    Args:
        attempt: The attempt that reads.
        check_source: Raises if the broker no longer holds the offsets of the batch. Spark does not report which offsets
            are missing.

    Raises:
        MisdatedRecordError: A record has a timestamp that Spark cannot hold.
        NeedsOperatorError: The broker no longer holds the offsets of the batch, or Spark cannot read them.
        FatalError: Executors lack jars or a module, or Spark refuses the names of columns. A retry cannot change that.
        RetryableError: Any other error of Spark. An error of Tideline that an executor raised keeps its class.
    """
    try:
        yield
    except (PySparkException, Py4JError) as error:
        text = str(error)
        if ours := list(_OURS.finditer(text)):
            name, problem, next_step, entry = ours[-1].groups()
            raise _CLASSES.get(name, RetryableError)(
                f"{attempt}: {problem}", next_step=next_step, entry=entry
            ) from error
        check_source()
        gist = in_one_line(error)
        if lacking := _lacking(attempt, error, gist):
            raise lacking from error
        if isinstance(error, AnalysisException):
            raise FatalError(
                f"{attempt}: Spark cannot resolve the columns: {gist}",
                next_step="name the columns so that Spark can distinguish them in a `frame`: without dots and backticks, and not by upper case alone",
                entry="transform",
            ) from error
        if _MISDATED in text:
            raise MisdatedRecordError(
                f"{attempt}: Spark cannot hold the timestamp of a record: {gist}",
                next_step="nothing: the batch is read with another client",
                entry="unreadable-records",
            ) from error
        if _UNREADABLE in gist:
            raise NeedsOperatorError(
                f"{attempt}: Spark refuses to read {attempt.describe_ranges()}: {gist}",
                next_step="run the task again; if it says the same, leave out the records that it cannot read: "
                f"tideline skip {attempt.pipeline} 'topic/partition [start, end)' --reason ...",
                entry="unreadable-records",
            ) from error
        raise RetryableError(
            f"{attempt}: Spark failed: {gist}",
            next_step="run the task again; if that fails as well, look for the first stack trace in the task's log",
            entry="spark-failed",
        ) from error


def _lacking(attempt: Attempt, error: Exception, gist: str) -> FatalError | None:
    """Return the error to raise if the class path lacks jars, or the Python of executors a module; None if it is another one."""
    if _NO_READER in gist:
        return FatalError(
            f"{attempt}: Spark has no reader for Kafka: {gist}",
            next_step="add the jars to the class paths in the file of TIDELINE_SPARK_PROPERTIES, as docs/deploy.md shows",
            entry="environment",
        )
    text = str(error)
    if _READER in text and _OF_ANOTHER_SPARK.search(text):
        return FatalError(
            f"{attempt}: the jars that read Kafka do not fit Spark {pyspark.__version__}: {gist}",
            next_step="download them once more with `tideline jars FOLDER`, which takes those of the installed Spark",
            entry="environment",
        )
    if _NO_LOGIN_OF_AWS in text and _NOT_FOUND.search(text):
        return FatalError(
            f"{attempt}: Spark's class path lacks what logs in at Amazon MSK: {gist}",
            next_step="download the jars once more with `tideline jars FOLDER --msk`, where drivers and executors find them",
            entry="environment",
        )
    # Of an exception in Python only its last line: it may have been raised while another one was handled.
    if module := _NO_MODULE.search(gist if isinstance(error, PythonException) else text):
        return FatalError(
            f"{attempt}: the Python of executors has no module {module[1]}",
            next_step="install it where executors run; or, if it stands beside the DAGs, import it at the beginning of transform.py: "
            "docs/deploy.md#on-a-spark-cluster says what travels with a job",
            entry="environment",
        )
    return None


def in_one_line(error: Exception) -> str:
    """Summarize an error of Spark in one line."""
    text = str(error)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if isinstance(error, PythonException):
        return _raised(text)[:_MAX_LENGTH]
    head = [line for line in lines if not line.startswith("An error occurred while calling")]
    end = next((number for number, line in enumerate(head) if line.startswith(("at ", "==", "JVM stacktrace"))), None)
    summary = re.sub(r"^: (?:[\w$]+\.)+", "", " ".join(head[:end]))  # the exception's package is no help to the reader
    return summary[:_MAX_LENGTH]


def _raised(traceback: str) -> str:
    """Return the first line of the error message at the end of a traceback; the message may have more lines."""
    lines = [line for line in traceback.splitlines() if line.strip()]
    frame = max((number for number, line in enumerate(lines) if line.startswith('  File "')), default=len(lines))
    return next((line for line in lines[frame:] if not line[0].isspace()), lines[-1].strip())
