"""What a schema registry knows of an id that records carry."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

Part = Literal["key", "value"]
"""The part of a record that a schema describes."""


@dataclass(frozen=True, slots=True)
class Reference:
    """A schema that another one names."""

    name: str
    """What the other one calls it: the name of a type in Avro, the path of an import in Protobuf."""
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Schema:
    """A schema as its registry gives it. An id never means another one."""

    kind: str
    """AVRO, JSON or PROTOBUF."""
    text: str
    references: tuple[Reference, ...] = ()
    """The schemas that the text names, each behind those that it names itself."""
    subjects: tuple[str, ...] = field(default=(), compare=False)
    """Under which names it was registered, when it was asked for; empty if the registry does not say."""


class Schemas(Protocol):
    """Finds the schemas that records name by an id. It travels to the executors, so it can be pickled."""

    def find(self, part: Part, schema_ids: Sequence[int]) -> Mapping[int, Schema]:
        """Return the schemas of these ids; those that no registry has are missing in it.

        Raises:
            RetryableError: The registry does not answer.
            FatalError: It answers what no registry answers, refuses the login, or gives another schema for an id than before.
        """


class NoSchemas:
    """Knows no schema: for pipelines that name no registry."""

    def find(self, part: Part, schema_ids: Sequence[int]) -> Mapping[int, Schema]:  # noqa: ARG002 - the signature of all
        """Return nothing."""
        return {}
