"""Processes that Spark starts import PySpark from its unpacked files, which Python keeps compiled, and everything else from the usual places."""

import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from tideline.settings import PROJECT
from tideline.spark_jobs.unpacked_pyspark import unpacked

SPARK_HOME = Path(pyspark.__file__).parent


@pytest.mark.parametrize("module", ["write_batches", "worker_daemon"])
def test_no_process_of_a_run_compiles_pyspark_again(module):
    zips = sorted(map(str, (SPARK_HOME / "python" / "lib").glob("*.zip")))
    shown = subprocess.run(
        [
            sys.executable,
            "-c",
            (
                f"import tideline.spark_jobs.{module}, sys\n"
                "print(*(m.__file__ for name, m in sorted(sys.modules.items()) if name.startswith('pyspark')), sep='\\n')\n"
                "print(*sys.path, sep='\\n', file=sys.stderr)"
            ),
        ],
        env=os.environ | {"PYTHONPATH": os.pathsep.join([*zips, str(PROJECT)])},
        capture_output=True,
        text=True,
        check=True,
    )
    assert [file for file in shown.stdout.splitlines() if not file.startswith(f"{SPARK_HOME}/") or ".zip" in file] == []
    assert shown.stderr.splitlines()[1:4] == [*zips, str(PROJECT)]


@pytest.mark.parametrize(
    ("spark_home", "package", "found"),
    [
        pytest.param("site-packages/pyspark", "site-packages/pyspark", "site-packages", id="installed"),
        pytest.param("opt/spark", "opt/spark/python/pyspark", "opt/spark/python", id="downloaded"),
        pytest.param("opt/spark", "opt/pyspark", None, id="only-the-zip-beside-another-pyspark"),
    ],
)
def test_only_the_files_of_the_same_spark_are_taken(tmp_path, spark_home, package, found):
    (tmp_path / package).mkdir(parents=True)
    (tmp_path / package / "__init__.py").touch()
    path = ["", f"{tmp_path / spark_home}/python/lib/pyspark.zip", "/somewhere/else"]
    assert unpacked(path) == (found and tmp_path / found)


def test_without_a_zip_nothing_is_preferred():
    assert unpacked(["", "/usr/lib/python3", "relative"]) is None
