"""Read the named statements of SQL files.

The statements of a module lie beside it, those of `attempts.py` in `attempts.sql`. There a line `-- name: claim_batch` begins a
statement, and the comment below it says what the statement does. A name is unique in its package: the name alone finds the statement.
"""

import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files

_NAME = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)


def statement(package: str, name: str) -> str:
    """Return the text of a statement, with its comment.

    Raises:
        KeyError: No SQL file of `package` holds a statement of that name.
    """
    return statements(package)[name]


@cache
def statements(package: str) -> Mapping[str, str]:
    """Return the statements of all SQL files that lie beside the modules of `package`, by name.

    Raises:
        ValueError: Two statements have one name.
    """
    found: dict[str, str] = {}
    for file in files(package).iterdir():
        if file.name.endswith(".sql"):
            _, *parts = _NAME.split(file.read_text(encoding="utf-8"))
            for name, text in zip(parts[::2], parts[1::2], strict=True):
                if name in found:
                    raise ValueError(f"{package} has two statements named {name}")
                found[name] = text.strip()
    return found
