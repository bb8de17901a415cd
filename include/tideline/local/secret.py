"""Generated passwords, each in a file that only its owner can read. This module never prints or logs them."""

import os
import secrets
from pathlib import Path


def keep(file: Path, *, size: int = 32) -> str:
    """Return the secret in `file`; create it from `size` random bytes on first use. It is hexadecimal, so a URL needs no quoting."""
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        write(file, secrets.token_hex(size))
    return file.read_text()


def write(file: Path, text: str) -> None:
    """Replace `file` (mode 0600) by `text` atomically: neither a reader nor a crash can see a part of it."""
    draft = file.with_name(file.name + ".new")
    draft.unlink(missing_ok=True)
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as out:
        out.write(text)
    draft.replace(file)
