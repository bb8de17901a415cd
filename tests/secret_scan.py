"""Looks for secrets in files, in databases, in command lines and in the output of programs.

It needs no list of secrets: each one that the local stack or a test makes has a mark (`tideline.deployment.secret`), and each private
key and each token of Airflow begins with one. It looks for the marks as they are, and as encodings leave them.
"""

import base64
import mmap
import os
import stat
import threading
from collections.abc import Iterable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path
from typing import Self

import psutil
import psycopg2
from psycopg2.sql import SQL, Identifier, Literal

from tideline.deployment import secret

KEY = "PRIVATE KEY-----"
TOKEN = "eyJhbGciOiJ"
"""The beginning of a JSON Web Token, as Airflow gives them to its tasks and to people."""
MEANT_TO_HOLD_ONE = {
    "password": "the password of Postgres, of the broker or of Airflow's users; the URL of a ledger for code of a test",
    "passwords.json": "the logins of Airflow's simple auth manager",
    "jwt-secret": "the key of Airflow's own tokens",
    "fernet-key": "the key of Airflow's connections and Variables",
    "server.properties": "the broker's own configuration has the passwords that it accepts",
    "variables.json": "the secrets backend of the tests",
    "*.key": "the key of a certificate",
    "*.both.pem": "the same with the certificate",
    "client.properties": "the login of Kafka's own tools has no other place",
}
"""Names of files, each with the reason. Only their owner may read them."""
LOGGED_ON_PURPOSE = {"scheduler.log": b"] notifying with "}
"""The name of a log, and what is before a secret in a line of it.

The notifier of the tests logs its secret, to show that Airflow masks it in the task's log. With LocalExecutor, Airflow copies each line of a
task's log to the scheduler's output, and masks nothing there.
"""
_SHOWN = 120
"""So many bytes before a secret are shown: they say which program has written it."""
_WITHOUT_TEXT = ("*.index", "*.timeindex", "*.txnindex", "*.snapshot", "*.jar", "*.so", "*.pyc", "*.whl", "*.jsa")
"""Files of the broker that hold numbers only and are large, and programs."""

_WITHOUT_MARK: dict[bytes, None] = {}
"""The forms of the secrets that `look_for` was given."""
_EVERY_S = 0.1 if Path("/proc/self/cmdline").exists() else 0.5
"""Seconds between two looks at the processes. Where the system has no such files, a look takes six times as long."""
_LOOKS_A_SECOND = round(1 / _EVERY_S)

_AT_ONCE = 1 << 16
"""Bytes of a command line that are read at once."""
_TABLES = """
    SELECT table_schema, table_name FROM information_schema.tables
    WHERE table_type = 'BASE TABLE' AND table_schema NOT IN ('information_schema', 'pg_catalog')
    ORDER BY 1, 2
"""
# With OFFSET, a row becomes text once and not once for each form. A search for a text takes a third of the time of LIKE.
_ROWS_WITH_ONE = """
    SELECT {name}, count(*) FROM (SELECT row::text AS text FROM {table} AS row OFFSET 0) AS rows
    WHERE EXISTS (SELECT FROM unnest(%(texts)s) AS form WHERE strpos(text, form) > 0)
"""


def forms(mark: str) -> tuple[bytes, ...]:
    """Return a mark of letters and digits as it is in plain, quoted, escaped or JSON text, and in base64, in hexadecimal and in UTF-16."""
    plain = mark.encode()
    found = [plain, plain.hex().encode(), plain.hex().upper().encode(), mark.encode("utf-16-le")[:-1]]
    for before in range(3):  # where the mark begins within three bytes decides which characters it becomes
        after = (-before - len(plain)) % 3
        encoded = base64.b64encode(b"\0" * before + plain + b"\0" * after)
        found.append(encoded[4 if before else 0 : -4 if after else None])
    return tuple(dict.fromkeys(found))


def look_for(secret_without_mark: str) -> None:
    """Let every search of this process look for one more secret from now on: one whose form leaves no place for a mark."""
    _WITHOUT_MARK.update(dict.fromkeys(forms(secret_without_mark.rstrip("="))))


