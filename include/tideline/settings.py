"""Where this deployment's parts are, from the environment. The only module that reads it."""

import os
from pathlib import Path

from tideline.errors import FatalError

PROJECT = Path(__file__).resolve().parents[2]


def required(name: str, why: str) -> str:
    """The value of environment variable `name`.

    Raises:
        FatalError: It is not set, or empty.
    """
    value = os.environ.get(name, "")
    if not value:
        raise FatalError(
            f"environment variable {name} is not set; it holds {why}", next_step=f"set {name} and run again"
        )
    return value


def ledger_url() -> str:
    """The ledger's database, as a libpq URI. It may hold a password: never log it, never put it on a command line."""
    return required("TIDELINE_LEDGER_URL", "the libpq URI of the database that keeps the ledger and the output tables")


def pipelines_dir() -> Path:
    """The folder with one folder per declared pipeline. Defaults to the project's `include/pipelines`."""
    return Path(os.environ.get("TIDELINE_PIPELINES") or PROJECT / "include" / "pipelines")


def spark_properties() -> str | None:
    """The properties file with which a Spark driver starts: class path, JVM options. None leaves it to Spark's own spark-defaults.conf."""
    return os.environ.get("TIDELINE_SPARK_PROPERTIES") or None
