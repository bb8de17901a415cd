"""Find schemas in the ledger first, and in the registry what the ledger has not. What is found is kept before it is used.

Law: an id means one schema for ever. The ledger's word is what batches were read with, so it counts; a registry that has since been
emptied, or is down, changes nothing. One that gives the id to another schema stops the load, because no record says which of the
two it was written with.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from tideline.declaration.pipelines import Pipeline
from tideline.declaration.registry import RegistryAccess
from tideline.domain.schemas import NoSchemas, Part, Schema, Schemas
from tideline.errors import FatalError, RetryableError
from tideline.ledger import schemas
from tideline.ledger.connection import Ledger
from tideline.registry.client import RegistryClient

_compared: set[tuple[str, str, str, int]] = set()
"""Which ids this process has compared with their registry: ledger, pipeline, name of the registry, and id."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class KeptSchemas:
    """The schemas that an attempt uses. It travels to the executors."""

    access: RegistryAccess
    ledger_url: str
    attempt: UUID

    def find(self, part: Part, schema_ids: Sequence[int]) -> Mapping[int, Schema]:
        """Return the schemas of these ids, which the ledger keeps from now on. Those that no registry has are missing.

        Raises:
            RetryableError: The ledger or the registry does not answer.
            FatalError: The registry refuses the login, is none, or gives an id to another schema than it had.
        """
        with Ledger(self.ledger_url, actor="spark task") as ledger:
            known = schemas.use_schemas(ledger, self.attempt, part, self.access.name, schema_ids)
            # One that was compared is asked for again if the ledger has lost it, as after a restore: else its records would be rejects.
            open_ = [one for one in schema_ids if one not in known or self._key(one) not in _compared]
            fetched = self._fetched(open_, known)
            if new := {one: schema for one, schema in fetched.items() if one not in known}:
                schemas.keep_schemas(ledger, self.attempt, self.access.name, new)
                known |= schemas.use_schemas(ledger, self.attempt, part, self.access.name, [*new])
        for schema_id, schema in fetched.items():
            self._compare(schema_id, known[schema_id], schema)
        _compared.update(map(self._key, fetched))
        return known

    def _key(self, schema_id: int) -> tuple[str, str, str, int]:
        return self.ledger_url, self.access.pipeline, self.access.name, schema_id

    def _fetched(self, schema_ids: Sequence[int], known: Mapping[int, Schema]) -> dict[int, Schema]:
        """Return what the registry has of these ids. If it does not answer, the ids that the ledger knows need none."""
        found: dict[int, Schema] = {}
        if not schema_ids:
            return found
        with RegistryClient(self.access) as client:
            for schema_id in sorted(schema_ids, key=lambda one: one in known):  # first those that are not known
                try:
                    schema = client.schema(schema_id)
                except (RetryableError, FatalError):
                    if schema_id in known:
                        break
                    raise
                if schema is not None:
                    found[schema_id] = schema
        return found

    def _compare(self, schema_id: int, kept: Schema, given: Schema) -> None:
        if _meaning(kept) != _meaning(given):
            raise FatalError(
                f"pipeline {self.access.pipeline}, schema id {schema_id}: registry {self.access.name} now gives another schema "
                "than the one that records of this pipeline were read with; it was emptied, or another one has taken its place",
                next_step="restore the registry; or, if all records from here on are of the new one, declare another source.registry.name",
                entry="schema-registry",
            )


def of_attempt(pipeline: Pipeline, ledger_url: str, attempt: UUID) -> Schemas:
    """Return where the schemas of an attempt are found: in the ledger and the registry that the pipeline names, or nowhere.

    Raises:
        FatalError: A variable of `source.registry` is not set, or holds no addresses.
    """
    registry = pipeline.source.registry
    if registry is None:
        return NoSchemas()
    return KeptSchemas(access=registry.access(pipeline.name), ledger_url=ledger_url, attempt=attempt)


def _meaning(schema: Schema) -> Any:
    """Return what of a schema says how bytes are read. Registries differ in blanks, and some change them when they are moved."""
    return schema.kind, [_parsed(text) for text in (schema.text, *(one.text for one in schema.references))]


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:  # Protobuf
        return " ".join(text.split())
