"""The Spark session of the job."""

import sys

import pyarrow as pa


def test_workers_have_loaded_what_tasks_import_before_they_begin(spark):
    def look(batches):
        loaded = [
            {"tideline.sinks.postgres.staging", "adbc_driver_postgresql.dbapi", "pandas"} <= sys.modules.keys()
            for _ in batches
        ]
        yield pa.record_batch({"loaded": loaded})

    workers = spark.range(0, 2, 1, 2).mapInArrow(look, "loaded boolean").collect()
    assert len(workers) >= 2
    assert all(worker.loaded for worker in workers)
