"""Delta tables for tests: in a local folder or in an object store, with files that were staged by hand."""

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID, uuid4

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable
from deltalake.fs import DeltaStorageHandler
from deltalake.transaction import AddAction
from pyarrow import fs

from identities import batch
from s3_server import Store
from tideline.domain.receipts import Receipt
from tideline.outside import delta_files, delta_log
from tideline.outside.delta_log import Change, Location
from tideline.outside.delta_table import COORDINATES, DeltaOutput

COLUMNS = pa.unify_schemas([COORDINATES, pa.schema([("value", pa.string())])])
TOPIC_ID = str(UUID(int=7))
_SECRET = ("aws_access_key_id", "aws_secret_access_key")


def own(fence: int) -> Receipt:
    """Return the receipt of a new attempt."""
    return Receipt(fence=fence, attempt=uuid4())


@dataclass(frozen=True, slots=True)
class Lake:
    """A place for tables."""

    root: str
    options: dict[str, str]
    """What `sink.storage` has."""

    @property
    def secrets(self) -> dict[str, str]:
        """Return the variables of the environment that `declared` names."""
        return {name.upper(): value for name, value in self.options.items() if name in _SECRET}

    def declared(self, name: str = "lake") -> dict[str, object]:
        """Return keys of the section `sink` for a table."""
        storage = {name: {"env": name.upper()} if name in _SECRET else value for name, value in self.options.items()}
        return {"kind": "delta", "path": f"{self.root}/{name}", **({"storage": storage} if storage else {})}

    def location(self, name: str = "events") -> Location:
        """Return where a table is."""
        return Location(pipeline="events", uri=f"{self.root}/{name}", options=delta_log.safe(self.root, self.options))

    def created(self, name: str = "events") -> "Table":
        """Create a table."""
        output = DeltaOutput(location=self.location(name))
        output.create(COLUMNS)
        return Table(output)


@dataclass(frozen=True, slots=True)
class Table:
    """A table, as its sink and as a reader."""

    output: DeltaOutput

    def staged(self, batch_id: int, fence: int, offsets: Sequence[int]) -> AddAction:
        """Write a file with one row for each offset, and return the action that adds it."""
        rows = pa.table(
            {
                "kafka_topic_id": [TOPIC_ID] * len(offsets),
                "kafka_partition": [0] * len(offsets),
                "kafka_offset": list(offsets),
                "tideline_batch": [batch_id] * len(offsets),
                "value": [f"attempt {fence}"] * len(offsets),
            },
            schema=COLUMNS,
        )
        path = f"{delta_files.folder(batch(batch_id).identity, own(fence))}/{uuid4().hex}.parquet"
        location = self.output.location
        files = fs.PyFileSystem(DeltaStorageHandler(location.uri, dict(location.options)))
        with files.open_output_stream(path) as out:
            pq.write_table(rows, out)
        stats = json.dumps(
            {
                "numRecords": len(offsets),
                "minValues": {"kafka_topic_id": TOPIC_ID, "kafka_partition": 0, "kafka_offset": min(offsets)},
                "maxValues": {"kafka_topic_id": TOPIC_ID, "kafka_partition": 0, "kafka_offset": max(offsets)},
                "nullCount": {},
            }
        )
        return AddAction(path, files.get_file_info(path).size, {}, int(time.time() * 1000), True, stats)

    def commit(self, batch_id: int, attempt: Receipt, offsets: Sequence[int]) -> Receipt:
        """Stage and commit one row for each offset."""
        added: list[Change] = [self.staged(batch_id, attempt.fence, offsets)] if offsets else []
        return self.output.commit(batch(batch_id), attempt, lambda _: added, ranges=str(offsets))

    def rows(self) -> list[tuple[int, int, str]]:
        """Return batch, offset and value of each row."""
        found = self.reopened().to_pyarrow_table()
        columns = ("tideline_batch", "kafka_offset", "value")
        return sorted(zip(*(found.column(name).to_pylist() for name in columns), strict=True))

    def reopened(self) -> DeltaTable:
        """Return the newest version of the table."""
        table = self.output.location.open()
        if table is None:
            raise LookupError(self.output.location.uri)
        return table


def in_folder(folder: Path) -> Lake:
    """Return a lake in a local folder."""
    return Lake(str(folder), {})


def in_store(store: Store) -> Lake:
    """Return a lake in an object store: a new one each time."""
    return Lake(f"s3://{store.bucket}/{uuid4().hex}", store.options)
