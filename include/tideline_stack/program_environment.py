"""Builds the environment of the programs that the stack starts: that of the caller, without variables that configure another Airflow or Spark."""

import os
import sys
from pathlib import Path

from tideline_stack.ports import LOOPBACK

BIN = Path(sys.executable).parent
_FOREIGN = ("AIRFLOW_", "SPARK_", "PYSPARK_", "TIDELINE_")


def clean(scratch: Path) -> dict[str, str]:
    """Return an environment in which Spark and Airflow find this project's Python.

    Args:
        scratch: The folder for Spark's temporary files.
    """
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(_FOREIGN)}
    proxied = inherited.get("NO_PROXY") or inherited.get("no_proxy")
    direct = ",".join([*([proxied] if proxied else []), "localhost", LOOPBACK])
    return {
        **inherited,
        # A proxy that a user needs for downloads cannot reach the parts on this machine.
        "NO_PROXY": direct,
        "no_proxy": direct,
        # Spark starts its driver, and without PYSPARK_PYTHON its workers too, with the first python3 on the PATH.
        "PATH": f"{BIN}{os.pathsep}{inherited.get('PATH', os.defpath)}",
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": LOOPBACK,
        "SPARK_LOCAL_DIRS": str(scratch),
    }
