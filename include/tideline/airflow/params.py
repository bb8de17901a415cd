"""The fields of the DAGs' trigger forms, which Airflow shows. `tideline.airflow.trigger_form` checks that the values fit together."""

from collections.abc import Iterable
from typing import Any

from airflow.sdk import Param

from tideline.airflow.form_choices import Load

_WINDOW = "A window"
_RANGES = "Ranges"
_BATCH = "A batch"
_REWIND = "Rewind"
_REWIND_LINE = (
    "  \n**rewind**: state, rows and rejects go back to the end of a batch, and what came after it is loaded again. This pipeline has a state, so "
    "past offsets are loaded again in no other way."
)
_LINES = (
    "One range per line, as logs print them: `ads/3 [100, 200)` is partition 3 of topic `ads` from offset 100 up to, but not including, 200. "
    "One line may also hold several ranges, separated by commas."
)


def ingest_params(*, stateful: bool = False) -> dict[str, Param]:
    """Build the form of a pipeline's own DAG. Every field has a default, which Airflow uses when a schedule starts the run.

    Args:
        stateful: Whether the pipeline has a state, and can be rewound.
    """
    return {
        "load": Param(
            Load.NEW_RECORDS.value,
            type="string",
            enum=[load.value for load in Load if stateful or load is not Load.REWIND],
            title="What to load",
            description_md=(
                "**new records**: the open batches of earlier runs, then new records from the heads on.  \n"
                "**a window**, **ranges**, **a batch**: those of its offsets that are not loaded yet. Heads do not move, and loaded rows do not "
                "change, unless you tick *Load again*.  \n"
                "**rejected records**: rejects again, from their stored bytes." + (_REWIND_LINE if stateful else "")
            ),
        ),
        "reason": _optional(
            "string", "Why", "Required to load something again. It is stored in the history permanently."
        ),
        "replace": Param(
            False,
            type="boolean",
            title="Load again",
            description_md="Also load offsets that are already loaded, and replace their rows: for a window, ranges or a batch. Requires a reason.",
        ),
        "until": _moment(
            "Load up to",
            "Records with this timestamp or a later one are left for the next run. Empty: all records available now.",
            "New records",
        ),
        **_window(),
        "ranges": _ranges(),
        "batch_id": _batch("For rejected records: only those of this batch.", "A batch, or rejected records"),
        "reject_reason": _optional(
            "string",
            "Reason of the rejects",
            "Only rejected records whose reason contains this text. Empty: all.",
            section="A batch, or rejected records",
        ),
        **(_rewind() if stateful else {}),
    }


def replay_params(pipelines: Iterable[str]) -> dict[str, Param]:
    """Build the form of the DAG `replay`."""
    return {
        "pipeline": Param(
            type="string",
            enum=list(pipelines),
            title="Pipeline",
            description_md="The pipeline whose rows are replaced.",
        ),
        "reason": Param(
            type="string",
            minLength=1,
            title="Why",
            description_md="It is stored in the history of the batches permanently.",
        ),
        "batch_id": _batch("All ranges of one batch.", _BATCH),
        "ranges": _ranges(),
        **_window(),
    }


def _window() -> dict[str, Param]:
    return {
        "window_start": _moment(
            "From", "In each partition: from the first record with this timestamp or a later one, ...", _WINDOW
        ),
        "window_end": _moment(
            "Up to", "... up to, but not including, the first record with this timestamp or a later one.", _WINDOW
        ),
    }


def _rewind() -> dict[str, Param]:
    return {
        "to_batch": _optional(
            "integer",
            "Back to the end of batch",
            "The last batch that stays as it is; 0 is the beginning. Everything after it is undone, and this run loads it again. Requires a reason.",
            section=_REWIND,
            minimum=0,
        ),
        "dry_run": Param(
            False,
            type="boolean",
            title="Only say what would happen",
            description_md="The log of `plan` says what would be undone. Nothing is changed, and the run is skipped.",
            section=_REWIND,
        ),
    }


def _ranges() -> Param:
    return Param(
        None, type=["null", "array"], items={"type": "string"}, title="Ranges", description_md=_LINES, section=_RANGES
    )


def _batch(text: str, section: str) -> Param:
    return _optional(
        "integer",
        "Batch id",
        f"The number that the log of `plan` and the ledger show. {text}",
        section=section,
        minimum=1,
    )


def _moment(title: str, text: str, section: str) -> Param:
    text += " In the API, write it with a zone: `2026-11-21T14:00:00Z`."
    return _optional("string", title, text, section=section, format="date-time")


def _optional(type_: str, title: str, text: str, **rest: Any) -> Param:
    return Param(None, type=["null", type_], title=title, description_md=text, **rest)
