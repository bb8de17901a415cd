"""What each act asks for, and which verb it calls."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import typer
from fastapi import HTTPException

from tideline.cli import options
from tideline.cli.output import Page
from tideline.cli.pages import actions
from tideline.domain.requests import KeptRejects, Request
from tideline.web.batch import of_pipeline

Given = Mapping[str, str]
_DRY = "a dry run"
"""The reason of a dry run, which is not stored."""


class MistakeError(Exception):
    """A field of the form has a mistake. The message says what was expected."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FormField:
    """One field of a form."""

    name: str
    label: str
    hint: str = ""
    required: bool = False
    tick: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Deed:
    """An act: its form, its dry run and its verb."""

    name: str
    title: str
    means: str
    fields: tuple[FormField, ...]
    try_out: Callable[[str, Given], Page]
    carry_out: Callable[[str, Given, str, str], Page]
    """Called with the pipeline, the fields, the reason and the name of the person."""
    starts_runs: bool = False

    def values(self, form: Given) -> dict[str, str]:
        """Return what a form says in this act's fields."""
        return {field.name: form[field.name] for field in self.fields if form.get(field.name)}

    def dry_run(self, pipeline: str, given: Given) -> Page:
        """Return what the act would do."""
        return self._checked(lambda: self.try_out(pipeline, given), given)

    def act(self, pipeline: str, given: Given, reason: str, actor: str) -> Page:
        """Do it."""
        return self._checked(lambda: self.carry_out(pipeline, given, reason, actor), given)

    def _checked(self, do: Callable[[], Page], given: Given) -> Page:
        for field in self.fields:
            if field.required and field.name not in given:
                raise MistakeError(f"{field.label}: expected a value, found none")
        try:
            return do()
        except typer.BadParameter as error:
            raise MistakeError(error.message) from error
        except HTTPException as error:
            raise MistakeError(str(error.detail)) from error
        except ValueError as error:
            raise MistakeError(str(error)) from error


def _number(given: Given, name: str) -> int | None:
    text = given.get(name)
    if text is None:
        return None
    if not text.isascii() or not text.isdigit() or len(text) > 18:  # noqa: PLR2004 - what fits a bigint
        raise MistakeError(f"{name}: expected a number, found {text!r}")
    return int(text)


def _batch(pipeline: str, given: Given) -> int:
    """Return the batch, which must be of the pipeline whose rights were checked."""
    return int(of_pipeline(pipeline, _number(given, "batch") or 0)["batch_id"])


def _replay(pipeline: str, given: Given) -> Request:
    batch = _batch(pipeline, given) if "batch" in given else None
    ranges = [line for line in given.get("ranges", "").replace(";", "\n").splitlines() if line.strip()]
    start, end = given.get("from"), given.get("to")
    return options.target(batch=batch, ranges=ranges or None, start=start, end=end, replace=True)


def _rejects(pipeline: str, given: Given) -> Request:
    batch = _batch(pipeline, given) if "batch" in given else None
    return KeptRejects(batch_id=batch, reason_like=given.get("reject_reason"))


def _topic(given: Given) -> str:
    topic, partition = options.topic_and_partition(given["topic"])
    if partition is not None:
        raise MistakeError("expected a topic, found a partition: a topic is decided about as a whole")
    return topic


def _skip(pipeline: str, given: Given, reason: str, actor: str | None, *, dry_run: bool) -> Page:
    piece = options.named_range(given["range"])
    return actions.skip(pipeline, piece, reason=reason, actor=actor, dry_run=dry_run)


def _accept(pipeline: str, given: Given, reason: str, actor: str | None, *, dry_run: bool) -> Page:
    topic = options.topic_and_partition(given["topic"])
    return actions.accept_loss(pipeline, *topic, reason=reason, actor=actor, dry_run=dry_run)


def _partitions(pipeline: str, given: Given, reason: str, actor: str | None, *, dry_run: bool) -> Page:
    return actions.accept_partitions(pipeline, _topic(given), reason=reason, actor=actor, dry_run=dry_run)


def _adopt(pipeline: str, given: Given, reason: str, actor: str | None, *, dry_run: bool) -> Page:
    return actions.adopt_topic(pipeline, _topic(given), reason=reason, actor=actor, dry_run=dry_run)


def _retry(pipeline: str, given: Given, reason: str, actor: str | None, *, dry_run: bool) -> Page:
    return actions.order_retry(_batch(pipeline, given), reason=reason, actor=actor, dry_run=dry_run)


