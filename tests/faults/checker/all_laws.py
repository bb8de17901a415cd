"""Check every law against the facts that were found."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import chain
from uuid import UUID

from faults.checker import announced, attempts, coverage, ended, heads, history, outside, states, tallies
from faults.checker.facts import Found, Truth, Violation
from faults.checker.folds import folds
from faults.checker.index import Index, index
from faults.checker.laws import LAWS
from faults.checker.records import records
from faults.checker.visits import Rules

OF_THE_LEDGER: tuple[Callable[[Index], Iterator[Violation]], ...] = (
    heads.twins,
    heads.head_behind_start,
    heads.head_moved_back,
    heads.head_history,
    heads.advanced_early,
    coverage.gap,
    coverage.overlap,
    coverage.head_beyond_coverage,
    coverage.owner,
    coverage.superseded,
    coverage.hole,
    coverage.forgotten_and_usurped,
    tallies.counts,
    attempts.fence,
    attempts.winner,
    attempts.open_attempt,
    attempts.reserved,
    attempts.reserved_twice,
    history.illegal_transition,
    history.broken_chain,
    history.state,
    states.folded,
    states.folded_in_order,
    states.rewound,
    states.position,
    states.undo,
    states.watermark,
    outside.settled,
    outside.committed,
    announced.outbox,
    announced.announced_twice,
)
"""Laws that need only the ledger, without Kafka and the output."""

AT_MOST = 20
"""How many violations of one law are reported: when everything is lost, a report need not list every record."""


def violations(
    found: Found,
    truth: Truth,
    *,
    quiet: bool,
    follows: Collection[tuple[UUID, int]] = (),
    pruned: bool = False,
    visits: Rules | None = None,
) -> list[Violation]:
    """Return the violations: at most a few of each law, and the number of the others.

    Args:
        found: The ledger and the output, from one snapshot.
        truth: What Kafka held, and what the transform makes of each record.
        quiet: All faults have ended and every run has finished: nothing may be left open.
        follows: Topic id and partition of everything that must have a stream when `quiet` is set.
        pruned: Upkeep has deleted old events, so the history of finished work may begin at any state.
        visits: How a stateful pipeline folds the records; None for any other one.
    """
    ledger = index(found, pruned=pruned)
    at_rest: tuple[Iterator[Violation], ...] = ()
    if quiet:
        at_rest = (
            ended.jammed(ledger),
            states.waiting(ledger),
            ended.unread(ledger, truth),
            ended.unfollowed(ledger, follows),
            announced.unannounced(ledger),
            outside.unsettled(ledger),
        )
    loaded = records(ledger, truth) if visits is None else folds(ledger, truth, visits)
    return few(chain(_of_the_ledger(ledger), loaded, *at_rest))


def violations_of_the_ledger(found: Found, *, pruned: bool) -> list[Violation]:
    """Return violations of the laws that need neither Kafka nor the output. These laws hold at every moment."""
    return few(_of_the_ledger(index(found, pruned=pruned)))


def _of_the_ledger(ledger: Index) -> Iterator[Violation]:
    return chain.from_iterable(law(ledger) for law in OF_THE_LEDGER)


def few(seen: Iterable[Violation]) -> list[Violation]:
    """Keep the first violations of each law, and count the others."""
    number: Counter[str] = Counter()
    kept = []
    for violation in seen:
        number[violation.law] += 1
        if number[violation.law] <= AT_MOST:
            kept.append(violation)
    more = {law: count - AT_MOST for law, count in number.items() if count > AT_MOST}
    unknown = sorted(number.keys() - LAWS.keys())
    if unknown:
        raise ValueError(f"violations of laws that LAWS does not list: {unknown}")
    return kept + [Violation(law, "elsewhere", f"{count} more") for law, count in more.items()]
