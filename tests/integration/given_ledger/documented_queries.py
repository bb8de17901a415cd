"""The queries and the code that stand in the docs, to be executed as they stand there."""

import re

from tideline.settings import PROJECT


def snippets(page: str, language: str) -> list[str]:
    """Return each piece of code in a page of docs."""
    return _snippets((PROJECT / "docs" / page).read_text(encoding="utf-8"), language)


def _snippets(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


def queries(page: str, section: str = "") -> list[str]:
    """Return each query of a page of docs, or of one of its sections."""
    text = (PROJECT / "docs" / page).read_text(encoding="utf-8")
    [inside] = re.findall(rf"^## {section}\n(.*?)(?=^## |\Z)", text, re.DOTALL | re.MULTILINE) if section else [text]
    return _snippets(inside, "sql")


def the_query(page: str, words: str) -> str:
    """Return the only query of a page with these words in it."""
    [text] = [text for text in queries(page) if words in text]
    return text