@dataclass(frozen=True, slots=True)
class Scan:
    """A search for marks, and for what `look_for` was given.

    Args:
        marks: What secrets have in them.
    """

    marks: tuple[str, ...] = (secret.MARK, KEY, TOKEN)
    _forms: tuple[bytes, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_forms", tuple(form for mark in self.marks for form in forms(mark)))

    def finds(self, content: bytes | mmap.mmap) -> bool:
        """Return whether a secret is in it."""
        return any(content.find(form) >= 0 for form in (*self._forms, *_WITHOUT_MARK))

    def files(self, folder: Path) -> Iterator[str]:
        """Yield each file below a folder that holds a secret and is not meant to, or that others than its owner may read; with what is before it."""
        for path in sorted(folder.rglob("*")):
            if path.is_symlink() or not path.is_file() or _fits(path.name, _WITHOUT_TEXT):
                continue
            meant = _fits(path.name, MEANT_TO_HOLD_ONE)
            private = not stat.S_IMODE(path.stat().st_mode) & 0o077
            before = None if meant and private else self._before_one(path)
            if before is not None:
                yield f"file {path.relative_to(folder)}{', which others may read' if meant else ''}: {before!r}"

    def _before_one(self, path: Path) -> str | None:
        """Return the text before the first secret of a file; None if the file holds none."""
        if path.stat().st_size == 0:
            return None
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            on_purpose = LOGGED_ON_PURPOSE.get(path.name)
            for at in self._places(content):
                before = content[max(0, at - _SHOWN) : at]
                if on_purpose is None or on_purpose not in before.rpartition(b"\n")[2]:
                    return before.decode(errors="replace")
        return None

    def _places(self, content: mmap.mmap) -> Iterator[int]:
        """Yield the place of each mark."""
        for form in (*self._forms, *_WITHOUT_MARK):
            at = content.find(form)
            while at >= 0:
                yield at
                at = content.find(form, at + len(form))

    def database(self, url: str) -> Iterator[str]:
        """Yield each table of a database that holds a secret, in any row: rows as text, with JSON, arrays and bytes."""
        texts = [form.decode() for form in (*self._forms, *_WITHOUT_MARK) if b"\0" not in form]
        with (
            closing(psycopg2.connect(url, options="-c lock_timeout=10000")) as connection,
            connection.cursor() as cursor,
        ):
            cursor.execute(_TABLES)
            counts = [
                SQL(_ROWS_WITH_ONE).format(name=Literal(".".join(table)), table=Identifier(*table))
                for table in cursor.fetchall()
            ]
            if counts:
                cursor.execute(SQL(" UNION ALL ").join(counts), {"texts": texts})
                yield from (f"table {table}, {count} rows" for table, count in cursor.fetchall() if count)


class ProcessWatch:
    """Looks at the command lines of all processes of this machine, ten times a second on Linux: one that is shorter-lived may be missed."""

    def __init__(self, scan: Scan) -> None:
        self._scan = scan
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True, name="process watch")
        self.found: dict[str, None] = {}
        self.looks = 0
        self.has_looked = False
        """Whether it looked until it was stopped."""
        self._seen: dict[int, bytes] = {}
        self._changing: set[int] = set()
        """Processes whose command line was another in the last look. It changes when another program takes the place, soon after the start."""

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        newest = 0
        while True:
            is_over = self._over.is_set()
            before, newest = newest, _newest_id()
            # Once a second each process, in between only those that are new: to list all of them takes ten times as long. Numbers begin again
            # at the smallest after the largest.
            looks_at_all = is_over or self.looks % _LOOKS_A_SECOND == 0 or newest < before
            seen = dict(_command_lines(None if looks_at_all else self._changing.union(range(before + 1, newest + 1))))
            for pid, line in seen.items():
                if line != self._seen.get(pid) and self._scan.finds(line):
                    words = line.decode(errors="replace").split("\0")
                    self.found[f"command line of {words[0]}, process {pid}"] = None
            self._changing = {pid for pid, line in seen.items() if line != self._seen.get(pid)}
            self._seen = seen if looks_at_all else self._seen | seen
            self.looks += 1
            if is_over:
                break
            self._over.wait(_EVERY_S)
        self.has_looked = True


def _newest_id() -> int:
    """Return the number that the newest process or thread was given; 0 where the system does not tell it."""
    try:
        return int(_content("/proc/loadavg").split()[-1])
    except OSError:
        return 0


def _command_lines(pids: Iterable[int] | None) -> Iterator[tuple[int, bytes]]:
    """Yield each process, or each of these that there is, with its command line, the words separated by U+0000."""
    if not Path("/proc/self/cmdline").exists():
        for process in psutil.process_iter(["cmdline"]):
            yield process.pid, "\0".join(process.info["cmdline"] or ()).encode(errors="surrogateescape")
        return
    # By plain calls of the system: by objects of paths, ten looks a second would take a tenth of a processor in each suite.
    for pid in (int(name) for name in os.listdir("/proc") if name.isdigit()) if pids is None else pids:  # noqa: PTH208
        with suppress(OSError):  # it has ended meanwhile
            yield pid, _content(f"/proc/{pid}/cmdline")


def _content(path: str) -> bytes:
    file = os.open(path, os.O_RDONLY)
    try:
        parts = []
        while part := os.read(file, _AT_ONCE):
            parts.append(part)
        return b"".join(parts)
    finally:
        os.close(file)


def _fits(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatch(name, pattern) for pattern in patterns)
