"""A record that takes the whole process with it: nothing can set it aside, and every try ends there."""

import os

import pyarrow as pa


def records(batch: pa.Table) -> pa.Table:
    if "poison" in batch["name"].to_pylist():
        os._exit(1)
    return batch
