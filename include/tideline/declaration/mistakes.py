"""Word the mistakes of a declaration: each with file, line, key, what is expected and what was found, and no secret."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from tideline import settings
from tideline.declaration import Declaration
from tideline.declaration.registry import Registry
from tideline.declaration.sections import FromEnvironment, may_be_secret
from tideline.declaration.security import Security
from tideline.declaration.sink import KINDS, UNKNOWN_KIND

_NOTHING = object()
_MAY_HOLD_SECRETS = {
    *((section, part) for section in ("source", "sink") for part in ("security", "registry")),
    ("notify", "arguments"),
}


def worded(path: Path, raw: Any, error: ValidationError) -> list[str]:
    """Return one message for each mistake, in order of line. Pydantic reports a value that may have several types once for each type."""
    found: dict[tuple[Any, ...], tuple[int, str]] = {}
    for detail in error.errors(include_url=False):
        keys, line, value = _located(raw, detail)
        where = ".".join(_named(keys)) or "the file"
        found.setdefault(keys, (line, f"{at(path, line)}: {where}: {_text(keys, value, detail)}"))
    return [text for _, text in sorted(found.values())]


def _named(keys: tuple[Any, ...]) -> Iterator[str]:
    """Yield the keys as messages show them. An unknown key in `security` may be a secret, so it is not shown."""
    for number, key in enumerate(keys):
        known = keys[0] == "notify" or key in {
            *Security.model_fields,
            *Registry.model_fields,
            *FromEnvironment.model_fields,
        }
        secret = _is_secret(keys[:number]) and not known
        yield "…" if secret else str(key)


def _is_secret(keys: tuple[Any, ...]) -> bool:
    """Return whether the value of these keys must not be shown."""
    return keys[:2] in _MAY_HOLD_SECRETS or any(may_be_secret(str(key)) for key in keys)


def _located(raw: Any, detail: ErrorDetails) -> tuple[tuple[Any, ...], int, Any]:
    """Return the keys that lead to the mistake, as far as the file has them, the line of the last one, and its value."""
    keys: tuple[Any, ...] = ()
    line = 0
    below = ("kind",) if detail["type"] == UNKNOWN_KIND else getattr(detail.get("ctx", {}).get("error"), "keys", ())
    loc = detail["loc"]
    if loc[:1] == ("sink",):
        loc = ("sink", *loc[2:])  # without the kind, which is no key
    for part in (*loc, *below):  # `loc` may end with the name of a type, if several types are possible
        if not (part in raw if isinstance(raw, dict) else isinstance(raw, list) and isinstance(part, int)):
            break
        line = raw.lc.data.get(part, [line])[0]  # a merged key has no line of its own
        raw = raw[part]
        keys += (part,)
    if detail["type"] == "missing" and len(keys) == len(loc) - 1:
        return loc, line, _NOTHING
    return keys, line, raw


def _text(keys: tuple[Any, ...], found: Any, detail: ErrorDetails) -> str:
    if detail["type"] == "value_error":
        return str(detail["ctx"]["error"])
    if detail["type"] == "invalid_key":
        return f"expected keys that are text, found the key {'…' if _is_secret(keys) else detail['loc'][-1]}"
    section: Any = Declaration
    expected = "a mapping"
    for key in keys:
        if key not in section.model_fields:
            return f"unknown key; known here: {', '.join(section.model_fields)}"
        field = section.model_fields[key]
        expected = field.description or "a mapping"
        if field.description:
            break
        section = KINDS[str((*detail["loc"], "postgres")[1])] if key == "sink" else _section(field.annotation)
    return f"expected {expected}, found {_rendered(keys, found)}"


def _section(annotation: Any) -> Any:
    """Return the section of a key, also of one that may be left out."""
    return next(iter(get_args(annotation)), annotation)


def _rendered(keys: tuple[Any, ...], found: Any) -> str:
    if found is _NOTHING:
        return "nothing"
    if _is_secret(keys):
        return "a value that is not shown: it may be a secret"
    if isinstance(found, dict | list):
        return "a mapping" if isinstance(found, dict) else "a list"
    return json.dumps(found, default=str)


def at(path: Path, line: int) -> str:
    """Return a line of a file as messages name it; lines count from 0."""
    return f"{shown(path)}:{line + 1}"


def shown(path: Path) -> str:
    """Return the path, relative to the checkout if it is inside, as editors and reviewers name it."""
    inside = settings.is_checkout() and path.is_relative_to(settings.PROJECT)
    return str(path.relative_to(settings.PROJECT) if inside else path)
