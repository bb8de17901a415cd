"""What all sections of a declaration share: strictness, values from the environment, and the small types of their keys."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

ENV = "{env: NAME} with NAME in capitals"


class Section(BaseModel):
    """A mapping in which unknown keys and values of another type are mistakes.

    A key's `title` says what it is for, and an editor shows it. Its `description` is what a mistake says after
    "expected".
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class FromEnvironment(Section):
    """`{env: NAME}`: a value that is looked up when it is needed, so that declarations can be read without it."""

    env: Annotated[str, Field(pattern=r"^[A-Z_][A-Z0-9_]*$")] = Field(
        title="The variable that holds the value", description="a name in capitals"
    )


Name = Annotated[str, Field(pattern=r"^[a-z_][a-z0-9_]{0,62}$")]
Text = Annotated[str, Field(min_length=1)]
AboveZero = Annotated[int, Field(gt=0)]
ZeroOrAbove = Annotated[int, Field(ge=0)]
