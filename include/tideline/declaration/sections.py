"""The base class of all sections of a declaration, values from the environment, and the simple types of keys."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

ENV = "{env: NAME} with NAME in capitals"


class Section(BaseModel):
    """A mapping in which unknown keys and values of a wrong type are mistakes.

    A key's `title` is its purpose, which editors show. Its `description` is the expected value: messages about mistakes
    have it after "expected".
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class FromEnvironment(Section):
    """`{env: NAME}`: a value from the environment. It is looked up only when it is used, so a declaration can be read without it."""

    env: Annotated[str, Field(pattern=r"^[A-Z_][A-Z0-9_]*$")] = Field(
        title="The environment variable that holds the value", description="a name in capitals"
    )


Name = Annotated[str, Field(pattern=r"^[a-z_][a-z0-9_]{0,62}$")]
Text = Annotated[str, Field(min_length=1)]
AboveZero = Annotated[int, Field(gt=0)]
ZeroOrAbove = Annotated[int, Field(ge=0)]
