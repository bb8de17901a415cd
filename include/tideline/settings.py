"""Where this deployment's parts are, from the environment. The only module that reads it."""

import os
from dataclasses import dataclass
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
        raise FatalError(f"environment variable {name} is not set; it holds {why}", next_step=f"set {name} and run again")
    return value


def ledger_url() -> str:
    """The ledger's database, as a libpq URI. It may hold a password: never log it, never put it on a command line."""
    return required("TIDELINE_LEDGER_URL", "the libpq URI of the database that keeps the ledger and the output tables")


def pipelines_dir() -> Path:
    """The folder with one folder per declared pipeline. Defaults to the project's `include/pipelines`."""
    return Path(os.environ.get("TIDELINE_PIPELINES") or PROJECT / "include" / "pipelines")


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkSettings:
    """How a driver JVM is started on this machine."""

    jars: tuple[str, ...]
    """The connector jars, sorted: a class-data archive only fits the class path that it was dumped with."""
    archive: str | None
    """A class-data archive that cuts JVM start-up by about half, where set-up made one."""


def spark() -> SparkSettings:
    """The Spark settings of this machine."""
    folder = Path(os.environ.get("TIDELINE_SPARK_JARS") or PROJECT / ".local" / "jars" / "spark")
    archive = Path(os.environ.get("TIDELINE_SPARK_ARCHIVE") or PROJECT / ".local" / "spark.jsa")
    return SparkSettings(
        jars=tuple(sorted(str(jar) for jar in folder.glob("*.jar"))),
        archive=str(archive) if archive.exists() else None,
    )
