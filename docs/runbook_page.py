"""Write the runbook as the page serves it, include/tideline/web/static/runbook.html, from docs/runbook.md.

Run it: .local/env/bin/python docs/runbook_page.py
"""  # noqa: INP001 - a script beside its source, not a package

import re
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token

SOURCE = Path(__file__).with_name("runbook.md")
PAGE = SOURCE.parents[1] / "include" / "tideline" / "web" / "static" / "runbook.html"
_HEAD = """<!doctype html>
<html lang="en">
<head>
  <meta charset="utf-8">
  <meta name="viewport" content="width=device-width, initial-scale=1">
  <title>When something is refused · Tideline</title>
  <script src="theme.js"></script>
  <link rel="stylesheet" href="page.css">
</head>
<body>
<main id="content" class="runbook">
"""


def _anchor(title: str) -> str:
    """Return the anchor of a heading, as errors name it."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def _kept(tokens: list[Token]) -> None:
    """Give headings their anchors, and keep only links within the page: the other documents are not served."""
    for token, after in zip(tokens, [*tokens[1:], None], strict=True):
        if token.type == "heading_open" and after is not None:
            token.attrSet("id", _anchor(after.content))
        opened: list[bool] = []
        children = []
        for child in token.children or []:
            if child.type == "link_open":
                opened.append(str(child.attrGet("href")).startswith("#"))
            if child.type not in {"link_open", "link_close"} or opened[-1]:
                children.append(child)
            if child.type == "link_close":
                opened.pop()
        token.children = children or token.children


def drawn(text: str) -> str:
    """Return the page for the text of the runbook."""
    parser = MarkdownIt("commonmark").enable("table")
    tokens = parser.parse(text)
    _kept(tokens)
    return f"{_HEAD}{parser.renderer.render(tokens, parser.options, {})}</main>\n</body>\n</html>\n"


if __name__ == "__main__":
    PAGE.write_text(drawn(SOURCE.read_text(encoding="utf-8")), encoding="utf-8")
