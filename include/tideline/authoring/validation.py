"""Check pipelines as far as that is possible before a run, and report all mistakes of all of them at once.

Asks no broker, and without a session no database. What depends on either, or on Spark, is reported as not checked.
"""

import traceback
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import pyarrow as pa

from tideline import settings
from tideline.authoring import database_table, registry_checks, target_sql
from tideline.authoring.target_sql import TargetSql
from tideline.declaration import pipelines
from tideline.declaration.pipelines import Broken, Pipeline, shown
from tideline.domain.checks import Check, Verdict
from tideline.errors import FatalError
from tideline.ledger.connection import Ledger
from tideline.records import transforms
from tideline.records.record_decoding import formats
from tideline.records.record_steps import record_steps
from tideline.sinks import kinds
from tideline.sinks.postgres import fitting
from tideline.state.rules import rules_of


def validated(
    name: str | None, session: Ledger | None, *, with_registry: bool = False, reader: Ledger | None = None
) -> list[Check]:
    """Check all pipelines, or the one of that name.

    Args:
        name: The pipeline to check; None for all.
        session: A session with the database of the target tables. With None only the files are checked.
        with_registry: Whether schema registries are asked as well.
        reader: A session that reads the ledger, for the schemas that batches have used; None: not asked for.

    Raises:
        FatalError: There is no folder for the pipeline, or a registry refuses the login.
        RetryableError: The database or a registry did not answer.
    """
    everyone = pipelines.declared()
    chosen = [one for one in everyone if name in {None, one.name}]
    if not chosen and name is not None:
        pipelines.load_named(name)
    declared = [one for one in everyone if isinstance(one, Pipeline)]
    found: list[Check] = []
    for one in chosen:
        found += _broken(one) if isinstance(one, Broken) else _pipeline(one, declared, session)
        if with_registry and isinstance(one, Pipeline) and _has_formats(one):
            found += registry_checks.checked(one, reader)
            found += registry_checks.checked_output(one, _transform(one, None)[0])
    return found


def _broken(broken: Broken) -> Iterator[Check]:
    """Report each mistake of a declaration. Its transform is imported all the same, so that one run shows as much as possible."""
    for line in broken.error.problem.splitlines():
        where, _, found = line.partition(": ")
        yield Check(about=broken.name, check=where, verdict=Verdict.BAD, found=found)
    folder = settings.pipelines_dir() / broken.name
    try:
        transforms.load(Pipeline.model_construct(name=broken.name, folder=folder))
    except transforms.NeedsSparkError:
        pass  # it is reported as not checked, below
    except FatalError as error:
        yield _of_transform(broken.name, folder, error)
    yield Check(
        about=broken.name,
        check=shown(folder),
        verdict=Verdict.NOT_CHECKED,
        found="columns, transform and target.sql, until pipeline.yaml is right",
    )


def _pipeline(pipeline: Pipeline, declared: Sequence[Pipeline], session: Ledger | None) -> Iterator[Check]:
    yield from _declaration(pipeline, declared)
    try:
        formats(pipeline.source, pipeline.folder)
    except FatalError as error:
        where, _, problem = error.problem.partition(": ")
        yield Check(about=pipeline.name, check=where, verdict=Verdict.BAD, found=problem)
        return
    produced, found = _transform(pipeline, session)
    yield from found
    if kinds.of(pipeline).is_outside:  # there is no table in this database, and no target.sql
        if produced is not None:
            yield from _output(pipeline, produced)
        return
    known = target_sql.read(pipeline)
    yield from _target(pipeline, known, produced)
    if session is not None and known.is_readable:
        yield from database_table.checked(session, pipeline, produced)


def _has_formats(pipeline: Pipeline) -> bool:
    try:
        formats(pipeline.source, pipeline.folder)
    except FatalError:  # reported already
        return False
    return True


def _declaration(pipeline: Pipeline, declared: Sequence[Pipeline]) -> Iterator[Check]:
    where = shown(pipeline.folder / "pipeline.yaml")
    others = [one for one in declared if one.name != pipeline.name and _same_table(one, pipeline)]
    alone = [one.name for one in [pipeline, *others] if others and not one.table_sink.shared]
    if alone:
        names = ", ".join(one.name for one in others)
        found = (
            f"sink.table: expected {pipeline.table_sink.table} for one pipeline, found that {names} declares it as well; "
            f"declare another table, or sink.shared: true in {' and '.join(alone)}"
        )
        yield Check(about=pipeline.name, check=where, verdict=Verdict.BAD, found=found)
    else:
        yield Check(about=pipeline.name, check=where, verdict=Verdict.OK, found="has no mistakes")


