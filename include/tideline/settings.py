"""The settings of this deployment, with their defaults. Besides the local stack, only this module and `environment` read variables."""

import getpass
import os
import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tideline import environment
from tideline.environment import required, secret, secret_or_none
from tideline.errors import FatalError

WEB_ADDRESS = re.compile(r"https?://([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?(/[^\s@?#]*)?")
"""An address that messages may show: it has no place for a user and a password."""

LEDGER_URL = "TIDELINE_LEDGER_URL"
WRITER_URL = "TIDELINE_WRITER_URL"
STAGER_URL = "TIDELINE_STAGER_URL"
READER_URL = "TIDELINE_READER_URL"
_HOLDS = {
    LEDGER_URL: "the libpq URI of the ledger's database",
    WRITER_URL: "the same for the role of Spark drivers",
    STAGER_URL: "the same for the role of Spark executors",
    READER_URL: "the same for the role of the page and of commands that look",
}

PROJECT = Path(__file__).resolve().parents[2]
"""The folder of the checkout. It means nothing where the package is installed from a wheel: see `is_checkout`."""


def is_checkout() -> bool:
    """Return whether this package is used from a checkout, which has pipelines and a local stack of its own."""
    return Path(__file__).resolve().is_relative_to(PROJECT / "include") and (PROJECT / "pyproject.toml").is_file()


def is_configured() -> bool:
    """Return whether any variable of Tideline is set. The local stack then adds none: the shell means another deployment."""
    return any(name.startswith("TIDELINE_") for name in os.environ)


_KEEPS = "that keeps the ledger and the output tables"


def ledger_url(why: str = _KEEPS) -> str:
    """Return the libpq URI of the ledger's database. It may hold a password: never log it, never put it on a command line.

    Args:
        why: What the database is needed for, for the message if the variable is not set.
    """
    return secret(LEDGER_URL, f"the libpq URI of the database {why}")


def url_of(variable: str, why: str = _KEEPS) -> tuple[str, str]:
    """Return the URL of a role for one kind of process, and the variable that holds it: its own one, or else that of all processes.

    Args:
        variable: The variable of the role.
        why: As for `ledger_url`.
    """
    url = secret_or_none(variable, _HOLDS[variable])
    return (url, variable) if url else (ledger_url(why), LEDGER_URL)


def variables_by_duty() -> dict[str, str]:
    """Return which variable holds the URL for each duty: executors have that of their driver, and drivers that of all processes, without another."""
    writer = url_of(WRITER_URL)[1]
    stager = url_of(STAGER_URL)[1]
    return {
        "operator": LEDGER_URL,
        "writer": writer,
        "stager": writer if stager == LEDGER_URL else stager,
        "reader": url_of(READER_URL)[1],
    }


def stager_url() -> str:
    """Return the URL that a Spark driver hands to its executors."""
    return url_of(STAGER_URL)[0]


def secrets_of_driver() -> dict[str, str]:
    """Return the secrets that every Spark driver needs, besides those that its pipeline declares: what each holds, by name."""
    return {name: _HOLDS[name] for name in (LEDGER_URL, STAGER_URL)}


@contextmanager
def as_driver() -> Iterator[None]:
    """Give programs that are started inside the block the environment of a Spark driver: the URL of its own role, and of no other one."""
    url, variable = url_of(WRITER_URL)
    values: dict[str, str | None] = dict.fromkeys(_places(WRITER_URL, READER_URL))
    if variable == WRITER_URL:
        values |= dict.fromkeys(_places(LEDGER_URL)) | {LEDGER_URL: url}
    with environment.changed(values):
        yield


def forget_urls() -> None:
    """Remove the URLs of the ledger from the environment of this process. An executor has the one URL that it needs within its task."""
    for name in _places(*_HOLDS):
        os.environ.pop(name, None)


def _places(*names: str) -> list[str]:
    """Return the variables that hold these secrets, the paths of their files, or what Airflow takes for a Variable of this name."""
    return [place for name in names for place in (name, f"{name}_FILE", f"AIRFLOW_VAR_{name}")]


def pipelines_dir() -> Path:
    """Return the folder that has one folder for each declared pipeline. In a checkout, the default is its `include/pipelines`.

    Raises:
        FatalError: No folder is configured, and this is not a checkout.
    """
    if is_checkout() and not os.environ.get("TIDELINE_PIPELINES"):
        return PROJECT / "include" / "pipelines"
    return Path(required("TIDELINE_PIPELINES", "the folder that has one folder for each pipeline"))


def spark_properties() -> str | None:
    """Return the properties file for Spark drivers (class path, JVM options). With None, Spark uses its own spark-defaults.conf."""
    return os.environ.get("TIDELINE_SPARK_PROPERTIES") or None


def actor() -> str:
    """Return the name that the history stores for acts of the command line. The default is the user and the machine."""
    given = os.environ.get("TIDELINE_ACTOR")
    if given:
        return given
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # in a container a user may have a uid and no name
        user = f"uid {os.getuid()}"
    return f"cli {user}@{socket.gethostname()}"


def metrics_token() -> str | None:
    """Return the token with which `/tideline/metrics` may be read without a login; None if none is configured.

    Raises:
        FatalError: The token is configured twice, or its file cannot be read or is empty.
    """
    return secret_or_none("TIDELINE_METRICS_TOKEN", "the token of /tideline/metrics")


def log_format() -> str:
    """Return the form of log lines: `text`, or `json` for programs that collect them.

    Raises:
        FatalError: Another form is configured.
    """
    found = os.environ.get("TIDELINE_LOG_FORMAT") or "text"
    if found not in ("text", "json"):
        raise FatalError(
            f"environment variable TIDELINE_LOG_FORMAT: expected text or json, found {found!r}",
            next_step="correct it, or remove it",
            entry="environment",
        )
    return found


def airflow() -> tuple[str, str, str] | None:
    """Return the address, user and password with which commands start DAG runs in Airflow; None if no address is configured.

    Raises:
        FatalError: The user or the password is missing, or the address is not valid.
    """
    if not os.environ.get("TIDELINE_AIRFLOW_URL"):
        return None
    url = required("TIDELINE_AIRFLOW_URL", "the address of Airflow")
    if not WEB_ADDRESS.fullmatch(url):  # it is shown in messages, so it must not hold a password
        raise FatalError(
            "environment variable TIDELINE_AIRFLOW_URL: expected http(s)://host[:port][/path] without user and password, found something else",
            next_step="correct it; what it holds is not shown. User and password have variables of their own",
            entry="environment",
        )
    return (
        url,
        required("TIDELINE_AIRFLOW_USERNAME", "the user for requests to Airflow"),
        secret("TIDELINE_AIRFLOW_PASSWORD", "that user's password"),
    )
