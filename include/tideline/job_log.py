"""The lines that the Spark job prints to the log of its task: text for people or, with TIDELINE_LOG_FORMAT=json, one JSON object each.

A JSON line has the keys at, level, logger and message, and pipeline, batch and attempt as far as they are known. A job writes its batches one after
the other, so the lines of all its threads are about the same batch.
"""

import json
import logging
import re
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from tideline import settings

_JOB = "tideline.job"
_ERROR = re.compile(r"^tideline: \w+Error: (.*)", re.DOTALL | re.MULTILINE)
_ALWAYS = {"at", "level", "logger", "message"}
_SOMETIMES = {"pipeline", "batch", "attempt", "exception"}
_about: dict[str, str | int] = {}
_as_json = False


def begin(pipeline: str) -> None:
    """Prepare the log of this process. With JSON, lines of other modules and libraries have the same form, from warnings on.

    Raises:
        FatalError: TIDELINE_LOG_FORMAT is neither text nor json.
    """
    global _as_json  # noqa: PLW0603 - a process has one log
    about(pipeline=pipeline)
    _as_json = settings.log_format() == "json"
    if _as_json:
        handler = logging.StreamHandler(sys.stdout)
        handler.setFormatter(_Formatter())
        logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)


def about(**fields: str | int) -> None:
    """Set what the lines from here on are about: the fields `pipeline`, `batch` and `attempt`."""
    _about.clear()
    _about.update(fields)


def say(message: str, *, level: str = "info") -> None:
    """Print a line. As JSON it stays one line, also if the message has several."""
    if _as_json:
        print(_line(datetime.now(UTC), level, _JOB, message, {}), flush=True)
    else:
        print(message, flush=True)


def say_error(error: Exception) -> None:
    """Print the error that ends the job. `error_in` finds it again."""
    say(f"tideline: {type(error).__name__}: {error}", level="error")


def error_in(output: str) -> str | None:
    """Return the error that has ended a job, by the end of its output in either form; None if it is not there.

    Before it, the message of Airflow's operator has the command and lines of Spark's own log.
    """
    for line in output.splitlines():
        if (fields := fields_of(line)) and (found := _ERROR.match(str(fields["message"]))):
            return found[1]
    of_text = _ERROR.search(output)
    return of_text[1] if of_text else None


def fields_of(line: str) -> dict[str, Any] | None:
    """Return the fields of a JSON line of the job, always those of `_ALWAYS`; None if it is another line, or Airflow has cut it.

    A transform may print what looks like one, so it is checked: Airflow's log must take every field.
    """
    if not line.startswith('{"at":'):
        return None
    try:
        found: dict[str, Any] = json.loads(line)
        datetime.fromisoformat(found["at"])
        known = found["level"].upper() in logging.getLevelNamesMapping()
    except (ValueError, LookupError, TypeError, AttributeError):
        return None
    return found if known and _ALWAYS <= found.keys() <= _ALWAYS | _SOMETIMES else None


class _Formatter(logging.Formatter):
    """Formats a record of the standard library's logging as the job's other lines."""

    def format(self, record: logging.LogRecord) -> str:
        more = {"exception": self.formatException(record.exc_info)} if record.exc_info else {}
        at = datetime.fromtimestamp(record.created, UTC)
        return _line(at, record.levelname.lower(), record.name, record.getMessage(), more)


def _line(at: datetime, level: str, logger: str, message: str, more: Mapping[str, str]) -> str:
    fields = {"at": at.isoformat(), "level": level, "logger": logger, **_about, "message": message, **more}
    return json.dumps(fields)
