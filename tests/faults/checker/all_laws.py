"""All laws over what was found."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import chain
from uuid import UUID

from faults.checker import announced, attempts, coverage, ended, heads, history, tallies
from faults.checker.facts import Found, Truth, Violation
from faults.checker.index import Index, index
from faults.checker.laws import LAWS
from faults.checker.records import records

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
    announced.outbox,
    announced.announced_twice,
)
"""What the ledger has to say for itself, without Kafka and the output."""

AT_MOST = 20
"""Of one law: when everything is lost a report need not hold it all."""


def violations(
    found: Found, truth: Truth, *, quiet: bool, follows: Collection[tuple[UUID, int]] = (), pruned: bool = False
) -> list[Violation]:
    """What does not hold, at most a few of each law and then how many more there are.

    Args:
        found: The ledger and the output of one moment.
        truth: What Kafka held, and what the transform makes of it.
        quiet: All faults have ended and every run is through: nothing may be left open.
        follows: Topic id and partition of all that must have a stream when it is quiet.
        pruned: Upkeep has deleted old events, so that the histories of finished work may begin anywhere.
    """
    ledger = index(found, pruned=pruned)
    at_rest: tuple[Iterator[Violation], ...] = ()
    if quiet:
        at_rest = (
            ended.jammed(ledger),
            ended.unread(ledger, truth),
            ended.unfollowed(ledger, follows),
            announced.unannounced(ledger),
        )
    return few(chain(_of_the_ledger(ledger), records(ledger, truth), *at_rest))


def violations_of_the_ledger(found: Found, *, pruned: bool) -> list[Violation]:
    """The laws that need neither Kafka nor the output; they hold at every moment."""
    return few(_of_the_ledger(index(found, pruned=pruned)))


def _of_the_ledger(ledger: Index) -> Iterator[Violation]:
    return chain.from_iterable(law(ledger) for law in OF_THE_LEDGER)


def few(seen: Iterable[Violation]) -> list[Violation]:
    """The first ones of each law, and how many more."""
    number: Counter[str] = Counter()
    kept = []
    for violation in seen:
        number[violation.law] += 1
        if number[violation.law] <= AT_MOST:
            kept.append(violation)
    more = {law: count - AT_MOST for law, count in number.items() if count > AT_MOST}
    unknown = sorted(number.keys() - LAWS.keys())
    if unknown:
        raise ValueError(f"violations of laws that nobody has written down: {unknown}")
    return kept + [Violation(law, "elsewhere", f"{count} more") for law, count in more.items()]
