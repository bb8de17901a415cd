"""The JSON schema of `pipeline.yaml`. With it, editors complete keys, explain them and mark mistakes.

    python -m tideline.declaration.schema          writes pipeline.schema.json into the folder of the pipelines

Generated from the declaration classes. The schema does not cover rules over several keys, such as a password without its
user. Only the planner reports those.
"""

import json
from typing import Any

from pydantic.json_schema import GenerateJsonSchema

from tideline import settings
from tideline.declaration import Declaration

FILE = "pipeline.schema.json"


class _Untitled(GenerateJsonSchema):
    """Omits titles that only repeat the key's name."""

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002 - pydantic calls it for each field
        return False


def schema() -> dict[str, Any]:
    """Return the schema. The description of each key is its purpose and its expected value."""
    made = Declaration.model_json_schema(schema_generator=_Untitled)
    for section in (made, *made["$defs"].values()):
        section.pop("title")
        for key in section["properties"].values():
            if "anyOf" in key and "title" not in key:
                key.update(key.pop("anyOf")[0])  # a section that may be left out
            if "$ref" in key:
                key.pop("default", None)  # each key of the section has its own default
            if "title" in key:
                key["description"] = f"{key.pop('title')}. Expected: {key['description']}."
    # Every editor knows draft 7, and nothing in this schema needs a later one.
    return {"$schema": "http://json-schema.org/draft-07/schema#", "title": "A pipeline of Tideline"} | made


def text() -> str:
    """Return the contents of the file."""
    return json.dumps(schema(), indent=2) + "\n"


if __name__ == "__main__":
    (settings.pipelines_dir() / FILE).write_text(text(), encoding="utf-8")
