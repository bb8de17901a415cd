"""Where this deployment's parts are, from the environment. The only module that reads it."""

import getpass
import os
import re
import socket
from pathlib import Path

from tideline.errors import FatalError

_WEB_ADDRESS = re.compile(r"https?://([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?(/[^\s@?#]*)?")

PROJECT = Path(__file__).resolve().parents[2]


def required(name: str, why: str) -> str:
    """The value of environment variable `name`.

    Raises:
        FatalError: It is not set, empty, or no text.
    """
    value = os.environ.get(name, "")
    if any("\ud800" <= character <= "\udfff" for character in value):  # what is no UTF-8, as Python reads it
        raise FatalError(
            f"environment variable {name} holds bytes that are no UTF-8; it holds {why}",
            next_step=f"set {name} anew and run again; what it holds is not shown",
            entry="environment",
        )
    if not value:
        raise FatalError(
            f"environment variable {name} is not set; it holds {why}",
            next_step=f"set {name} and run again",
            entry="environment",
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


def actor() -> str:
    """Who acts at the command line, as it stands in the history. Defaults to the user and the machine."""
    given = os.environ.get("TIDELINE_ACTOR")
    if given:
        return given
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # in a container the user may have a number and no name
        user = f"uid {os.getuid()}"
    return f"cli {user}@{socket.gethostname()}"


def airflow() -> tuple[str, str, str] | None:
    """Where people's commands start DAG runs: address, user and password; None where nothing is configured.

    Raises:
        FatalError: Only some of it is configured, or the address is none.
    """
    if not os.environ.get("TIDELINE_AIRFLOW_URL"):
        return None
    url = required("TIDELINE_AIRFLOW_URL", "the address of Airflow")
    if not _WEB_ADDRESS.fullmatch(url):  # it is shown to people, and a password may be in it
        raise FatalError(
            "environment variable TIDELINE_AIRFLOW_URL: expected http(s)://host[:port][/path] without user and password, found something else",
            next_step="correct it; what it holds is not shown. User and password have variables of their own",
            entry="environment",
        )
    return (
        url,
        required("TIDELINE_AIRFLOW_USERNAME", "the user in whose name Airflow is asked"),
        required("TIDELINE_AIRFLOW_PASSWORD", "that user's password"),
    )