def _abandon(pipeline: str, given: Given, reason: str, actor: str | None, *, dry_run: bool) -> Page:
    batch = _batch(pipeline, given)
    return actions.abandon(batch, reason=reason, force="force" in given, actor=actor, dry_run=dry_run)


def _rewind(pipeline: str, given: Given, reason: str, actor: str | None, *, dry_run: bool) -> Page:
    to_batch = _number(given, "to_batch") or 0
    return actions.rewind(pipeline, to_batch, reason=reason, dry_run=dry_run, actor=actor)


def _decision(
    name: str, title: str, means: str, verb: Callable[..., Page], *fields: FormField, starts: bool = False
) -> Deed:
    """Return an act whose verb has a dry run of its own."""
    return Deed(
        name=name,
        title=title,
        means=means,
        fields=fields,
        try_out=lambda pipeline, given: verb(pipeline, given, _DRY, None, dry_run=True),
        carry_out=lambda pipeline, given, reason, actor: verb(pipeline, given, reason, actor, dry_run=False),
        starts_runs=starts,
    )


def _load(name: str, title: str, means: str, request: Callable[[str, Given], Request], *fields: FormField) -> Deed:
    """Return an act that reserves batches, which runs of the DAG write."""
    return Deed(
        name=name,
        title=title,
        means=means,
        fields=fields,
        try_out=lambda pipeline, given: actions.dry_run(pipeline, request(pipeline, given)),
        carry_out=lambda pipeline, given, reason, actor: actions.reserve(
            pipeline, request(pipeline, given), reason=reason, actor=actor
        ),
        starts_runs=True,
    )


_BATCH = FormField(name="batch", label="Batch", hint="its number")
_THE_BATCH = FormField(name="batch", label="Batch", hint="its number", required=True)
DEEDS = {
    deed.name: deed
    for deed in (
        _load(
            "replay",
            "Replay",
            "Loads offsets again and replaces their rows, when the new batches are published and not before. "
            "Name a batch, or ranges, or a window of time.",
            _replay,
            _BATCH,
            FormField(
                name="ranges", label="Ranges", hint="such as ads/3 [100, 200); several are separated by a semicolon"
            ),
            FormField(name="from", label="From", hint="a moment with a zone, such as 2026-11-21T13:00Z"),
            FormField(name="to", label="To", hint="records before this moment"),
        ),
        _load(
            "redrive",
            "Re-drive rejects",
            "Tries rejected records again, from their stored bytes. Correct the transform or the table first.",
            _rejects,
            _BATCH,
            FormField(name="reject_reason", label="Reason of the rejects contains", hint="empty for all"),
        ),
        _decision(
            "retry",
            "Retry a batch",
            "Starts a run that writes an open batch, with the ranges that it has.",
            _retry,
            _THE_BATCH,
            starts=True,
        ),
        _decision(
            "abandon",
            "Abandon a batch",
            "Gives up a batch that is not published. The next run plans its offsets again.",
            _abandon,
            _THE_BATCH,
            FormField(name="force", label="Also if an attempt is writing it", tick=True),
        ),
        _decision(
            "skip",
            "Skip offsets",
            "Leaves offsets out permanently, as a hole with a reason. A backfill can fill it later.",
            _skip,
            FormField(name="range", label="Range", hint="such as ads/3 [100, 101)", required=True),
        ),
        _decision(
            "accept-loss",
            "Accept a loss",
            "Resumes stopped partitions without the records that Kafka has deleted. They become a hole.",
            _accept,
            FormField(name="topic", label="Topic", hint="or one partition, such as ads/3", required=True),
        ),
        _decision(
            "accept-partitions",
            "Accept added partitions",
            "Loads the partitions that a topic has gained, because no key has moved to them.",
            _partitions,
            FormField(name="topic", label="Topic", required=True),
        ),
        _decision(
            "adopt-topic",
            "Adopt a topic",
            "Follows a topic that was created again. Its old partitions retire and keep their history.",
            _adopt,
            FormField(name="topic", label="Topic", required=True),
        ),
        _decision(
            "rewind",
            "Rewind",
            "Takes a pipeline with a state back to the end of a batch. The next run loads what came after it again.",
            _rewind,
            FormField(name="to_batch", label="To the end of batch", hint="0 for the beginning", required=True),
        ),
    )
}
"""The acts by name, as the command line names them."""
