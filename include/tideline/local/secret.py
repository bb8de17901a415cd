"""Generated passwords, each in a file that only its owner can read. Never printed or logged here."""

import os
import secrets
from pathlib import Path


def keep(file: Path, *, size: int = 32) -> str:
    """The secret in `file`, made of `size` random bytes on first use. It needs no quoting in a URL."""
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        write(file, secrets.token_hex(size))
    return file.read_text()


def write(file: Path, text: str) -> None:
    """Put `text` into `file` (mode 0600) all at once: a reader, or a crash, never meets half of it."""
    draft = file.with_name(file.name + ".new")
    draft.unlink(missing_ok=True)
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as out:
        out.write(text)
    draft.replace(file)
