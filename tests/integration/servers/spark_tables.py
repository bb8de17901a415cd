"""Spark's own Delta, in a process of its own: another program that reads and changes the tables of loads.

python spark_tables.py: reads one statement a line from stdin, as JSON, and answers each with a line of JSON: its rows, or its error.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from tideline.settings import PROJECT

DELTA = {
    "spark.jars": ",".join(map(str, sorted((PROJECT / ".local" / "jars" / "delta").glob("*.jar")))),
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.databricks.delta.snapshotPartitions": "1",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}
_ANSWER = "answer "


class SparkTables:
    """A session of Spark that carries out statements."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def sql(self, statement: str) -> list[dict[str, Any]]:
        """Carry out a statement, and return its rows.

        Raises:
            ValueError: Spark has refused it.
        """
        requests, answers = self._process.stdin, self._process.stdout
        if requests is None or answers is None:
            raise RuntimeError("no pipes")
        requests.write(json.dumps(statement) + "\n")
        requests.flush()
        for line in answers:
            if line.startswith(_ANSWER):
                answer = json.loads(line.removeprefix(_ANSWER), parse_float=Decimal)
                if "error" in answer:
                    raise ValueError(answer["error"])
                return [json.loads(row, parse_float=Decimal) for row in answer["rows"]]
        raise RuntimeError(f"Spark has ended: {self._process.wait()}")

    def rows(self, path: str | Path, columns: str = "*") -> list[dict[str, Any]]:
        """Return the rows of a table, as Spark reads them."""
        return self.sql(f"SELECT {columns} FROM delta.`{path}`")


@contextmanager
def running(folder: Path) -> Iterator[SparkTables]:
    """Start Spark, and end it afterwards. It works in this folder."""
    with (
        (folder / "spark.log").open("w") as log,
        subprocess.Popen(
            [sys.executable, str(Path(__file__))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            cwd=folder,
        ) as process,
    ):
        yield SparkTables(process)  # the end of its input ends it


def _serve() -> None:
    session = SparkSession.builder.master("local[1]").config(map=DELTA).getOrCreate()
    for line in sys.stdin:
        try:
            answer: dict[str, Any] = {"rows": session.sql(json.loads(line)).toJSON().collect()}
        except Exception as error:  # noqa: BLE001 - the caller decides
            answer = {"error": str(error)}
        print(_ANSWER + json.dumps(answer), flush=True)


if __name__ == "__main__":
    _serve()
