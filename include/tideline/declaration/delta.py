"""The section `sink` with `kind: delta`: where the table is, and how to reach it."""

import re
from collections.abc import Mapping
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from tideline.declaration.sections import (
    ENV,
    Columns,
    Evolve,
    FromEnvironment,
    MistakeBelow,
    Name,
    OutputSection,
    Text,
    has_password,
    may_be_secret,
)

_NOT_SAFE = "two writers could overwrite each other's commits"
_DECIDED = {
    "aws_conditional_put": "Tideline sets it",
    "conditional_put": "Tideline sets it",
    "aws_copy_if_not_exists": "commits use conditional PUT",
    "copy_if_not_exists": "commits use conditional PUT",
    "aws_s3_allow_unsafe_rename": _NOT_SAFE,
    "allow_unsafe_rename": _NOT_SAFE,
}
"""Options that a declaration must not set, and why."""


class DeltaSink(OutputSection):
    """A Delta table in a folder or in an object store."""

    kind: Literal["delta"] = Field(title="What the rows are written to", description="one of postgres, kafka, delta")
    path: Annotated[str, Field(pattern=r"^(/|s3://[a-z0-9.-]+/)[^\s?#]+$")] | FromEnvironment = Field(
        title="The table's folder", description=f"an absolute path or s3://bucket/path, or {ENV}"
    )
    storage: Mapping[Text, Text | FromEnvironment] = Field(
        default={},
        title="How to reach the object store: options of the library object_store, such as aws_endpoint_url",
        description=f"names of options in lower case with texts, or {ENV}",
    )
    partition_by: Columns = Field(
        default=(),
        title="The columns that the table is partitioned by",
        description="a list of column names",
    )
    item: Name | None = Field(
        default=None,
        title="The column that distinguishes the rows of one record, where a record can become several rows",
        description="a column name in lower case",
    )
    shared: bool = Field(
        default=False,
        title="Whether other pipelines write this table too; each of them must set this key",
        description="true or false",
    )

    evolve: Evolve = "none"

    @property
    def adds_columns(self) -> bool:
        """See `OutputSection`."""
        return self.evolve == "add"

    @property
    def output(self) -> str:
        """Return what people call the output, for messages."""
        return f"Delta table {self.path if isinstance(self.path, str) else f'of {self.path.env}'}"

    @model_validator(mode="after")
    def _safe(self) -> Self:
        """Refuse secrets in the file, and options that would let two writers overwrite each other's commits."""
        for name, value in self.storage.items():
            if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
                raise MistakeBelow(("storage", name), "expected the name of an option in lower case")
            if name in _DECIDED:
                raise MistakeBelow(("storage", name), f"expected no {name}: {_DECIDED[name]}")
            if isinstance(value, str) and (may_be_secret(name) or has_password(value)):
                raise MistakeBelow(
                    ("storage", name), f"expected {ENV}, found a value that is not shown: it may be a secret"
                )
        return self
