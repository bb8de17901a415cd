"""Looks secrets up in Airflow's secrets backends, and keeps all secrets that are used out of Airflow's logs.

A secret is a Variable of Airflow. Airflow looks for it in the configured backend, in `AIRFLOW_VAR_<NAME>`, and in its database.
"""

import re
import threading
import time
from urllib.parse import unquote, urlsplit

from airflow.sdk import Variable
from airflow.sdk.configuration import conf
from airflow.sdk.log import mask_secret

from tideline import environment

_KEPT_SECONDS = 60.0
"""How long an answer is kept. The web server needs some for each page, and a request without a login must not make requests to a vault at will."""
_PASSWORD = re.compile(r"(?:^|\s)password\s*=\s*(?:'((?:[^'\\]|\\.)*)'|(\S+))")
"""In a list of keywords and values, which libpq takes in place of a URI."""
_BACKENDS = (("secrets", "backend"), ("workers", "secrets_backend"))
"""The sections and keys of Airflow's configuration that name one."""

_found: dict[str, tuple[float, str | None]] = {}
_masked: set[str] = set()
_lock = threading.Lock()


def use() -> None:
    """Do this from here to the end of the process. Needed once in each process of Airflow that uses secrets; again, it changes nothing."""
    environment.use_airflow(_find, _mask, may_be_down=_is_remote())


def _is_remote() -> bool:
    """Return whether a backend is configured. One that does not answer looks like one that does not have the secret."""
    return any(conf.get(section, key, fallback="") for section, key in _BACKENDS)


def _find(name: str) -> str | None:
    """Return a Variable; None if Airflow has none of this name."""
    with _lock:
        at, value = _found.get(name, (None, None))
        if at is None or time.monotonic() - at > _KEPT_SECONDS:
            found = Variable.get(name, default=None)
            value = None if found is None else str(found)  # a file of YAML may hold a number
            _found[name] = time.monotonic(), value
        return value


def _mask(value: str) -> None:
    with _lock:
        for part in _parts(value) - _masked:
            mask_secret(part)
            _masked.add(part)


def _parts(value: str) -> set[str]:
    """Return the value, and the password in it if it is an address: programs show it alone, with or without its escapes."""
    parts = {value, *(found for match in _PASSWORD.finditer(value) for found in match.groups())}
    try:
        password = urlsplit(value).password or ""
    except ValueError:  # it is no address
        password = ""
    return {part for part in (*parts, password, unquote(password)) if part}
