"""Builds the report of `tideline doctor`: all checks, each after the checks that it depends on."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from functools import partial

from tideline import flow, settings
from tideline.declaration import pipelines as declarations
from tideline.declaration.pipelines import Broken, Pipeline
from tideline.domain.checks import Check, Verdict, ok, warn
from tideline.errors import NeedsOperatorError, TidelineError
from tideline.inspection.brokers import Answer, ask_all
from tideline.inspection.comparison import against
from tideline.kafka.broker import Broker
from tideline.ledger import invariants, published_rows, queries
from tideline.ledger.connection import Ledger
from tideline.ledger.published_rows import Published
from tideline.ledger.queries import Row
from tideline.ledger.sessions import ledger, moment
from tideline.reports.checks import environment, failed, guarded, outside, rows, sources
from tideline.reports.checks import ledger as ledger_checks
from tideline.reports.report import Grid, Report
from tideline.sinks import kinds

_VERDICTS = (Verdict.OK, Verdict.WARN, Verdict.BAD)
_FIRST = {"connection", "migrations", "pooler"}
"""Checks of the ledger without which no other one is possible."""


def doctor(name: str | None, *, all_rows: bool = False) -> Report:
    """Make all checks of all pipelines, or of one. With `all_rows` the rows of all batches are compared, not only of the newest.

    Raises:
        FatalError: Neither the declarations nor the ledger know the pipeline.
    """
    checks = list(_checks(name, None if all_rows else rows.NEWEST))
    counts = {str(verdict): sum(check.verdict is verdict for check in checks) for verdict in _VERDICTS}
    grid = Grid(
        columns=("verdict", "about", "check", "found", "what to do"),
        rows=[(check.verdict, check.about, check.check, check.found, check.next_step or "") for check in checks],
    )
    document = {"ok": not counts["bad"], "counts": counts, "checks": [_document(check) for check in checks]}
    summary = ", ".join(f"{count} {verdict}" for verdict, count in counts.items())
    exit_code = NeedsOperatorError.exit_code if counts["bad"] else 0
    return Report(document=document, parts=[grid, summary], exit_code=exit_code)


def _document(check: Check) -> dict[str, str | None]:
    return {
        "verdict": str(check.verdict),
        "about": check.about,
        "check": check.check,
        "found": check.found,
        "next_step": check.next_step,
    }


def _checks(name: str | None, most: int | None) -> Iterator[Check]:
    yield environment.packages()
    with ExitStack() as stack:
        session: Ledger | None = None
        try:
            session = stack.enter_context(ledger(of_any_release=True))
        except TidelineError as error:
            yield failed("ledger", "connection", error)
        if session:
            found = list(_in_snapshot(session, "connection", ledger_checks.database))
            if lost := [check for check in _pooler(settings.LEDGER_URL) if check.verdict is Verdict.BAD]:
                found = lost
            yield from found
            if any(check.verdict is Verdict.BAD and check.check in _FIRST for check in found):
                session = None  # no other check of the ledger is possible
        if session:
            yield from _rights()
            yield from _in_snapshot(session, "staging", ledger_checks.staging)
        yield from _pipelines(session, name, most)


def _in_snapshot(
    session: Ledger, check: str, ask: Callable[[Ledger], Iterable[Check]], *, about: str = "ledger"
) -> Iterator[Check]:
    """Yield the checks that `ask` makes on one consistent snapshot of the ledger."""

    def all_checks() -> list[Check]:
        with moment(session):
            return list(ask(session))

    return guarded(about, check, all_checks)


def _as_role(
    variable: str, check: str, ask: Callable[[Ledger], Iterable[Check]], *, about: str = "ledger"
) -> Iterator[Check]:
    """Yield the checks that `ask` makes as the role whose URL a variable holds."""

    def all_checks() -> list[Check]:
        with ledger(variable=variable, of_any_release=True) as session, moment(session):
            return list(ask(session))

    return guarded(about, check, all_checks)


def _pooler(variable: str) -> Iterator[Check]:
    return guarded("ledger", "pooler", lambda: [ledger_checks.pooler(variable)])


def _prompt(variable: str) -> Iterable[Check]:
    return [ledger_checks.prompt(variable)]


def _rights() -> Iterator[Check]:
    """Check the rights and the sessions of each role that this shell has a URL of."""
    served: dict[str, list[str]] = {}
    for duty, variable in settings.variables_by_duty().items():
        served.setdefault(variable, []).append(duty)
    for variable, duties in served.items():
        yield from _as_role(variable, "rights", partial(_rights_of, variable, duties))
        yield from _pooler(variable)
        yield from guarded("ledger", "sessions", partial(_prompt, variable))


def _rights_of(variable: str, duties: list[str], session: Ledger) -> Iterable[Check]:
    return [ledger_checks.rights(session, variable, duties), ledger_checks.user(session, variable, duties)]


def _pipelines(session: Ledger | None, name: str | None, most: int | None) -> Iterator[Check]:
    """Check the pipelines and Airflow. Raise FatalError if neither the declarations nor the ledger know `name`."""
    declared = {one.name: one for one in declarations.declared()}
    known: dict[str, list[Row]] = {}
    retired: set[str] = set()
    if session:
        with moment(session):
            known = {one: queries.streams(session, one) for one in queries.names(session)}
            retired = queries.retired(session)
    wanted = sorted(declared.keys() | known.keys()) if name is None else [name]
    if name is not None and name not in declared and name not in known:
        declarations.load_named(name)
    ready = [one for key in wanted if isinstance(one := declared.get(key), Pipeline)]
    answers = ask_all(ready, known)
    for key in wanted:
        yield from _declared(key, declared.get(key), answers, known.get(key, []), is_retired=key in retired)
        pipeline = declared.get(key)
        if isinstance(pipeline, Pipeline):
            yield from _output(session, pipeline, most, answers[key], is_known=key in known)
        if session and key in known:
            yield from _in_snapshot(session, "laws", _laws_of(key), about=key)
    for pipeline in ready:
        yield from environment.notifier(pipeline)
    yield from environment.orchestrator(ready)


def _output(
    session: Ledger | None, pipeline: Pipeline, most: int | None, answer: Answer, *, is_known: bool
) -> Iterator[Check]:
    name = pipeline.name
    if session and not kinds.of(pipeline).is_outside:
        yield from _as_role(settings.WRITER_URL, "output", _output_of(pipeline), about=name)
        if is_known:
            yield from _as_role(settings.WRITER_URL, "output rows", _output_rows_of(pipeline), about=name)
            yield from _as_role(settings.WRITER_URL, "rows", partial(_rows_of_table, pipeline, most), about=name)
    if session and not (answer.problem and flow.has_topics(pipeline)):  # each question to dead brokers takes its time
        yield from guarded(name, "claims", partial(_claims, session, pipeline))
    if session and kinds.of(pipeline).is_outside:
        yield from guarded(name, "receipts", partial(_receipts, session, pipeline))
        yield from guarded(name, "rows", partial(_rows_outside, session, pipeline, most))
    yield from guarded(name, "memory", partial(outside.memory, pipeline))
    yield from guarded(name, "commits", partial(outside.commits, session, pipeline))


def _declared(
    name: str,
    declared: Pipeline | Broken | None,
    answers: Mapping[str, Answer],
    known: list[Row],
    *,
    is_retired: bool,
) -> Iterator[Check]:
    if declared is None and is_retired:
        yield ok(name, "declaration", "retired: no folder declares it, and nothing is loaded")
    elif declared is None:
        yield warn(
            name,
            "declaration",
            "the ledger knows it, but no folder declares it: nothing is loaded",
            f"restore its folder; if it was discontinued: tideline retire {name} --reason ...",
        )
    elif isinstance(declared, Broken):
        yield failed(name, "declaration", declared.error)
    else:
        answer = answers[name]
        yield ok(name, "declaration", "has no mistakes")
        yield from sources.brokers(declared, answer, known)
        yield from sources.topics(declared, answer)
        yield from sources.streams(declared, answer, against(known, answer))


def _output_of(pipeline: Pipeline) -> Callable[[Ledger], Iterable[Check]]:
    return lambda session: [ledger_checks.output(session, pipeline)]


def _output_rows_of(pipeline: Pipeline) -> Callable[[Ledger], Iterable[Check]]:
    return lambda session: ledger_checks.output_rows(session, pipeline)


def _claims(session: Ledger, pipeline: Pipeline) -> Iterable[Check]:
    """Ask the brokers first: the clusters of topics are asked outside of the ledger's transaction."""
    outputs = flow.outputs(pipeline, Broker(pipeline.source))
    with moment(session):
        return list(ledger_checks.claims(session, pipeline.name, outputs))


def _rows_of_table(pipeline: Pipeline, most: int | None, session: Ledger) -> Iterable[Check]:
    return rows.of_table(session, pipeline, most=most)


def _rows_outside(session: Ledger, pipeline: Pipeline, most: int | None) -> Iterable[Check]:
    def read() -> list[Published]:
        with moment(session):
            return published_rows.published(session, pipeline.name, pipeline.sink.output, most=most)

    yield from rows.of_ranges(pipeline, read)
    with moment(session):
        batches = published_rows.sent(session, pipeline.name, pipeline.sink.output, most=most)
    yield from rows.of_batches(pipeline, batches)


def _receipts(session: Ledger, pipeline: Pipeline) -> Iterable[Check]:
    """Read the ledger first: the sink is asked outside of its transaction."""
    with moment(session):
        batches = invariants.outside_batches(session, pipeline.name, most=outside.MOST)
    return outside.receipts(session, pipeline, batches)


def _laws_of(name: str) -> Callable[[Ledger], Iterable[Check]]:
    return lambda session: ledger_checks.laws(session, name)
