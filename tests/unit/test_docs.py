"""What README, docs and container files say about the project is so."""

import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic_core import PydanticUndefined
from ruamel.yaml import YAML

from tideline import pipelines
from tideline.declaration import Declaration, Section
from tideline.domain.states import TRANSITIONS, BatchState
from tideline.settings import PROJECT

README = PROJECT / "README.md"
PAGES = [README, PROJECT / "CHANGELOG.md", *sorted((PROJECT / "docs").rglob("*.md"))]
EXAMPLE = PROJECT / "include" / "pipelines" / "impressions"
PLACES = ("include", "spark_jobs", "dags", "tests")
CODE = [p for place in PLACES for p in (PROJECT / place).rglob("*") if p.suffix in {".py", ".sql", ".yaml"}]
OTHER = [PROJECT / name for name in ("Makefile", "pyproject.toml", "docker-compose.yaml", "requirements.in")]
# What other projects named, and nothing here repeats.
FOREIGN = {"execution_timeout", "from_json", "spark_default"}


def text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def every_page() -> str:
    return "\n".join(map(text, PAGES))


def without_blocks(page: Path) -> str:
    return re.sub(r"^```.*?^```", "", text(page), flags=re.DOTALL | re.MULTILINE)


def quoted(page: Path) -> set[str]:
    """What stands in backticks outside of code blocks."""
    return {" ".join(found.split()) for found in re.findall(r"`([^`]+)`", without_blocks(page))}


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", text(page), re.DOTALL | re.MULTILINE)


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", text(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def cells(page: Path) -> Iterator[list[str]]:
    """The rows of a page's tables."""
    for line in text(page).splitlines():
        if line.startswith("| "):
            yield [cell.strip() for cell in line.strip("|").split("|")]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)]+)\)", text(page)):
        path, _, anchor = target.partition("#")
        linked = (page.parent / path).resolve() if path else page
        assert linked.exists(), target
        assert not anchor or anchor in anchors(linked), target


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_paths_and_names_in_backticks_exist(page):
    everything = "\n".join(map(text, [*CODE, *OTHER]))
    files = {path.name for path in CODE} | {path.name for path in PROJECT.iterdir()}
    for name in quoted(page):
        if re.fullmatch(rf"({'|'.join(PLACES)}|docs|\.ci)(/[\w.-]*)+", name):
            assert (PROJECT / name).exists(), name
        elif re.fullmatch(r"[\w-]+\.(py|sql|yaml|toml|txt|in|xml)", name):
            assert name in files, name
        elif re.fullmatch(r"(tideline\.)?[a-z]+(_[a-z0-9]+)+", name) and name not in FOREIGN:
            assert re.search(rf"\b{re.escape(name.removeprefix('tideline.'))}\b", everything), name


def test_make_targets_exist():
    named = set(re.findall(r"(?:`|^    )make ([a-z]+)", every_page(), re.MULTILINE))
    assert named <= set(re.findall(r"^([a-z]+):", text(PROJECT / "Makefile"), re.MULTILINE))


def test_modules_exist():
    modules = set(re.findall(r"python -m ([\w.]+)", every_page()))
    assert modules
    assert {name for name in modules if importlib.util.find_spec(name) is None} == set()


def test_variables_are_those_of_the_code():
    code = "\n".join(text(path) for path in CODE if not path.is_relative_to(PROJECT / "tests"))
    assert set(re.findall(r"TIDELINE_[A-Z_]*[A-Z]", every_page())) == set(re.findall(r"TIDELINE_[A-Z_]*[A-Z]", code))


def test_states_and_ways_are_those_of_the_code():
    page = PROJECT / "docs" / "states.md"
    ways = re.findall(r"^ +(\w+) --> (\w+):", blocks(page, "mermaid")[0], re.MULTILINE)
    assert set(ways) == {(str(old), str(new)) for old, new in TRANSITIONS}
    described = {row[0].strip("`") for row in cells(page) if len(row) == 3}
    assert described & set(BatchState) == set(BatchState)


