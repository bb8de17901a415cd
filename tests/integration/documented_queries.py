"""The queries and the code that stand in the docs, to be executed as they stand there."""

import re

from tideline.settings import PROJECT


def snippets(page: str, language: str) -> list[str]:
    """Return each piece of code in a page of docs."""
    text = (PROJECT / "docs" / page).read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


def queries(page: str) -> list[str]:
    """Return each query of a page of docs."""
    return snippets(page, "sql")


def the_query(page: str, words: str) -> str:
    """Return the only query of a page with these words in it."""
    [text] = [text for text in queries(page) if words in text]
    return text
