"""The table of docs/permissions.md is made of the file that grants are made of."""

from collections.abc import Iterator

from tideline.ledger import rights
from tideline.settings import PROJECT

PAGE = PROJECT / "docs" / "permissions.md"


def table() -> Iterator[str]:
    """Yield the lines of the table: schemas, tables and functions by role."""
    yield f"| | {' | '.join(rights.GRANTED)} |"
    yield "|---" * (1 + len(rights.GRANTED)) + "|"
    every = [
        {(one.kind, one.name): [] for duty in rights.GRANTED for one in rights.rights(duty)} for _ in rights.GRANTED
    ]
    for duty, cells in zip(rights.GRANTED, every, strict=True):
        for one in rights.rights(duty):
            cells[one.kind, one.name].append(one.privilege)
    order = ["SCHEMA", "TABLE", "FUNCTION"]
    objects = [key for key in every[0] if key[0] in order]
    for kind, name in sorted(objects, key=lambda key: (order.index(key[0]), key[1])):
        said = f"`{name}`" if kind == "TABLE" else f"{kind.lower()} `{name}`"
        yield f"| {said} | {' | '.join(', '.join(cells[kind, name]) for cells in every)} |"


def test_the_table_of_the_page_is_that_of_the_grants():
    made = "\n".join(table())
    assert made in PAGE.read_text(encoding="utf-8"), f"docs/permissions.md should have this table:\n{made}"
