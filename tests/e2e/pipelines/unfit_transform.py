"""A mistake that no record survives."""

import pyarrow as pa


def records(batch: pa.Table) -> pa.Table:
    if len(batch):
        raise ValueError("no record is good enough")
    return batch
