"""Sinks outside of the ledger's database, as far as the ledger needs them: fence a batch, and look its receipt up.

The rows are committed by the Spark job, in one step of the sink; the ledger follows. What is here needs no JVM, so that a plan and
the command line can fence too. Each kind of outside sink is a module of this package, with a function `sink(pipeline, evidence)`.
"""

from collections.abc import Collection, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol
from uuid import UUID

from tideline.declaration.pipelines import Pipeline
from tideline.domain.receipts import BatchIdentity, Receipt
from tideline.errors import FatalError, NeedsOperatorError
from tideline.ledger.connection import Ledger
from tideline.ledger.published_rows import Published, Sent
from tideline.outside import evidence

if TYPE_CHECKING:
    from tideline.outside.kafka_limits import Limits

_MODULES = {"kafka": "tideline.outside.kafka_topic", "delta": "tideline.outside.delta_table"}
"""By `sink.kind`. Imported when they are needed: their clients are large."""

LEAST_DAYS = 1.0
"""Brokers of an output topic that remember receipts for less are refused."""


class ForgottenError(NeedsOperatorError):
    """An attempt has committed a batch, and the sink has forgotten its identity. It still knows the fence.

    Args:
        problem: Where, and what was found.
        next_step: What the operator should do.
        entry: The heading in docs/runbook.md.
        fence: The fence of the attempt.
    """

    def __init__(self, problem: str, *, next_step: str, entry: str, fence: int) -> None:
        super().__init__(problem, next_step=next_step, entry=entry)
        self.fence = fence


class UncertainError(NeedsOperatorError):
    """An attempt may have committed a batch: the sink may have forgotten its receipt, and its output does not tell."""


class OutsideSink(Protocol):
    """One output outside of the ledger's database. It keeps the version of each batch, see `domain.receipts`."""

    @property
    def remembers_days(self) -> float | None:
        """How long a receipt is sure to be found after its commit. None for ever."""

    def fence(self, batch: BatchIdentity, fence: int) -> Receipt | None:
        """Make sure that no attempt below `fence` can commit any more. Return the receipt of the one that has committed, if any.

        A commit in flight is decided when this returns: it is the receipt, or it can never happen. Calling it again is harmless.

        Raises:
            RetryableError: The sink did not answer. Whether it has fenced is unknown.
            FatalError: The output may not be written as it is. It has not fenced.
            ForgottenError: An attempt has committed, and the sink has forgotten which one.
            UncertainError: An attempt may have committed, and nothing tells any more. The batch is not fenced.
            NeedsOperatorError: There is no output, and the ledger knows that there was one.
        """

    def look(self, batch: BatchIdentity) -> Receipt | None:
        """Return the receipt of a batch. Fences nothing, so a commit in flight may still happen after None.

        Raises:
            RetryableError: The sink did not answer.
            ForgottenError: As above.
            NeedsOperatorError: As above.
        """

    def identities(self) -> Collection[UUID]:
        """Return the identities of all batches of the pipeline that the sink has a version of: committed, or only fenced.

        Raises:
            RetryableError: The sink did not answer.
            NeedsOperatorError: As above.
        """


def is_outside(pipeline: Pipeline) -> bool:
    """Return whether the output of a pipeline is outside of the ledger's database."""
    return pipeline.sink.kind in _MODULES


def of(pipeline: Pipeline, ledger: Ledger, *, searching: bool = True) -> OutsideSink | None:
    """Return the outside sink that a pipeline writes to. None if its output is a table in the ledger's database. Connects to nothing.

    When the output does not exist, the ledger is asked whether it must.

    Args:
        pipeline: The declaration.
        ledger: The ledger's session.
        searching: Whether a fence that finds no receipt searches the output, where receipts may be forgotten. Not when a person has looked.

    Raises:
        FatalError: A variable of the environment is not set, or the library of the sink is not installed.
    """
    if not is_outside(pipeline):
        return None
    given: dict[str, Any] = {"known": evidence.of(ledger, pipeline)}
    if pipeline.sink.kind == "kafka" and searching:
        given["intended"] = evidence.intended(ledger)
    sink: OutsideSink = _module(pipeline, _MODULES[pipeline.sink.kind]).sink(pipeline, **given)
    return sink


