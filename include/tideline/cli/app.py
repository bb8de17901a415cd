"""The `tideline` command: its name, its help text, and the arguments that several commands share."""

from importlib.metadata import version
from typing import Annotated

import typer

_HELP = """Inspect and operate Tideline's pipelines.

Commands that inspect never change anything. Commands that operate require --reason, which is stored in the history.
"""
_HELP_EPILOG = """\b
Exit codes:
   0  success; an empty list is also a success
   2  the command line is invalid
  10  the ledger, a broker or Airflow did not answer: try again
  20  invalid configuration, name or request: change it before you try again
  30  an operator has to decide; doctor, coverage, test --fail-on-rejects: a check failed
  40  a newer attempt has claimed the batch

\b
Variables:
  TIDELINE_LEDGER_URL   libpq URI of the ledger's database
  TIDELINE_READER_URL   the same, of a role that only looks; optional
  TIDELINE_WRITER_URL, TIDELINE_STAGER_URL
                        the same, of the roles of Spark drivers and executors; optional
  TIDELINE_PIPELINES    folder of the pipelines; in a checkout the default is include/pipelines
  TIDELINE_ACTOR        name stored in the history; default: your user and host
  TIDELINE_AIRFLOW_URL, TIDELINE_AIRFLOW_USERNAME, TIDELINE_AIRFLOW_PASSWORD
                        the Airflow that starts DAG runs; if not set, no run is started
"""

# No markup: it would read `[100, 200)` as a style. No pretty tracebacks: they print local variables, and one may hold a password.
app = typer.Typer(
    name="tideline",
    help=_HELP,
    epilog=_HELP_EPILOG,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


def _show_version(asked: bool) -> None:  # noqa: FBT001 - as typer calls it
    if asked:
        typer.echo(f"tideline {version('tideline')}")
        raise typer.Exit


@app.callback()
def _options(
    *,
    _version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Declare the options of `tideline` itself."""


def examples(*lines: str) -> str:
    """Build the examples at the end of a command's `--help`."""
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)


PipelineName = Annotated[str, typer.Argument(metavar="PIPELINE", help="The pipeline's name.")]
BatchId = Annotated[int, typer.Argument(metavar="BATCH", min=1, help="The batch's number.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of tables.")]
Limit = Annotated[int, typer.Option(min=1, metavar="N", help="Show at most N rows.")]
