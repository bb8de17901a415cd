"""Checks statements of README and docs about the project."""

import ast
import importlib.util
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import get_args

import pytest
import typer
from pydantic_core import PydanticUndefined
from ruamel.yaml import YAML

from tideline.cli import entry as cli
from tideline.declaration import Declaration, PostgresSink, Section, pipelines
from tideline.declaration.delta import DeltaSink
from tideline.declaration.kafka_sink import KafkaSink
from tideline.declaration.sections import FromEnvironment
from tideline.declaration.security import Security
from tideline.domain.states import TRANSITIONS, BatchState
from tideline.settings import PROJECT

README = PROJECT / "README.md"
PAGES = [
    README,
    PROJECT / "CHANGELOG.md",
    PROJECT / "CONTRIBUTING.md",
    *(page for place in ("docs", "tests", "include/pipelines") for page in sorted((PROJECT / place).rglob("*.md"))),
]
EXAMPLE = PROJECT / "include" / "pipelines" / "impressions"
PLACES = ("include", "spark_jobs", "dags", "tests")
# A path in backticks is seen from the project or, in tests/README.md, from the tests.
FOLDERS = (*PLACES, "docs", r"\.ci", "unit", "integration", "e2e", "faults", "benchmarks")
CODE = [p for place in PLACES for p in (PROJECT / place).rglob("*") if p.suffix in {".py", ".sql", ".yaml"}]
OTHER = [PROJECT / name for name in ("Makefile", "pyproject.toml", "docker-compose.yaml", "requirements.in")]
# Names of other projects that appear nowhere else here.
FOREIGN = {"execution_timeout", "from_json", "spark_default", "statsd_datadog_enabled", "statsd_influxdb_enabled"}


def text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def every_page() -> str:
    return "\n".join(map(text, PAGES))


def without_blocks(page: Path) -> str:
    return re.sub(r"^```.*?^```", "", text(page), flags=re.DOTALL | re.MULTILINE)


def quoted(page: Path) -> set[str]:
    """Return the texts in backticks outside of code blocks."""
    return {" ".join(found.split()) for found in re.findall(r"`([^`]+)`", without_blocks(page))}


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", text(page), re.DOTALL | re.MULTILINE)


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", text(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def cells(page: Path) -> Iterator[list[str]]:
    """Yield the rows of a page's tables."""
    for line in text(page).splitlines():
        if line.startswith("| "):
            yield [cell.strip() for cell in line.strip("|").split("|")]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(PROJECT)))
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)]+)\)", text(page)):
        path, _, anchor = target.partition("#")
        linked = (page.parent / path).resolve() if path else page
        assert linked.exists(), target
        assert not anchor or anchor in anchors(linked), target


@cache
def words_of_the_code() -> frozenset[str]:
    return frozenset(word for path in (*CODE, *OTHER) for word in re.findall(r"\w+", text(path)))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(PROJECT)))
def test_paths_and_names_in_backticks_exist(page):
    files = {path.name for path in CODE} | {path.name for path in PROJECT.iterdir()}
    for name in quoted(page):
        if re.fullmatch(rf"({'|'.join(FOLDERS)})(/[\w.-]*)+", name):
            assert (PROJECT / name).exists() or (page.parent / name).exists(), name
        elif re.fullmatch(r"[\w-]+\.(py|sql|yaml|toml|txt|in|xml)", name):
            assert name in files, name
        elif re.fullmatch(r"(tideline\.)?[a-z]+(_[a-z0-9]+)+", name) and name not in FOREIGN:
            assert name.removeprefix("tideline.") in words_of_the_code(), name


def test_make_targets_exist():
    named = set(re.findall(r"(?:`|^    )make ([a-z]+)", every_page(), re.MULTILINE))
    assert named <= set(re.findall(r"^([a-z]+):", text(PROJECT / "Makefile"), re.MULTILINE))


def test_modules_exist():
    modules = set(re.findall(r"python -m ([\w.]+)", every_page()))
    assert modules
    assert {name for name in modules if importlib.util.find_spec(name) is None} == set()