def _module(pipeline: Pipeline, name: str) -> Any:
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        raise FatalError(
            f"{pipeline.name}: sink.kind is {pipeline.sink.kind}, and the library {error.name} is not installed",
            next_step="install it where Airflow's tasks and Spark's Python run: pip install 'tideline[delta]'",
            entry="environment",
        ) from error


def limits(pipeline: Pipeline) -> "Limits | None":
    """Return what an output topic takes, and how long its brokers remember receipts. None for outputs of other kinds.

    Raises:
        RetryableError: The brokers did not answer.
        FatalError: There is no such topic, or the declaration is wrong.
    """
    if pipeline.sink.kind != "kafka":
        return None
    found: Limits = _module(pipeline, _MODULES["kafka"]).sink(pipeline).limits()
    return found


def probe(pipeline: Pipeline, ledger: Ledger | None) -> str | None:
    """Try whether the place of the output can hold exactly once. Return what is wrong; None if nothing is, or nothing can be tried.

    Args:
        pipeline: Whose output it is.
        ledger: Knows whether the output must exist. None if the ledger does not answer.

    Raises:
        RetryableError: The sink did not answer.
        NeedsOperatorError: The output must exist and does not. Nothing was tried there.
        FatalError: The output has a feature that is not kept, a variable of the environment is not set, or the library of the sink is not
            installed.
    """
    if pipeline.sink.kind != "delta":
        return None
    known = evidence.of(ledger, pipeline) if ledger else evidence.nothing
    problem: str | None = _module(pipeline, "tideline.outside.delta_probe").of_pipeline(pipeline, known)
    return problem


def upkeep(pipeline: Pipeline, ledger: Ledger) -> list[str]:
    """Delete what outside sinks leave behind, and keep their output fast to read. Return one line for each thing done.

    Raises:
        RetryableError: The sink did not answer.
        NeedsOperatorError: The output must exist and does not.
        FatalError: A variable of the environment is not set, or the library of the sink is not installed.
    """
    if pipeline.sink.kind != "delta":
        return []
    known = evidence.of(ledger, pipeline)
    done: list[str] = _module(pipeline, "tideline.outside.delta_upkeep").upkeep(pipeline, known)
    return done


def found_otherwise(pipeline: Pipeline, ranges: Sequence[Published]) -> Mapping[Published, int]:
    """Return the published ranges of which the output holds another number of records, with that number. Only of a Delta table.

    Raises:
        RetryableError: The sink did not answer.
        FatalError: A variable of the environment is not set, or the library of the sink is not installed.
    """
    found: Mapping[Published, int] = _module(pipeline, "tideline.outside.delta_rows").found_otherwise(pipeline, ranges)
    return found


def deleted(pipeline: Pipeline, batches: Sequence[Sent]) -> Mapping[Sent, str]:
    """Return the batches of which records are not in the output any more, with what shows it. Only of a topic.

    Raises:
        RetryableError: The sink did not answer.
        FatalError: The declaration, a password or a permission is wrong.
    """
    found: Mapping[Sent, str] = _module(pipeline, "tideline.outside.kafka_rows").deleted(pipeline, batches)
    return found


def columns(pipeline: Pipeline) -> list[tuple[str, str]]:
    """Return names and types of the output's columns; nothing where the sink keeps none, as a topic does.

    Raises:
        RetryableError: The sink did not answer.
        FatalError: A variable of the environment is not set, or the library of the sink is not installed.
    """
    if pipeline.sink.kind != "delta":
        return []
    found: list[tuple[str, str]] = _module(pipeline, "tideline.outside.delta_columns").of_pipeline(pipeline)
    return found


def recreate(pipeline: Pipeline) -> bool:
    """Create the Delta table of a pipeline, empty, where none is. Return whether none was.

    Raises:
        RetryableError: The storage did not answer. Calling it again is harmless.
        FatalError: A variable of the environment is not set, or the library of the sink is not installed.
    """
    return bool(_module(pipeline, _MODULES["delta"]).sink(pipeline).recreate())
