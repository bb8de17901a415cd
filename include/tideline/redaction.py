"""Keeping secrets out of what other programs say: their words are shown only where they hold no part of one."""

from collections.abc import Iterable

PART = 4
"""Characters of a secret that are a part of it. Fewer stand in any text."""
WITHHELD = "(not shown: it holds a part of a secret)"


def without(text: str, secrets: Iterable[str]) -> str:
    """Return the text, or what says that it is withheld where a part of a secret stands in it."""
    parts = {secret[at : at + PART] for secret in secrets for at in range(len(secret) - PART + 1)}
    return WITHHELD if any(part in text for part in parts) else text