def test_variables_are_those_of_the_code():
    code = "\n".join(text(path) for path in CODE if not path.is_relative_to(PROJECT / "tests"))
    ours = r"TIDELINE_(?!TEST_)[A-Z_]*[A-Z]"
    named = {name.removesuffix("_FILE") for name in re.findall(ours, every_page())}  # each secret may be in a file
    assert named == set(re.findall(ours, code))
    of_tests = "\n".join(text(path) for path in CODE if path.is_relative_to(PROJECT / "tests"))
    assert {*re.findall(r"TIDELINE_TEST_[A-Z0-9]+", every_page())} <= {
        *re.findall(r"TIDELINE_TEST_[A-Z0-9]+", of_tests)
    }


def test_states_and_ways_are_those_of_the_code():
    page = PROJECT / "docs" / "flow.md"
    ways = re.findall(r"^ +(\w+) --> (\w+):", blocks(page, "mermaid")[0], re.MULTILINE)
    assert set(ways) == {(str(old), str(new)) for old, new in TRANSITIONS}
    described = {row[0].strip("`") for row in cells(page) if len(row) == 3}
    assert described & set(BatchState) == set(BatchState)


def declared_keys(section: type[Section], prefix: str = "") -> Iterator[tuple[str, object]]:
    """Yield each key with its default."""
    for name, info in section.model_fields.items():
        if name == "sink":
            yield from declared_keys(PostgresSink, "sink.")
        elif issubclass(_section(info.annotation), Section):
            yield from declared_keys(_section(info.annotation), f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", list(info.default) if isinstance(info.default, tuple) else info.default


def _section(annotation: object) -> type:
    """Return the type of a key, also of a section that may be left out. `{env: NAME}` is a value and no section."""
    kind = next(iter(get_args(annotation)), annotation)
    return kind if isinstance(kind, type) and kind is not FromEnvironment else object


def test_keys_and_defaults_are_those_of_the_code():
    said = {}
    for row in cells(PROJECT / "docs" / "pipelines.md"):
        if len(row) == 4 and row[0].startswith("`"):
            words = {"required": PydanticUndefined, "none": None}
            said[row[0].strip("`")] = words[row[1]] if row[1] in words else YAML(typ="safe").load(row[1].strip("`"))
    assert said == dict(declared_keys(Declaration))


@pytest.mark.parametrize(("heading", "sink"), [("Keys of a topic", KafkaSink), ("Keys of a Delta table", DeltaSink)])
def test_the_keys_of_an_output_that_is_no_table_are_those_of_the_code(tmp_path, heading, sink):
    (section,) = re.findall(rf"^### {heading}$(.*?)^##", text(PROJECT / "docs" / "sinks.md"), re.DOTALL | re.MULTILINE)
    page = tmp_path / "section.md"
    page.write_text(section)
    words = {"required": PydanticUndefined, "none": None, "that of the source": Security()}
    rows = [row for row in cells(page) if len(row) == 3 and row[0].startswith("`sink.")]
    said = {
        row[0].strip("`").removeprefix("sink."): words[row[1]]
        if row[1] in words
        else YAML(typ="safe").load(row[1].strip("`"))
        for row in rows
    }
    defaults = {name: info.default for name, info in sink.model_fields.items() if name != "kind"}
    if value := defaults.pop("value", None):
        defaults |= {f"value.{name}": info.default for name, info in type(value).model_fields.items()}
    assert said == {name: list(one) if isinstance(one, tuple) else one for name, one in defaults.items()}


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


# The runbook: every refusal has an entry there, and each entry says what can be done ---------------------------------------

RUNBOOK = PROJECT / "docs" / "runbook.md"
REFUSALS = {"FatalError", "NeedsOperatorError", "StepError"}
# Errors raised in tests need no entry, and the messages of set-up, stack and demo themselves say what to do.
_SETUP = ("tideline/deployment", "tideline_demo", "tideline_stack")
UNLISTED = (PROJECT / "tests", *(PROJECT / "include" / name for name in _SETUP))


@cache
def listed() -> dict[Path, ast.Module]:
    return {p: ast.parse(text(p)) for p in CODE if p.suffix == ".py" and not any(map(p.is_relative_to, UNLISTED))}


def errors_made() -> Iterator[tuple[str, ast.Call]]:
    """Yield every call that makes a TidelineError, with its place."""
    for path, tree in listed().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and "next_step" in keywords(node) and name_of(node).endswith("Error"):
                yield f"{path.relative_to(PROJECT)}:{node.lineno}", node


def name_of(call: ast.Call) -> str:
    return call.func.id if isinstance(call.func, ast.Name) else ""


def keywords(call: ast.Call) -> dict[str | None, ast.expr]:
    return {keyword.arg: keyword.value for keyword in call.keywords}


def words(node: ast.AST) -> str:
    """Return all literal text in a piece of code, without the values that are formatted into it."""
    found = (part.value for part in ast.walk(node) if isinstance(part, ast.Constant) and isinstance(part.value, str))
    return "\0".join(" ".join(string.split()) for string in found)


def entries_of(call: ast.Call) -> list[str]:
    """Return the `entry` of a call: one slug, or the two from which it chooses."""
    value = keywords(call).get("entry")
    choices = [value.body, value.orelse] if isinstance(value, ast.IfExp) else [value]
    return [choice.value for choice in choices if isinstance(choice, ast.Constant)]


def runbook() -> dict[str, str]:
    """Return the text of each entry by its anchor. Other parts of the page quote no message."""
    parts = re.split(r"^##+ (.+)$", text(RUNBOOK), flags=re.MULTILINE)[1:]
    sections = zip(parts[::2], parts[1::2], strict=True)
    return {heading.lower().replace(" ", "-"): body for heading, body in sections if "**Says:**" in body}


def said(entry: str) -> list[str]:
    """Return the texts by which a message is assigned to this entry."""
    quotes = re.search(r"\*\*Says:\*\*(.*?)\n\n", entry, re.DOTALL)
    return [" ".join(quote.split()) for quote in re.findall(r"`([^`]+)`", quotes[1] if quotes else "")]


def test_every_refusal_has_an_entry_in_the_runbook_and_none_is_left_over():
    assert {entry for _, call in errors_made() for entry in entries_of(call)} == set(runbook())
    assert [where for where, call in errors_made() if name_of(call) in REFUSALS and not entries_of(call)] == []


def test_an_entry_quotes_each_message_that_leads_to_it():
    entries = runbook()
    unlike = []
    for where, call in errors_made():
        message = words(call.args[0])
        quotes = [quote for entry in entries_of(call) for quote in said(entries[entry])]
        if message and quotes and not any(quote in message for quote in quotes):
            unlike.append(where)
    assert unlike == []


def test_an_entry_quotes_nothing_that_is_never_said():
    code = "\0".join(map(words, listed().values()))
    assert [quote for entry in runbook().values() for quote in said(entry) if quote not in code] == []


def test_an_entry_says_what_it_means_where_to_look_and_what_to_do():
    for name, entry in runbook().items():
        assert re.findall(r"^\*\*(\w+)", entry, re.MULTILINE) == ["Says", "Means", "Look", "Do"], name


def commands(page: str) -> Iterator[tuple[str, set[str]]]:
    """Yield each use of the command line in a page: command and options."""
    for line in re.findall(r"(?:`|^ {4,})tideline ([a-z][^`\n]*)", page, re.MULTILINE):
        yield line.split()[0], {word for word in line.split() if word.startswith("--")}


def test_commands_and_their_options_exist():
    known = {
        name: {option for parameter in command.params for option in parameter.opts} | {"--help"}
        for name, command in typer.main.get_command(cli.app).commands.items()
    }
    shown = list(commands(every_page()))
    assert {name for name, _ in shown} <= set(known)
    assert {name: unknown for name, options in shown if (unknown := options - known[name])} == {}
