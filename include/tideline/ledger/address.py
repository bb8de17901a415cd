"""Check the address of the ledger without quoting it: libpq quotes what it cannot parse, and that may be a part of the password.

Never connects. libpq may also accept a URI whose password is not escaped, and take a part of the password for the host
or the database. Later messages about that host or database would then show the password. So each part must look like
what it should be.
"""

import re

import psycopg2
from psycopg2.extensions import parse_dsn

_SCHEME = re.compile(r"postgres(?:ql)?://")
_PERCENT = re.compile(r"%(?![0-9A-Fa-f]{2})")
_HOST = r"(?:[A-Za-z0-9._-]*|\[[0-9A-Fa-f:.%]+\]|(?:%[0-9A-Fa-f]{2}|[A-Za-z0-9._-])*)"
_HOSTS = re.compile(rf"{_HOST}(?::[0-9]*)?(?:,{_HOST}(?::[0-9]*)?)*")
_LAST_PORT = 65535
_ESCAPED = "in user, password and database write %25 for %, %40 for @ and %2F for /"


def fault(address: str) -> str | None:
    """Return what is wrong with a libpq URI, or with a list of keywords and values; None if it is valid.

    Never quotes the address.
    """
    try:
        address.encode("utf-8")
    except UnicodeEncodeError:
        return "it holds bytes that are no UTF-8"
    if re.search(r"[\x00-\x1f\x7f]", address):
        return "it holds a line break or another control character"
    scheme = _SCHEME.match(address)
    if scheme and (found := _uri_fault(address[scheme.end() :])):
        return f"{found}; {_ESCAPED}"
    if not scheme and "://" in address.partition("=")[0]:
        return "it does not begin with postgresql://"
    try:
        parsed = parse_dsn(address)
    except (psycopg2.Error, ValueError, UnicodeError):
        return "its options after ? are not those of libpq" if scheme else "it is not a libpq URI: postgresql://..."
    return _port_fault(str(parsed.get("port") or ""))


def place(address: str) -> tuple[str, str, str]:
    """Return host, port and database of a valid address, as far as it names them, with libpq's defaults for the others. Never the password."""
    parsed = parse_dsn(address)
    hosts, ports = (str(parsed.get(name) or "").split(",")[0] for name in ("host", "port"))
    database = str(parsed.get("dbname") or parsed.get("user") or "")
    return hosts or "localhost", ports or "5432", database


def _uri_fault(rest: str) -> str | None:
    if _PERCENT.search(rest):
        return "it holds a % that is not followed by two hexadecimal digits"
    # As libpq reads it: user and password end at the first @, unless there is a / before it.
    login, _, behind = rest.rpartition("@")
    if "@" in login or "/" in login:
        return "it holds an @ or a / too many"
    hosts, path = re.fullmatch(r"([^/?]*)([^?]*).*", behind, re.DOTALL).groups()  # type: ignore[union-attr]  # it matches any text
    if path.count("/") > 1:
        return "it holds a / too many"
    return None if _HOSTS.fullmatch(hosts) else "its host or port is not valid"


def _port_fault(ports: str) -> str | None:
    for port in filter(None, ports.split(",")):
        if not (port.isascii() and port.isdigit() and 0 < int(port) <= _LAST_PORT):
            return "its port is not a number from 1 to 65535"
    return None
