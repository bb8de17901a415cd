"""Records of which some are rejected until the transform is corrected."""

from tideline.domain.requests import Rejects

ALL = Rejects()
# Raises for records by their name, and leaves others out.
FAULTY = """\
import pyarrow as pa, pyarrow.compute as pc

def records(batch):
    for name in batch["name"].to_pylist():
        if name in {faults!r}:
            raise ValueError({faults!r}[name])
    return batch.filter(pc.invert(pc.is_in(batch["name"], value_set=pa.array({left_out!r}, pa.string()))))
"""


def faulty(faults=None, left_out=()):
    return FAULTY.format(faults=faults or {}, left_out=list(left_out))
