"""The `tideline` command: its name, what it says about itself, and the arguments that several commands share."""

from typing import Annotated

import typer

_ABOUT = """Look at Tideline's pipelines, and decide about them.

Commands that look never change anything. Commands that act ask for --reason, and it stands in the history.
"""
_CLOSING = """\b
Exit codes:
   0  done; for a list, also when it is empty
   2  the command line is wrong
  10  the ledger, a broker or Airflow did not answer: try again
  20  a declaration, a name or a wish is wrong: change it first
  30  a person has to decide; doctor: something is bad
  40  a newer attempt has the batch

\b
Variables:
  TIDELINE_LEDGER_URL   libpq URI of the ledger's database
  TIDELINE_PIPELINES    folder of the pipelines, if not include/pipelines
  TIDELINE_ACTOR        who acts, if not your user and host
  TIDELINE_AIRFLOW_URL, TIDELINE_AIRFLOW_USERNAME, TIDELINE_AIRFLOW_PASSWORD
                        where to start DAG runs; without them nothing is started
"""

# Without markup: `[100, 200)` would be taken for a style. Without pretty tracebacks: they print local variables, and one may hold a password.
app = typer.Typer(
    name="tideline",
    help=_ABOUT,
    epilog=_CLOSING,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


def examples(*lines: str) -> str:
    """The end of a command's `--help`."""
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)


PipelineName = Annotated[str, typer.Argument(metavar="PIPELINE", help="The pipeline's name.")]
BatchId = Annotated[int, typer.Argument(metavar="BATCH", min=1, help="The batch's number.")]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON document instead of tables.")]
Limit = Annotated[int, typer.Option(min=1, metavar="N", help="At most so many rows.")]