def _same_table(one: Pipeline, other: Pipeline) -> bool:
    inside = not any(kinds.of(each).is_outside for each in (one, other))
    return inside and one.table_sink.table == other.table_sink.table


def _transform(pipeline: Pipeline, session: Ledger | None) -> tuple[pa.Schema | None, Iterable[Check]]:
    """Return the output columns of the transform, None if they are not known, with what was found."""
    where = shown(pipeline.folder / "transform.py")

    def finding(verdict: Verdict, found: str) -> Check:
        return Check(about=pipeline.name, check=where, verdict=verdict, found=found)

    try:
        transform = transforms.load(pipeline)
        rows = record_steps(pipeline, transform).rows
        rules = rules_of(pipeline, transform, rows)
    except transforms.NeedsSparkError:
        found = "the file, which needs a Spark session when it is imported"
        return None, [finding(Verdict.NOT_CHECKED, f"{found}: tideline test {pipeline.name} FILE")]
    except FatalError as error:
        return None, [_of_transform(pipeline.name, pipeline.folder, error)]
    names = ", ".join(fitting.written(rows).names) or "none"
    if rules is not None:
        made = ", ".join(rules.rows)
        fine = finding(Verdict.OK, f"`processor` is given the columns {names}, and makes {made}")
        return rules.schema, [
            fine,
            *database_table.checked_references(session, pipeline, sorted({*rules.tables.values()})),
        ]
    if transform.frame is None:
        made = "`records` makes" if transform.records else "there is none; decoding makes"
        return rows, [finding(Verdict.OK, f"{made} the columns {names}")]
    return None, [
        finding(Verdict.OK, f"`frame` is given the columns {names}"),
        finding(Verdict.NOT_CHECKED, f"what `frame` returns, which takes Spark: tideline test {pipeline.name} FILE"),
    ]


def _of_transform(name: str, folder: Path, error: FatalError) -> Check:
    """Return an error of a transform as a finding. Its text may begin with the file's name, which is shown beside it."""
    path = folder / "transform.py"
    line = _line(error.__cause__, path) if error.__cause__ else None
    where = f"{shown(path)}:{line}" if line else shown(path)
    found = error.problem.removeprefix(f"{path}: ").removeprefix("transform.py: ")
    return Check(about=name, check=where, verdict=Verdict.BAD, found=found)


def _line(error: BaseException, path: Path) -> int | None:
    """Return the line of the file in which the error was raised; None if that is not known."""
    if isinstance(error, SyntaxError):
        return error.lineno if error.filename == str(path) else None
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
    return lines[-1] if lines else None


def _output(pipeline: Pipeline, produced: pa.Schema) -> Iterator[Check]:
    """Check what the declaration alone says of an output that is no table of this database."""
    where = f"{shown(pipeline.folder / 'pipeline.yaml')}: sink"
    try:
        problems = kinds.of(pipeline).misfits(pipeline, produced)
    except FatalError as error:
        yield Check(about=pipeline.name, check=where, verdict=Verdict.BAD, found=error.problem)
        return
    for problem in problems or ():
        yield Check(about=pipeline.name, check=where, verdict=Verdict.BAD, found=problem)
    if problems == []:
        found = f"what the transform returns fits {pipeline.sink.output}"
        yield Check(about=pipeline.name, check=where, verdict=Verdict.OK, found=found)


def _target(pipeline: Pipeline, known: TargetSql, produced: pa.Schema | None) -> Iterator[Check]:
    where = shown(pipeline.folder / "target.sql")

    def finding(verdict: Verdict, found: str) -> Check:
        return Check(about=pipeline.name, check=where, verdict=verdict, found=found)

    yield from (finding(Verdict.BAD, mistake) for mistake in known.mistakes)
    yield from (finding(Verdict.WARN, f"not understood: {fault}") for fault in known.not_understood)
    problems = known.problems(produced, pipeline)
    if problems is None:
        yield finding(Verdict.NOT_CHECKED, f"the columns of {pipeline.table_sink.table}: {known.why_unknown}")
        return
    yield from (finding(Verdict.BAD, problem) for problem in problems)
    if produced is None:
        yield finding(Verdict.NOT_CHECKED, f"whether what the transform returns fits {pipeline.table_sink.table}")
    elif lacks := known.lacks(produced, pipeline):
        yield finding(
            Verdict.WARN, f"lacks {fitting.listed(lacks)}: the first batch adds this to {pipeline.table_sink.table}"
        )
    elif not problems and not known.mistakes:
        yield finding(Verdict.OK, f"creates {pipeline.table_sink.table}, and what the transform returns fits it")
