"""Records some of which are rejected until the transform is corrected."""

from collections.abc import Iterable, Mapping

import records
from loading import Loading
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


def faulty(faults: Mapping[str, str] | None = None, left_out: Iterable[str] = ()) -> str:
    return FAULTY.format(faults=faults or {}, left_out=list(left_out))


def loaded_with_rejects(loading: Loading) -> str:
    """Load thirty records in one partition as the batches 1 and 2 of fifteen offsets; the offsets 3, 5, 7, 20 and 25 were rejected."""
    name = records.create(loading.bootstrap)
    records.produce(loading.bootstrap, name, [records.record(n) if n != 7 else b"{bad" for n in range(30)])
    loading.declare(name, batch_records=15, transform=faulty({"n3": "one", "n5": "two", "n20": "one", "n25": "two"}))
    assert loading.run() == [1, 2]
    assert set(loading.rejects()) == {(0, 3), (0, 5), (0, 7), (0, 20), (0, 25)}
    return name
