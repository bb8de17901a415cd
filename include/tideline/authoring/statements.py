"""Split target.sql into statements, and parse each as Postgres would. A statement that the parser does not know is kept as text."""

import logging
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import sqlglot
from sqlglot import exp
from sqlglot.errors import ParseError, SqlglotError
from sqlglot.tokenizer_core import TokenType

_POSTGRES = sqlglot.Dialect.get_or_raise("postgres")
logging.getLogger("sqlglot").setLevel(logging.ERROR)  # it warns on stderr of each statement that it does not know


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """One statement of a file."""

    text: str
    line: int
    """The line of the file on which it begins, from 1."""
    parsed: exp.Expr | None
    """None if the parser does not know it. It may be valid all the same."""
    fault: str = ""
    """What the parser says of a statement that it does not know."""

    def names(self, name: str) -> bool:
        """Return whether the text of the statement contains a name, as a word."""
        return re.search(rf"(?<![\w$]){re.escape(name)}(?![\w$])", self.text, re.IGNORECASE) is not None


def statements(text: str) -> Iterator[Statement]:
    """Yield the statements of a file, in order."""
    try:
        tokens = _POSTGRES.tokenize(text)
    except SqlglotError as error:
        yield Statement(text=text, line=1, parsed=None, fault=str(error).splitlines()[0])
        return
    first = None
    for token in tokens:
        if token.token_type is TokenType.SEMICOLON:
            if first is not None:
                yield _parsed(text[first.start : token.start], _line(text, first.start))
            first = None
        elif first is None:
            first = token
    if first is not None:
        yield _parsed(text[first.start :], _line(text, first.start))


def trailing_commas(text: str) -> Iterator[int]:
    """Yield the line of each comma before a closing parenthesis. The parser accepts it, and Postgres never does."""
    try:
        tokens = _POSTGRES.tokenize(text)
    except SqlglotError:
        return
    for token, after in pairwise(tokens):
        if (token.token_type, after.token_type) == (TokenType.COMMA, TokenType.R_PAREN):
            yield _line(text, token.start)


def _line(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1


def _parsed(text: str, line: int) -> Statement:
    try:
        parsed = sqlglot.parse_one(text, dialect=_POSTGRES)
    except ParseError as error:
        place = error.errors[0]
        fault = f"line {line + place['line'] - 1}, near {place['highlight']!r}: {place['description']}"
        return Statement(text=text, line=line, parsed=None, fault=fault)
    if isinstance(parsed, exp.Command):
        return Statement(text=text, line=line, parsed=None, fault=f"line {line}: {' '.join(text.split()[:4])} ...")
    return Statement(text=text, line=line, parsed=parsed)
