"""Replace names of modules for the duration of a context."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any


@contextmanager
def replaced(replacements: Mapping[tuple[object, str], Any]) -> Iterator[None]:
    """Replace these names of modules and classes, and put back what was there before."""
    before = {(module, name): getattr(module, name) for module, name in replacements}
    try:
        for (module, name), replacement in replacements.items():
            setattr(module, name, replacement)
        yield
    finally:
        for (module, name), replacement in before.items():
            setattr(module, name, replacement)
