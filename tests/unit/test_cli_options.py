"""The command line before it connects anywhere: what it refuses, its help, and its start-up time."""

import re
import shlex
import subprocess
import sys

import pytest
import typer
from typer.testing import CliRunner

import tideline.cli  # noqa: F401 - declares the commands
from tideline.cli.app import app
from tideline.settings import PROJECT

NAME = "impressions"
WHY = "prices were in cents"
COMMANDS = {command.name or command.callback.__name__.replace("_", "-"): command for command in app.registered_commands}
ACTS = {
    "replay": [NAME, "--batch", "1"],
    "rewind": [NAME, "--to-batch", "1"],
    "retry": ["1"],
    "redrive": [NAME],
    "skip": [NAME, "ads/0 [0, 1)"],
    "accept-loss": [NAME, "ads"],
    "accept-partitions": [NAME, "ads"],
    "adopt-topic": [NAME, "ads"],
    "abandon": ["1"],
    "free-output": [NAME],
    "retire": [NAME],
    "move-output": [NAME],
    "recreate-table": [NAME],
}
WRONG = {
    "no such command": (["plans"], "No such command"),
    "no dry run": (["plan", NAME], "--dry-run"),
    "new records and a batch": (
        ["plan", NAME, "--dry-run", "--until", "2026-11-21T14:00Z", "--batch", "1"],
        "not both",
    ),
    "new records again": (["plan", NAME, "--dry-run", "--replace"], "not both"),
    "half a window": (["plan", NAME, "--dry-run", "--from", "2026-11-21T14:00Z"], "needs both --from and --to"),
    "no zone": (["plan", NAME, "--dry-run", "--until", "2026-11-21T14:00"], "2026-11-21T14:00:00Z for UTC"),
    "no moment": (["plan", NAME, "--dry-run", "--until", "noon"], "expected a moment"),
    "no state": (["batches", NAME, "--state", "done"], "advanced"),
    "no limit": (["batches", NAME, "--limit", "0"], "greater than or equal to 1"),
    "no target": (["replay", NAME, "--reason", WHY], "found none of them"),
    "two targets": (
        ["replay", NAME, "--batch", "1", "--range", "ads/0 [0, 1)", "--reason", WHY],
        "--batch and --range",
    ),
    "an empty range": (["replay", NAME, "--range", "ads/0 [2, 2)", "--reason", WHY], "must not be empty"),
    "overlapping ranges": (
        ["replay", NAME, "--range", "ads/0 [0, 2)", "--range", "ads/0 [1, 3)", "--reason", WHY],
        "do not overlap",
    ),
    "a window backwards": (
        ["replay", NAME, "--from", "2026-11-21T14:00Z", "--to", "2026-11-21T13:00Z", "--reason", WHY],
        "must start before it ends",
    ),
    "no range": (["skip", NAME, "ads/0", "--reason", WHY], "ads/3 [100, 200)"),
    "no partition": (["accept-loss", NAME, "ads/x", "--reason", WHY], "TOPIC/PARTITION like ads/3"),
    "no brokers": (["new", NAME, "--topic", "ads"], "either --bootstrap-servers or --like"),
    "security twice": (["new", NAME, "--topic", "ads", "--like", NAME, "--security", "protocol=SSL"], "--like takes"),
    "no key": (["new", NAME, "--topic", "ads", "--bootstrap-servers", "b:1", "--security", "SSL"], "KEY=VALUE"),
    "values as JSON": (["sample", NAME, "--values", "--json"], "expected one of --values, --schemas and --json"),
    "no batch": (["abandon", "0", "--reason", WHY], "greater than or equal to 1"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_command_line_says_what_to_write(case):
    arguments, said = WRONG[case]
    done = CliRunner().invoke(app, arguments)
    assert (done.exit_code, done.stdout) == (2, "")
    assert said in " ".join(done.stderr.split())


@pytest.mark.parametrize("act", ACTS)
def test_no_act_without_a_reason(act):
    missing = CliRunner().invoke(app, [act, *ACTS[act]])
    assert (missing.exit_code, "--reason" in missing.stderr) == (2, True)
    blank = CliRunner().invoke(app, [act, *ACTS[act], "--reason", " \t"])
    assert (blank.exit_code, "it is blank" in blank.stderr) == (2, True)


def test_every_command_that_takes_a_reason_as_an_act_is_tested_above():
    taking = {name for name in COMMANDS if "The reason, stored in the history." in shown(name)}
    assert taking == ACTS.keys()


def shown(command: str) -> str:
    """Return the help of a command."""
    done = CliRunner().invoke(app, [command, "--help"], terminal_width=200)
    assert done.exit_code == 0
    return done.stdout


def words(line: str) -> list[str]:
    """Return the words of a command without a file that its output goes to."""
    return shlex.split(line.partition(" > ")[0])


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_examples_that_the_command_takes(command):
    examples = re.findall(r"^ +tideline (.*)$", shown(command).partition("Examples:")[2], re.MULTILINE)
    assert examples
    group = typer.main.get_command(app)
    for example in examples:
        name, *arguments = words(example)
        assert name == command
        group.commands[name].make_context(name, arguments)  # raises where an argument is unknown or has another form


def test_help_is_there_before_anything_heavy_is_loaded():
    code = "import sys; import tideline.cli; print(*sys.modules)"
    loaded = set(
        subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()
    )
    assert "typer" in loaded
    assert not loaded & {
        "confluent_kafka",
        "psycopg2",
        "httpx",
        "pydantic",
        "ruamel.yaml",
        "rich",
        "airflow",
        "pyspark",
    }


def test_the_page_explains_every_command_and_every_exit_code():
    page = (PROJECT / "docs" / "cli.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^### `tideline ([a-z-]+)", page, re.MULTILINE)) == COMMANDS.keys()
    closing = CliRunner().invoke(app, ["--help"]).stdout.partition("Exit codes:")[2].partition("Variables:")[0]
    codes = re.findall(r"^ +(\d+)  ", closing, re.MULTILINE)
    assert codes == ["0", "2", "10", "20", "30", "40"]
    assert re.findall(r"^\| (\d+) \|", page, re.MULTILINE) == codes


def test_the_page_shows_commands_as_they_are():
    """Each line that begins with a prompt is a command that the command line accepts."""
    page = (PROJECT / "docs" / "cli.md").read_text(encoding="utf-8")
    lines = re.findall(r"^ +\$ tideline (.*)$", page, re.MULTILINE)
    assert {shlex.split(line)[0] for line in lines} == COMMANDS.keys()
    group = typer.main.get_command(app)
    for line in lines:
        name, *arguments = words(line)
        group.commands[name].make_context(name, arguments)
