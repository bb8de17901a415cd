"""Find the schemas of a sample: in the file schemas.json of the pipeline's folder, and in the registry what the file has not.

So a test of a pipeline needs no registry, and gives the same rows each time.
"""

import json
from collections.abc import Mapping, Sequence

from tideline.declaration.mistakes import shown
from tideline.declaration.pipelines import Pipeline
from tideline.declaration.registry import RegistryAccess
from tideline.domain.schemas import Part, Reference, Schema
from tideline.errors import FatalError
from tideline.registry.client import RegistryClient

FILE = "schemas.json"


class AskedSchemas:
    """The schemas of a registry, each of which is asked for once.

    Args:
        access: The registry.
    """

    def __init__(self, access: RegistryAccess) -> None:
        self._access = access
        self._found: dict[int, Schema] = {}

    def find(self, part: Part, schema_ids: Sequence[int]) -> Mapping[int, Schema]:  # noqa: ARG002 - the signature of all
        """Return the schemas of these ids; those that the registry has not are missing in it.

        Raises:
            RetryableError: The registry does not answer.
            FatalError: It refuses the login, or is none.
        """
        with RegistryClient(self._access) as client:
            for schema_id in schema_ids:
                if schema_id not in self._found and (schema := client.schema(schema_id)) is not None:
                    self._found[schema_id] = schema
        return {schema_id: self._found[schema_id] for schema_id in schema_ids if schema_id in self._found}


class SampleSchemas:
    """The schemas that the records of a sample name.

    Args:
        pipeline: The pipeline. A variable of its registry is looked up only if the registry is asked.
    """

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline

    def find(self, part: Part, schema_ids: Sequence[int]) -> Mapping[int, Schema]:
        """Return the schemas of these ids; those that no registry has are missing in it.

        Raises:
            RetryableError: The registry does not answer.
            FatalError: The file is no such file; or the registry refuses the login, or is none.
        """
        found = {schema_id: one for schema_id, one in _of_file(self._pipeline).items() if schema_id in schema_ids}
        missing = [one for one in schema_ids if one not in found]
        registry = self._pipeline.source.registry
        if missing and registry is not None:
            found |= AskedSchemas(registry.access(self._pipeline.name)).find(part, missing)
        return found


def as_file(schemas: Mapping[int, Schema]) -> str:
    """Return the text of a file with these schemas."""
    document = {
        str(schema_id): {
            "kind": schema.kind,
            "subjects": schema.subjects,
            "schema": schema.text,
            "references": {one.name: one.text for one in schema.references},
        }
        for schema_id, schema in sorted(schemas.items())
    }
    return json.dumps(document, indent=2, ensure_ascii=False)


def _of_file(pipeline: Pipeline) -> dict[int, Schema]:
    path = pipeline.folder / FILE
    if not path.is_file():
        return {}
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        return {
            int(schema_id): Schema(
                kind=str(one["kind"]),
                text=str(one["schema"]),
                references=tuple(Reference(str(name), str(text)) for name, text in one.get("references", {}).items()),
                subjects=tuple(map(str, one.get("subjects", ()))),
            )
            for schema_id, one in document.items()
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise FatalError(
            f"{shown(path)}: expected schemas by their ids, found: {type(error).__name__}: {error}",
            next_step=f"write it again: tideline sample {pipeline.name} --schemas > {shown(path)}",
            entry="schema-registry",
        ) from error
