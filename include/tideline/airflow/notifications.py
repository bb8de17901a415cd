"""Notifications: the callback of failed tasks, which calls the notifier that the pipeline declares.

Airflow calls it when a task has failed and is not tried again: in the task's own process, or in the DAG processor if that
process was killed. The notifier is imported only then, so a missing package breaks no DAG. It never changes how a run ends.
"""

import logging
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pkgutil import resolve_name
from typing import Any

from airflow.sdk import BaseNotifier

from tideline import environment, job_log
from tideline.declaration import Notify
from tideline.declaration.pipelines import Broken, Pipeline
from tideline.declaration.sections import FromEnvironment
from tideline.errors import FatalError
from tideline.redaction import without

log = logging.getLogger(__name__)

_STOPPED = "docs/runbook.md#stream-stopped"
_MESSAGE_LENGTH = 2_500
"""The most characters of a message. Slack refuses a block of more than 3,000."""
_KILLED = (
    "the process of the task has ended without an error: it was killed, or its machine is gone\n"
    "  Next: read the last lines of the task's log, then clear the task; nothing is loaded twice"
)
_LOADING = ("plan", "write", "advance")
_WAIT_SECONDS = 10.0
"""The longest wait for `advance`. Airflow ends a process 20 seconds after its task has failed (`task_success_overtime`)."""
_POLL_SECONDS = 0.5


def of_pipeline(declared: Pipeline | Broken) -> dict[str, Any]:
    """Return the argument of a pipeline's own tasks that has them notify; an empty dict if no notifier is declared."""
    return _callback({declared.name: declared.notify}, declared.name)


def of_chosen(declared: Iterable[Pipeline | Broken]) -> dict[str, Any]:
    """Return the argument of the tasks of `replay` that has them notify as the chosen pipeline declares."""
    return _callback({each.name: each.notify for each in declared}, None)


def of_upkeep(declared: Pipeline | Broken) -> dict[str, Any]:
    """Return the argument of a pipeline's task of `upkeep` that has it notify. The other tasks are of other pipelines."""
    return _callback({declared.name: declared.notify}, declared.name, is_alone=True)


def _callback(declared: Mapping[str, Notify], pipeline: str | None, *, is_alone: bool = False) -> dict[str, Any]:
    found = {name: notify for name, notify in declared.items() if notify.notifier}
    if not found:
        return {}
    return {"on_failure_callback": [Notification(declared=found, pipeline=pipeline, is_alone=is_alone)]}


def notifier(pipeline: str, notify: Notify) -> BaseNotifier:
    """Import the declared notifier and create it, with values from the environment.

    Raises:
        FatalError: There is no such class, it does not accept the arguments, or a variable is not set.
    """
    secrets: list[str] = []
    arguments = {
        key: _looked_up(value, f"notify.arguments.{key} of pipeline {pipeline}", secrets)
        for key, value in notify.arguments.items()
    }
    try:
        created = resolve_name(str(notify.notifier))(**arguments)
    except Exception as error:  # the code of any package runs here
        raise _unusable(pipeline, notify, without(f"{type(error).__name__}: {error}", secrets)) from error
    if not isinstance(created, BaseNotifier):
        raise _unusable(pipeline, notify, f"a {type(created).__name__}")
    return created


def _unusable(pipeline: str, notify: Notify, found: str) -> FatalError:
    return FatalError(
        f"pipeline {pipeline}, key notify: {notify.notifier}: expected a notifier of Airflow that can be created, found {found}",
        next_step="install its package where tasks run, or correct the key; `tideline doctor` creates it as a task does",
        entry="no-notification",
    )


def _looked_up(value: Any, what: str, secrets: list[str]) -> Any:
    """Return an argument with the values of its variables, which are added to `secrets`."""
    match value:
        case FromEnvironment():
            secrets.append(environment.secret(value.env, what))  # and masked: the notifier may log it
            return secrets[-1]
        case list():
            return [_looked_up(item, what, secrets) for item in value]
        case dict():
            return {key: _looked_up(item, what, secrets) for key, item in value.items()}
    return value


@dataclass(frozen=True, slots=True, kw_only=True)
class Notification:
    """The callback of a failed task. It notifies once for each event of a run, and logs a notifier's error."""

    declared: Mapping[str, Notify]
    """By pipeline."""
    pipeline: str | None
    """None: the one that the form of the run names."""
    is_alone: bool
    """Whether the task's failure is independent of the other tasks of its run."""

    def __call__(self, context: Any) -> None:
        """Notify, if the pipeline declares it for this failure. If other tasks of the run have failed before, only stopped streams are news."""
        pipeline = self.pipeline or context["params"]["pipeline"]
        notify = self.declared.get(pipeline, Notify())
        text = _text(context.get("exception"))
        events = ("stopped_stream", "failure") if _STOPPED in text else ("failure",)
        if notify.notifier is None or not set(events) & set(notify.on):
            return
        if events[0] == "failure" and not self.is_alone and _is_notified(context["ti"]):
            log.info("%s: another task of this run has failed before, and has notified", pipeline)
            return
        about = {"pipeline": pipeline, "event": events[0], "message": _shortened(text)}
        try:
            notifier(pipeline, notify)({**context, "tideline": about})
        except Exception:  # the task has failed for another reason, which stays the result
            log.exception("%s: %s could not notify of this failure", pipeline, notify.notifier)
        else:
            log.info("%s: %s has notified of this failure (%s)", pipeline, notify.notifier, events[0])


def _text(error: BaseException | str | None) -> str:
    """Return what has failed, as the task's log says it. Airflow passes no error if the process was killed."""
    if error is None:
        return _KILLED
    text = str(error) or type(error).__name__
    return job_log.error_in(text) or text


def _shortened(text: str) -> str:
    """Leave out the middle of a long text: where it happened is at its beginning, and the next command at its end."""
    half = _MESSAGE_LENGTH // 2
    return text if len(text) <= _MESSAGE_LENGTH else f"{text[:half]}\n...\n{text[-half:]}"


def _is_notified(ti: Any) -> bool:
    """Return whether another task of the run has failed before. A ledger that is down fails both `plan` and `announce`.

    `advance` and `announce` may fail at the same moment. Then `announce` waits until `advance` has ended, and `advance` notifies.
    """
    others = [task_id for task_id in (*_LOADING, "announce") if task_id != ti.task_id]
    end = time.monotonic() + _WAIT_SECONDS
    while True:
        states = _states(ti, others)
        if "failed" in states.values():
            return True
        if ti.task_id != "announce" or states.get("advance") != "running" or time.monotonic() > end:
            return False
        time.sleep(_POLL_SECONDS)


def _states(ti: Any, task_ids: list[str]) -> dict[str, str]:
    try:
        found = ti.get_task_states(dag_id=ti.dag_id, run_ids=[ti.run_id], task_ids=task_ids)
    except Exception:  # rather notify twice than not at all
        log.warning("cannot see whether other tasks of this run have failed", exc_info=True)
        return {}
    return dict(found.get(ti.run_id, {}))
