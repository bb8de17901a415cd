"""Transform of events of offers: keeps the conversions."""

import pyarrow as pa
import pyarrow.compute as pc


def records(batch: pa.Table) -> pa.Table:
    """Record by record: leave out what is no conversion."""
    kept = batch.filter(pc.equal(pc.fill_null(batch["kind"], ""), "conversion")).drop_columns("kind")
    return kept.rename_columns({"happened_at": "converted_at"})
