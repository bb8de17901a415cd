"""The trigger forms of the DAGs, as Airflow draws them. What the fields mean together is checked by `tideline.airflow.trigger_form`."""

from collections.abc import Iterable
from typing import Any

from airflow.sdk import Param

from tideline.airflow.trigger_form import Load

_WINDOW = "A window"
_RANGES = "Ranges"
_BATCH = "A batch"
_LINES = (
    "One range a line, as logs print them: `ads/3 [100, 200)` is partition 3 of topic `ads` from offset 100 up to and without 200. "
    "Several with commas between them may stand in one line."
)


def ingest_params() -> dict[str, Param]:
    """The form of a pipeline's own DAG. Every field has a default: Airflow fills it in where a schedule starts the run."""
    return {
        "load": Param(
            Load.NEW_RECORDS.value,
            type="string",
            enum=[load.value for load in Load],
            title="What to load",
            description_md=(
                "**new records**: what earlier runs left open, then what is new behind the heads.  \n"
                "**a window**, **ranges**, **a batch**: what of it is not loaded yet. Heads stay where they are, and so does what is loaded, "
                "unless you tick *Load again*.  \n"
                "**rejected records**: rejects once more, from the bytes that were kept."
            ),
        ),
        "reason": _optional("string", "Why", "Needed to load something again. It stands in the history for good."),
        "replace": Param(
            False,
            type="boolean",
            title="Load again",
            description_md="Also load what is loaded already, and replace its rows: for a window, ranges or a batch. Takes a reason.",
        ),
        "until": _moment(
            "Load up to",
            "Records with this timestamp or a later one stay for the next run. Empty: all that is there now.",
            "New records",
        ),
        **_window(),
        "ranges": _ranges(),
        "batch_id": _batch("Also narrows rejected records to those of one batch.", "A batch, or rejected records"),
        "reject_reason": _optional(
            "string",
            "Reason of the rejects",
            "Only rejected records whose reason contains this text. Empty: all.",
            section="A batch, or rejected records",
        ),
    }


def replay_params(pipelines: Iterable[str]) -> dict[str, Param]:
    """The form of the DAG `replay`."""
    return {
        "pipeline": Param(
            type="string",
            enum=list(pipelines),
            title="Pipeline",
            description_md="Whose rows are to be replaced.",
        ),
        "reason": Param(
            type="string", minLength=1, title="Why", description_md="It stands in the history of the batches for good."
        ),
        "batch_id": _batch("All ranges of one batch.", _BATCH),
        "ranges": _ranges(),
        **_window(),
    }


def _window() -> dict[str, Param]:
    return {
        "window_start": _moment(
            "From", "In each partition: from the first record with this timestamp or a later one ...", _WINDOW
        ),
        "window_end": _moment(
            "Up to", "... up to and without the first one with this timestamp or a later one.", _WINDOW
        ),
    }


def _ranges() -> Param:
    return Param(
        None, type=["null", "array"], items={"type": "string"}, title="Ranges", description_md=_LINES, section=_RANGES
    )


def _batch(text: str, section: str) -> Param:
    return _optional(
        "integer", "Batch id", f"As the log of `plan` and the ledger name it. {text}", section=section, minimum=1
    )


def _moment(title: str, text: str, section: str) -> Param:
    text += " Through the API write it with a zone: `2026-11-21T14:00:00Z`."
    return _optional("string", title, text, section=section, format="date-time")


def _optional(type_: str, title: str, text: str, **rest: Any) -> Param:
    return Param(None, type=["null", type_], title=title, description_md=text, **rest)
