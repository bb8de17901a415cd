"""The schema that editors use for pipeline.yaml agrees with the declaration."""

import re

import pytest
from jsonschema import Draft7Validator

from tideline.declaration import pipelines, schema
from tideline.settings import PROJECT, pipelines_dir

VALIDATOR = Draft7Validator(schema.schema())
PATH = pipelines_dir() / schema.FILE
SHIPPED = sorted(PATH.parent.glob("*/pipeline.yaml"))
SMALLEST = """\
description: Ad impressions
source:
  bootstrap_servers: {env: TEST_KAFKA}
  topics: [ad_impressions]
  value: {format: text}
sink: {table: ads.impressions}
"""


def complaints(path):
    """Return the places that an editor would mark."""
    return {f"{error.json_path}: {error.message}" for error in VALIDATOR.iter_errors(pipelines._parse(path))}


@pytest.fixture
def complaints_about(tmp_path):
    def write(text):
        path = tmp_path / "pipeline.yaml"
        path.write_text(text)
        return complaints(path)

    return write


def test_the_file_is_what_the_declaration_makes():
    assert PATH.read_text(encoding="utf-8") == schema.text(), "run: python -m tideline.declaration.schema"


def test_it_is_a_schema():
    Draft7Validator.check_schema(schema.schema())


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.parent.name)
def test_shipped_pipelines_fit_it_and_tell_editors_where_it_is(path):
    assert complaints(path) == set()
    [named] = re.findall(r"\A# yaml-language-server: \$schema=(\S+)\n", path.read_text(encoding="utf-8"))
    assert (path.parent / named).resolve() == PATH


def test_the_example_of_the_docs_fits_it(complaints_about):
    page = (PROJECT / "docs" / "pipelines.md").read_text(encoding="utf-8")
    examples = re.findall(r"^```yaml\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    assert examples
    assert {complaint for example in examples for complaint in complaints_about(example)} == set()


@pytest.mark.parametrize(
    ("old", "new", "place"),
    [
        ("description:", "descripton:", "$: "),
        ("  topics:", "  topisc:", "$.source: "),
        ("{format: text}", "{fromat: text}", "$.source.value: "),
        ("{env: TEST_KAFKA}", "{emv: TEST_KAFKA}", "$.source.bootstrap_servers: "),
        ("sink:", "limits: {batch_record: 5}\nsink:", "$.limits: "),
        ("[ad_impressions]", "ad_impressions", "$.source.topics: "),
        ("  topics: [ad_impressions]\n", "", "$.source: "),
        ("  topics:", "  topic_pattern: ^a$\n  topics:", "$.source: "),
        ("topics: [ad_impressions]", "topic_pattern: ads", "$.source.topic_pattern: "),
        ("format: text", "format: txt", "$.source.value.format: "),
        ("sink:", 'retries: "2"\nsink:', "$.retries: "),
        ("sink:", "rejects: {fail_above: 2}\nsink:", "$.rejects.fail_above: "),
    ],
)
def test_a_misspelt_key_and_a_wrong_value_are_marked_where_they_stand(complaints_about, old, new, place):
    assert complaints_about(SMALLEST) == set()
    assert old in SMALLEST
    found = complaints_about(SMALLEST.replace(old, new, 1))
    assert found
    assert all(complaint.startswith(place) for complaint in found)


def test_every_key_is_explained():
    sections = [schema.schema(), *schema.schema()["$defs"].values()]
    keys = {
        name: key
        for section in sections
        for name, key in section["properties"].items()
        if not {"$ref", "oneOf"} & {*key}
    }
    pattern = re.compile(r"[A-Z].+\. Expected: .+\.")
    assert {name for name, key in keys.items() if not pattern.fullmatch(key.get("description", ""))} == set()
