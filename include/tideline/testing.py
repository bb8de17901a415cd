"""What the tests of a pipeline import: `from tideline.testing import run, trial`.

result = trial(Path(__file__).parent, [b'{"order_id": 1, "amount": "2.50"}', b"no JSON"])
assert result.rows == [{"order_id": 1, "amount": Decimal("2.50")}]
assert [reject.line for reject in result.rejects] == [2]

`run` folds records with the processor of a stateful pipeline, as batches that begin at `cuts`, with the rows of its
reference tables in `tables`:

rows = run(Path(__file__).parent, [{"user_id": "ada", "at": at(0)}, {"user_id": "ada", "at": at(5)}], cuts=[1])
"""

from collections.abc import Iterable
from pathlib import Path

from tideline.authoring import sample
from tideline.authoring.folded_sample import Given, Rows, run
from tideline.authoring.sample import KeyAndValue
from tideline.authoring.trial import Reject, Trial, tried
from tideline.declaration import pipelines

__all__ = ["Reject", "Rows", "Trial", "run", "trial"]


def trial(folder: Path, lines: Iterable[bytes | KeyAndValue | None], *, tables: Given | None = None) -> Trial:
    """Decode and transform records as the Spark job does, and store nothing.

    Args:
        folder: The folder of the pipeline, with `pipeline.yaml`.
        lines: The value of each record, or a tuple of its key and its value. A value of None is a tombstone.
        tables: The rows of each reference table of a processor, as for `run`. Defaults to None: those of the database.

    Raises:
        FatalError: The declaration or the transform is wrong.
        ValueError: `tables` are not those of the processor.
    """
    pipeline = pipelines.load(folder)
    return tried(pipeline, sample.of_values(pipeline, lines), tables)