def declared_keys(section: type[Section], prefix: str = "") -> Iterator[tuple[str, object]]:
    """Each key with its default."""
    for name, info in section.model_fields.items():
        if isinstance(info.annotation, type) and issubclass(info.annotation, Section):
            yield from declared_keys(info.annotation, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", info.default


def test_keys_and_defaults_are_those_of_the_code():
    said = {}
    for row in cells(PROJECT / "docs" / "pipelines.md"):
        if len(row) == 4 and row[0].startswith("`"):
            words = {"required": PydanticUndefined, "none": None}
            said[row[0].strip("`")] = words[row[1]] if row[1] in words else YAML(typ="safe").load(row[1].strip("`"))
    assert said == dict(declared_keys(Declaration))


def test_the_declaration_that_is_shown_is_right(tmp_path):
    folder = tmp_path / "orders"
    folder.mkdir()
    (declaration,) = blocks(PROJECT / "docs" / "pipelines.md", "yaml")
    (folder / "pipeline.yaml").write_text(declaration)
    (folder / "target.sql").touch()
    assert pipelines.load(folder).source.topics == ("orders",)


def test_the_readme_shows_the_pipeline_as_it_is():
    assert [block.strip() in text(EXAMPLE / "pipeline.yaml") for block in blocks(README, "yaml")] == [True]
    assert [block.strip() in text(EXAMPLE / "transform.py") for block in blocks(README, "python")] == [True]


def test_ci_runs_the_tests_as_the_readme_does():
    script = PROJECT / ".ci" / "run"
    assert script.stat().st_mode & 0o111
    assert text(script).splitlines() == ["#!/usr/bin/env bash", "exec make test"]
    assert "\n    make test\n" in text(README)


# Container files: nothing here starts a container, so at least every name and file in them is there -----------------------


@pytest.fixture
def compose():
    return YAML(typ="safe").load(text(PROJECT / "docker-compose.yaml"))


def test_services_depend_on_services_that_say_when_they_are_ready(compose):
    services = compose["services"]
    for name, service in services.items():
        for other, how in service.get("depends_on", {}).items():
            if how["condition"] == "service_healthy":
                assert "healthcheck" in services[other], (name, other)
            else:
                assert how["condition"] == "service_completed_successfully", name
                assert services[other]["restart"] == "no", (name, other)


def test_volumes_configs_and_files_are_there(compose):
    for name, service in compose["services"].items():
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            assert (PROJECT / source).exists() if source.startswith(".") else source in compose["volumes"], name
        assert {config["source"] for config in service.get("configs", [])} <= set(compose["configs"]), name


def test_hosts_are_services(compose):
    spoken_to = re.findall(r"[/@ :\"']([a-z][a-z-]*):\d{4}\b", text(PROJECT / "docker-compose.yaml"))
    master = re.search(r'"host": "spark://([a-z-]+)"', text(PROJECT / "docker-compose.yaml"))
    driver = re.search(r"spark\.driver\.host +(\S+)", compose["configs"]["spark_properties"]["content"])
    assert {"kafka", "postgres", "airflow-apiserver"} <= set(spoken_to)
    assert {*spoken_to, master[1], driver[1]} <= set(compose["services"])
    assert compose["services"][driver[1]]["hostname"] == driver[1]


def test_the_properties_file_is_where_the_variable_says(compose):
    scheduler = compose["services"]["airflow-scheduler"]
    mounted = {config["source"]: config["target"] for config in scheduler["configs"]}
    assert mounted["spark_properties"] == scheduler["environment"]["TIDELINE_SPARK_PROPERTIES"]


def test_secrets_come_from_a_file_that_each_person_fills_in():
    container_file = text(PROJECT / "docker-compose.yaml")
    asked = re.findall(r"\$\{(\w+)(:\?)?", container_file)
    unset = re.findall(r"^(\w+)=(.*)$", text(PROJECT / ".env.example"), re.MULTILINE)
    assert {name for name, refused in asked if refused} == {name for name, _ in asked} == {name for name, _ in unset}
    assert {value for _, value in unset} == {""}
    assert "/.env" in text(PROJECT / ".gitignore").splitlines()


def test_the_image_gets_the_files_that_it_copies():
    rules = [line for line in text(PROJECT / ".dockerignore").splitlines() if line and not line.startswith("#")]
    copied = re.findall(r"^COPY (?:--\S+ )*(.+) \S+$", text(PROJECT / "Dockerfile"), re.MULTILINE)
    sources = {source for line in copied for source in line.split()}
    assert sources == {rule.removeprefix("!") for rule in rules if rule.startswith("!")}
    assert all((PROJECT / source).exists() for source in sources)
    assert "*" in rules
