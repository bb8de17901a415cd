"""The shape of `pipeline.yaml` as a JSON schema, for editors: they complete keys, explain them and mark mistakes.

    python -m tideline.declaration.schema          writes include/pipelines/pipeline.schema.json

Made of the declaration itself. What takes two keys to see, such as a password without its user, only the planner tells.
"""

import json
from typing import Any

from pydantic.json_schema import GenerateJsonSchema

from tideline.declaration import Declaration
from tideline.settings import PROJECT

PATH = PROJECT / "include" / "pipelines" / "pipeline.schema.json"


class _Untitled(GenerateJsonSchema):
    """Without the titles that are only the key's name once more."""

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002 - it is asked for each field
        return False


def schema() -> dict[str, Any]:
    """The schema, each key with what it is for and what is expected of it."""
    made = Declaration.model_json_schema(schema_generator=_Untitled)
    for section in (made, *made["$defs"].values()):
        section.pop("title")
        for key in section["properties"].values():
            if "$ref" in key:
                key.pop("default", None)  # a section's keys have their own
            if "title" in key:
                key["description"] = f"{key.pop('title')}. Expected: {key['description']}."
    # Draft 7 is what every editor knows. Nothing in here needs a later one.
    return {"$schema": "http://json-schema.org/draft-07/schema#", "title": "A pipeline of Tideline"} | made


def text() -> str:
    """The schema as it stands in the file."""
    return json.dumps(schema(), indent=2) + "\n"


if __name__ == "__main__":
    PATH.write_text(text(), encoding="utf-8")
