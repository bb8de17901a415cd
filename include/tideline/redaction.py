"""Keeps secrets out of the messages of other programs: a message is shown only if it holds no part of a secret."""

from collections.abc import Iterable

PART = 4
"""The length of a part of a secret, in characters. Shorter parts occur in any text."""
WITHHELD = "(not shown: it holds a part of a secret)"


def without(text: str, secrets: Iterable[str]) -> str:
    """Return the text, or `WITHHELD` if the text holds a part of a secret."""
    parts = {secret[at : at + PART] for secret in secrets for at in range(len(secret) - PART + 1)}
    return WITHHELD if any(part in text for part in parts) else text
