"""Find the enums and domains that target.sql creates, so that its table can be described without a database."""

import re
from collections.abc import Sequence

from sqlglot import exp

from tideline.authoring import column_types
from tideline.authoring.statements import Statement, statements
from tideline.sinks.postgres.column_types import Column

_NAME = r'(?:[\w$]+\.|"[^"]+"\.)?"?(?P<name>[\w$]+)"?'
_ENUM = re.compile(rf"\s*CREATE\s+TYPE\s+{_NAME}\s+AS\s+ENUM\b", re.IGNORECASE)
_DOMAIN = re.compile(rf"\s*CREATE\s+DOMAIN\s+{_NAME}\s+(?:AS\s+)?(?P<base>.+)", re.IGNORECASE | re.DOTALL)


def created_types(found: Sequence[Statement]) -> dict[str, Column]:
    """Return a column of each type that the statements create, by the name of the type without its schema."""
    types: dict[str, Column] = {}
    for one in found:
        if enum := _ENUM.match(one.text):
            types[enum["name"].lower()] = Column(
                name="value", type_name="enum", precision=None, scale=None, required=False
            )
        elif domain := _DOMAIN.match(one.text):
            # A domain is written as the type of a column is, with its NOT NULL and its checks.
            [column] = statements(f"CREATE TABLE domain (value {domain['base']})")
            definition = column.parsed.find(exp.ColumnDef) if column.parsed else None
            if definition is not None:
                types[domain["name"].lower()] = column_types.described(definition, column.text, types, in_key=False)
    return types
