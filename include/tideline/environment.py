"""Looks settings up by name: in environment variables, and what may be a secret also in files and in Airflow.

Airflow is asked only in its own processes, and only for what is in neither a variable nor a file.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tideline.errors import FatalError, RetryableError


@dataclass(slots=True)
class _Airflow:
    """What the processes of Airflow add. `tideline.airflow.secrets_backends` sets it, because commands and Spark drivers run without Airflow."""

    find: Callable[[str], str | None] = lambda _name: None
    """Returns the secret of a name from Airflow's secrets backends; None if these have none."""
    mask: Callable[[str], None] = lambda _value: None
    """Keeps a value out of the logs of Airflow."""
    is_used: bool = False
    may_be_down: bool = False


_airflow = _Airflow()


def use_airflow(find: Callable[[str], str | None], mask: Callable[[str], None], *, may_be_down: bool) -> None:
    """Look secrets that are neither in the environment nor in a file up in Airflow, from here to the end of the process.

    Args:
        find: Returns the secret of a name; None if there is none.
        mask: Keeps a value out of the logs of Airflow.
        may_be_down: Whether a secret that is not found may be there later, because a server that keeps it is down.
    """
    _airflow.find, _airflow.mask, _airflow.is_used, _airflow.may_be_down = find, mask, True, may_be_down


def required(name: str, why: str) -> str:
    """Return the value of environment variable `name`.

    Args:
        name: The variable.
        why: What it holds, for the message.

    Raises:
        FatalError: It is not set, is empty, or is not valid UTF-8.
    """
    value = _of_environment(name, why)
    if not value:
        raise FatalError(
            f"environment variable {name} is not set; it holds {why}",
            next_step=f"set {name} and run again",
            entry="environment",
        )
    return value


def secret(name: str, why: str, *, masked: bool = True) -> str:
    """Return a setting that may be a secret: from variable `name`, from the file that variable `name`_FILE names, or else from Airflow.

    The file is read each time, so that a secret can be changed without a restart.

    Args:
        name: The variable, and its name in Airflow.
        why: What it holds, for the message.
        masked: Whether Airflow keeps the value out of its logs. Addresses and user names are not masked: messages name them.

    Raises:
        FatalError: It is nowhere, or it is there twice, or its file cannot be read or is empty.
        RetryableError: It is nowhere, but Airflow's secrets backend may be down: then Airflow finds nothing, and logs why.
    """
    value = secret_or_none(name, why, masked=masked)
    if value is None:
        airflow = f", or add the Variable {name} to Airflow or to its secrets backend," if _airflow.is_used else ""
        kind = RetryableError if _airflow.may_be_down else FatalError
        raise kind(
            f"environment variable {name} is not set; it holds {why}",
            next_step=f"set {name}, or set {name}_FILE to the path of a file that holds it{airflow} and run again",
            entry="environment",
        )
    return value


def secret_or_none(name: str, why: str, *, masked: bool = True) -> str | None:
    """Return what `secret` returns; None if it is nowhere. Raises the other errors of `secret`."""
    value = _given(name, why) or _airflow.find(name)
    if value and masked:
        _airflow.mask(value)
    return value or None


@contextmanager
def handed_to_programs(names: Mapping[str, str]) -> Iterator[None]:
    """Put secrets that only Airflow keeps into the environment of the programs that are started inside the block.

    A program finds those in variables and files by itself. No command line, no argument of an operator and no file holds them.

    Args:
        names: What each variable holds, by name.
    """
    found = {name: _airflow.find(name) for name, why in names.items() if not _given(name, why)}
    kept = {name: value for name, value in found.items() if value}
    for value in kept.values():
        _airflow.mask(value)
    with changed(kept):
        yield


@contextmanager
def changed(values: Mapping[str, str | None]) -> Iterator[None]:
    """Give variables other values inside the block, for the programs that are started there. None removes a variable."""
    before = {name: os.environ.get(name) for name in values}
    _set(values)
    try:
        yield
    finally:
        _set(before)


def _set(values: Mapping[str, str | None]) -> None:
    for name, value in values.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def _given(name: str, why: str) -> str | None:
    """Return a secret from its variable or its file; None if it is in neither."""
    value, path = _of_environment(name, why), os.environ.get(f"{name}_FILE", "")
    if value and path:
        raise FatalError(
            f"environment variables {name} and {name}_FILE are both set",
            next_step="keep one of them",
            entry="environment",
        )
    return _of_file(f"{name}_FILE", path, why) if path else value or None


def _of_environment(name: str, why: str) -> str:
    value = os.environ.get(name, "")
    # Python reads bytes that are not UTF-8 as surrogate characters.
    if any("\ud800" <= character <= "\udfff" for character in value):
        raise FatalError(
            f"environment variable {name} holds bytes that are no UTF-8; it holds {why}",
            next_step=f"correct {name} and run again; what it holds is not shown",
            entry="environment",
        )
    return value


def _of_file(name: str, path: str, why: str) -> str:
    """Return the text of a file, without its last line break. Editors and `echo` add one, which is no part of a password."""
    try:
        value = Path(path).read_text(encoding="utf-8").rstrip("\r\n")
    except (OSError, ValueError) as error:  # not chained: the path is not shown, for it may be the secret itself
        value, found = "", type(error).__name__
    else:
        found = "an empty file"
    if not value.strip():
        raise FatalError(
            f"environment variable {name}: expected the path of a file that holds {why}, found {found}",
            next_step="correct the path, or write the secret to the file; its process has to be able to read it",
            entry="environment",
        )
    return value
