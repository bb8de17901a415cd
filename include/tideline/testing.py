"""What the tests of a pipeline import: `from tideline.testing import trial`.

result = trial(Path(__file__).parent, [b'{"order_id": 1, "amount": "2.50"}', b"no JSON"])
assert result.rows == [{"order_id": 1, "amount": Decimal("2.50")}]
assert [reject.line for reject in result.rejects] == [2]
"""

from collections.abc import Iterable
from pathlib import Path

from tideline.authoring import sample
from tideline.authoring.trial import Reject, Trial, tried
from tideline.declaration import pipelines

__all__ = ["Reject", "Trial", "trial"]


def trial(folder: Path, lines: Iterable[bytes | None]) -> Trial:
    """Decode and transform records as the Spark job does, and store nothing.

    Args:
        folder: The folder of the pipeline, with `pipeline.yaml`.
        lines: The value of each record; None is a tombstone.

    Raises:
        FatalError: The declaration or the transform is wrong.
    """
    pipeline = pipelines.load(folder)
    return tried(pipeline, sample.of_values(pipeline, lines))
