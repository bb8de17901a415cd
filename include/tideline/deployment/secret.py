"""Generated passwords, each in a file that only its owner can read. This module never prints or logs them."""

import os
import secrets
from pathlib import Path

# Not as it is written: otherwise this file and its copies would hold what searches look for.
MARK = "NEVERSHOWTHIS".capitalize()
"""The word at both ends of each generated secret, so that one in a log, a table or a process list is recognised, also if it was cut."""


def keep(file: Path, *, size: int = 32) -> str:
    """Return the secret in `file`; create it from `size` random bytes on first use. It has letters and digits only, so a URL needs no quoting."""
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        write(file, marked(secrets.token_hex(size)))
    return file.read_text()


def marked(text: str) -> str:
    """Return the text as a secret that searches recognise."""
    return f"{MARK}{text}{MARK}"


def write(file: Path, text: str) -> None:
    """Replace `file` (mode 0600) by `text` atomically: neither a reader nor a crash can see a part of it."""
    draft = file.with_name(file.name + ".new")
    draft.unlink(missing_ok=True)
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as out:
        out.write(text)
    draft.replace(file)
