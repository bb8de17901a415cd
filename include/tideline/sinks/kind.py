"""What Tideline asks of one kind of output, besides writing it: where it is, what is committed there, what is in it, how it is kept.

Each kind answers in `kind.py` of its folder, without Spark, and without a library that may not be installed: a plan and the
command line ask too. The part that writes is `sink.py` of the folder, which only the job needs.
"""

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeVar

from tideline.declaration.brokers import Brokers
from tideline.declaration.pipelines import Pipeline
from tideline.declaration.sections import OutputSection
from tideline.errors import FatalError
from tideline.ledger.connection import Ledger
from tideline.ledger.published_rows import Published, Sent
from tideline.sinks.outside import Memory, OutsideSink

if TYPE_CHECKING:
    import pyarrow as pa

    from tideline.sinks.sink import Sink

Section = TypeVar("Section", bound=OutputSection)

ClusterOf = Callable[[Brokers], str]
"""Asks brokers which cluster they are. Raises RetryableError if they do not answer."""


class Dataset(NamedTuple):
    """An output as OpenLineage's naming conventions have it."""

    namespace: str
    name: str
    columns: Sequence[tuple[str, str]]
    """Names and types; nothing where the kind keeps none, or before the first batch."""


class Kind:
    """One kind of output. What is answered here is what most kinds answer: there is nothing of this."""

    is_outside: ClassVar[bool] = True
    """Whether rows are committed outside of the ledger's database, and the ledger follows."""
    asks_brokers: ClassVar[bool] = False
    """Whether the place of the output is known by its brokers only."""
    recreates: ClassVar[bool] = False
    """Whether `recreate` creates an output anew; others are created by other means."""

    def sink(self, pipeline: Pipeline) -> "Sink":
        """Return the part that writes.

        Raises:
            FatalError: The library of the sink is not installed.
        """
        raise NotImplementedError

    def place(self, pipeline: Pipeline, cluster_of: ClusterOf) -> str:
        """Return where the rows go, in a form that is the same however it is declared.

        Raises:
            FatalError: A variable of the environment is not set.
            RetryableError: The brokers did not answer.
        """
        raise NotImplementedError

    def dataset(self, pipeline: Pipeline, ledger: Ledger) -> Dataset:
        """Return the output in OpenLineage's terms.

        Raises:
            TidelineError: The ledger or the output does not answer, or a variable of the environment is not set.
        """
        raise NotImplementedError

    def misfits(self, pipeline: Pipeline, produced: "pa.Schema") -> Sequence[str] | None:  # noqa: ARG002
        """Return why rows with these columns do not fit, as far as the declaration and its files say; None if they do not say.

        Args:
            pipeline: The declaration.
            produced: What the transform returns.

        Raises:
            FatalError: A file of the declaration is missing or wrong, or a library is not installed.
        """
        return None

    def lacking(self, pipeline: Pipeline, ledger: Ledger, produced: "pa.Schema") -> Sequence[tuple[str, str]]:  # noqa: ARG002
        """Return names and types of the columns that the next batch adds to the output. Nothing as well if there is no output yet.

        Args:
            pipeline: The declaration.
            ledger: A session with the ledger.
            produced: What the transform returns.

        Raises:
            TidelineError: The ledger or the output does not answer, or a variable of the environment is not set.
        """
        return []

    def outside(self, pipeline: Pipeline, ledger: Ledger, *, searching: bool = True) -> OutsideSink | None:  # noqa: ARG002 - see below
        """Return the output as the ledger needs it. None if it is a table in the ledger's database. Connects to nothing.

        When the output does not exist, the ledger is asked whether it must.

        Args:
            pipeline: The declaration.
            ledger: The ledger's session.
            searching: Whether a fence that finds no receipt searches the output, where receipts may be forgotten. Not when a person has looked.

        Raises:
            FatalError: A variable of the environment is not set, or the library of the sink is not installed.
        """
        return None

    def memory(self, pipeline: Pipeline) -> Memory | None:  # noqa: ARG002
        """Return how long the output remembers receipts. None for ever, and for a table in the ledger's database.

        Raises:
            RetryableError: The output did not answer.
            FatalError: There is no such output, or the declaration is wrong.
        """
        return None

    def probe(self, pipeline: Pipeline, ledger: Ledger | None) -> Sequence[str] | None:  # noqa: ARG002
        """Try whether the place of the output can hold exactly once. Return what is wrong; None if nothing can be tried.

        Args:
            pipeline: Whose output it is.
            ledger: Knows whether the output must exist. None if the ledger does not answer.

        Raises:
            RetryableError: The output did not answer.
            NeedsOperatorError: The output must exist and does not. Nothing was tried there.
            FatalError: The output has a feature that is not kept, a variable of the environment is not set, or the library
                of the sink is not installed.
        """
        return None

    def upkeep(self, pipeline: Pipeline, ledger: Ledger) -> list[str]:  # noqa: ARG002
        """Delete what attempts have left behind, and keep the output fast to read. Return one line for each thing done.

        Raises:
            RetryableError: The output did not answer.
            NeedsOperatorError: The output must exist and does not.
            FatalError: A variable of the environment is not set, or the library of the sink is not installed.
        """
        return []

    def found_otherwise(self, pipeline: Pipeline, ranges: Sequence[Published]) -> Mapping[Published, int] | None:  # noqa: ARG002
        """Return the published ranges of which the output holds another number of records, with that number. None if it cannot be counted.

        Raises:
            RetryableError: The output did not answer.
            FatalError: A variable of the environment is not set, or the library of the sink is not installed.
        """
        return None

    def deleted(self, pipeline: Pipeline, batches: Sequence[Sent]) -> Mapping[Sent, str] | None:  # noqa: ARG002
        """Return the batches of which records are not in the output any more, with what shows it. None if nothing shows it.

        Raises:
            RetryableError: The output did not answer.
            FatalError: The declaration, a password or a permission is wrong.
        """
        return None

    def recreate(self, pipeline: Pipeline) -> bool:
        """Create the output, empty, where none is. Return whether none was.

        Raises:
            RetryableError: The output did not answer. Calling it again is harmless.
            FatalError: A variable of the environment is not set, or the library of the sink is not installed.
        """
        raise NotImplementedError


def section(pipeline: Pipeline, kind: type[Section]) -> Section:
    """Return the section `sink` of a pipeline, which is of this kind.

    Raises:
        TypeError: It is of another kind.
    """
    if not isinstance(pipeline.sink, kind):
        raise TypeError(
            f"{pipeline.name}: expected the section {kind.__name__}, found a sink of kind {pipeline.sink.kind}"
        )
    return pipeline.sink


def loaded(pipeline: Pipeline, name: str) -> Any:
    """Return a module of a sink, whose library is large, or may not be installed.

    Raises:
        FatalError: The library is not installed.
    """
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        raise FatalError(
            f"{pipeline.name}: sink.kind is {pipeline.sink.kind}, and the library {error.name} is not installed",
            next_step="install it where Airflow's tasks and Spark's Python run: pip install 'tideline[delta]'",
            entry="environment",
        ) from error
