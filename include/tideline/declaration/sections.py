"""The base class of all sections of a declaration, values that it names, the simple types of keys, and what may be a secret."""

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

ENV = "{env: NAME} with NAME in capitals"

_SECRET_NAME = re.compile(
    r"secret|passw(or)?d|passphrase|token|authorization|(access|account|api|private)[._-]?key", re.IGNORECASE
)
_ADDRESS_WITH_PASSWORD = re.compile(r"://[^/\s@]*:[^/\s@]*@")


def may_be_secret(name: str) -> bool:
    """Return whether the value of a key of this name may be a secret. The id of an Airflow connection is none."""
    return _SECRET_NAME.search(name) is not None and not name.endswith("conn_id")


def has_password(value: str) -> bool:
    """Return whether the text contains an address with a password, such as `https://user:password@host`."""
    return _ADDRESS_WITH_PASSWORD.search(value) is not None


class MistakeBelow(ValueError):  # noqa: N818 - pydantic expects a ValueError; it never leaves the declaration
    """A mistake in a value that pydantic does not look into.

    Args:
        keys: The keys that lead from the validated value to the mistake.
        text: The message.
    """

    def __init__(self, keys: tuple[str | int, ...], text: str) -> None:
        super().__init__(text)
        self.keys = keys


class Section(BaseModel):
    """A mapping in which unknown keys and values of a wrong type are mistakes.

    A key's `title` is its purpose, which editors show. Its `description` is the expected value: messages about mistakes
    have it after "expected".
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class OutputSection(Section):
    """A section `sink` of any kind. What it says here is what most kinds say; a kind with another answer says so itself."""

    @property
    def described(self) -> str:
        """What people call the output, with its format if there is a choice."""
        return self.output

    @property
    def output(self) -> str:
        """What people call the output, for messages."""
        raise NotImplementedError

    @property
    def newest_wins(self) -> bool:
        """Whether the output holds only the newest record of each key."""
        return False

    @property
    def newest_by_offset(self) -> bool:
        """Whether the offset says which record of a key is the newest, and no column does."""
        return False

    @property
    def marks(self) -> str | None:
        """The table that keeps the keys that were deleted, with its schema; None where none is kept."""
        return None

    @property
    def adds_columns(self) -> bool:
        """Whether a batch adds the columns that the output lacks."""
        return False

    @property
    def refuses_replays(self) -> bool:
        """Whether records that are in the output already may not be loaded again."""
        return False


class FromEnvironment(Section):
    """`{env: NAME}`: a value from a variable, a file or Airflow. It is looked up only when it is used, so a declaration can be read without it."""

    env: Annotated[str, Field(pattern=r"^[A-Z_][A-Z0-9_]*$")] = Field(
        title="The environment variable that holds the value", description="a name in capitals"
    )


def variables(value: Any, key: str) -> dict[str, str]:
    """Return the names in each `{env: NAME}` of a section and of those in it, each with its key.

    Args:
        value: The section.
        key: Its own key.
    """
    match value:
        case FromEnvironment():
            return {value.env: key}
        case Section():
            within = {name: getattr(value, name) for name in type(value).model_fields}
        case Mapping():
            within = dict(value)
        case _:
            return {}
    return {name: found for inner, each in within.items() for name, found in variables(each, f"{key}.{inner}").items()}


def _different(names: tuple[str, ...]) -> tuple[str, ...]:
    if len(set(names)) < len(names):
        raise ValueError(f"expected different column names, found {', '.join(names)}")
    return names


Name = Annotated[str, Field(pattern=r"^[a-z_][a-z0-9_]{0,62}$")]
Text = Annotated[str, Field(min_length=1)]
AboveZero = Annotated[int, Field(gt=0)]
ZeroOrAbove = Annotated[int, Field(ge=0)]
CasedName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,62}$")]
"""A column that has the name of a field: deletions have nothing that could rename it. With a capital letter it is quoted in SQL."""
Names = Annotated[tuple[CasedName, ...], Field(strict=False), AfterValidator(_different)]
"""Columns of a table in Postgres, each once."""
Columns = Annotated[tuple[Text, ...], Field(strict=False), AfterValidator(_different)]
"""Columns of an output outside of Postgres, each once."""
Evolve = Annotated[
    Literal["none", "add"],
    Field(
        title="What happens with columns that the table lacks: the load is refused, or the batch that needs them adds them",
        description="none or add",
    ),
]
