"""Flags offers that convert far less or far more than their baseline.

For each offer, impressions and conversions are counted in windows of an hour of event time, which begin with the first
event. A window that has ended is compared with the baseline: how many conversions an offer has for its impressions. So
an offer that is not shown at night is no anomaly, and one that is shown and converts no more is one.

The model: the rate of an offer has a Gamma distribution. It begins as that of all offers, with the weight of
`PRIOR_IMPRESSIONS`, and each impression and conversion of the baseline makes it more certain. The conversions of a
window are then negative binomial: a Poisson distribution whose rate is not known exactly. The score is -log10 of the
probability of as few conversions, or as many. 6 means once in a million windows. So

- a new offer, or one with few impressions in the baseline, is judged by the rate of all offers, and not harshly;
- an offer that has never converted is not flagged for going on so, and is flagged if it suddenly converts;
- a window in which few conversions are expected cannot tell: it goes on, hour by hour, for a day at most;
- conversions without any impression are judged as those of one impression;
- without a baseline nothing is flagged.
"""

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from math import lgamma, log, log1p
from typing import Any, NamedTuple

import pyarrow as pa

from tideline.processors import Processor, State

HOUR = timedelta(hours=1)
LONGEST = timedelta(days=1)
ENOUGH = 20
"""Expected conversions with which a window can tell: none at all then has a score of about 8."""
FLAGGED_FROM = 6.0
PRIOR_IMPRESSIONS = 1_000
COUNTED = {"impression": "impressions", "conversion": "conversions"}


class Rate(NamedTuple):
    """What is known of the conversions for each impression: a Gamma distribution."""

    conversions: float
    impressions: float

    def expected(self, impressions: int) -> float:
        """Return how many conversions are expected."""
        return self.conversions / self.impressions * impressions

    def score(self, seen: int, impressions: int) -> float:
        """Return -log10 of the probability of at most, or at least, as many conversions as were seen, whichever is the smaller side.

        It adds the terms of the tail relative to the first one, so that the smallest probability has a score.

        Args:
            seen: The conversions.
            impressions: The impressions, at least one.
        """
        odds = impressions / (self.impressions + impressions)
        is_low = seen < self.expected(impressions)
        n, term, total = seen, 1.0, 1.0
        while term > total * 1e-12 and (n > 0 or not is_low):
            if is_low:
                term *= n / ((n - 1 + self.conversions) * odds)
                n -= 1
            else:
                term *= (n + self.conversions) * odds / (n + 1)
                n += 1
            total += term
        return max(0.0, -(self._log_probability(seen, impressions) + log(total)) / log(10))

    def _log_probability(self, seen: int, impressions: int) -> float:
        """Return the logarithm of the negative binomial probability."""
        ways = lgamma(seen + self.conversions) - lgamma(self.conversions) - lgamma(seen + 1)
        none = -self.conversions * log1p(impressions / self.impressions)
        return ways + none + seen * log(impressions / (self.impressions + impressions))


class Baseline:
    """The rates of one version of the baseline."""

    def __init__(self, offers: list[dict[str, Any]]) -> None:
        self.version: int | None = offers[0]["version"] if offers else None
        impressions = sum(one["impressions"] for one in offers)
        conversions = sum(one["conversions"] for one in offers)
        # Half a conversion more, so that a rate is never 0 for certain.
        self._prior = Rate(PRIOR_IMPRESSIONS * conversions / max(1, impressions) + 0.5, PRIOR_IMPRESSIONS)
        self._offers = {one["offer_id"]: (one["conversions"], one["impressions"]) for one in offers}

    def rate(self, offer_id: int) -> Rate:
        """Return the rate of an offer; that of all offers if it is unknown."""
        conversions, impressions = self._offers.get(offer_id, (0, 0))
        return Rate(self._prior.conversions + conversions, self._prior.impressions + impressions)


class Anomalies(Processor):
    """Keeps the open window of each offer."""

    rows = {
        "offer_id": "bigint",
        "begins_at": "timestamp",
        "ends_at": "timestamp",
        "flag": "string",
        "score": "double",
        "expected": "double",
        "seen": "bigint",
        "impressions": "bigint",
        "model_version": "bigint",
    }
    tables = {"baseline": "ads.baseline_current"}

    def open(self, tables: Mapping[str, pa.Table]) -> None:
        """Take the newest version of the baseline."""
        self.baseline = Baseline(tables["baseline"].to_pylist())

    def on_record(self, key: int, record: dict[str, Any], state: State) -> None:
        """Count an event in the open window of its offer, or begin one."""
        at, kind = record["happened_at"], record["kind"]
        if kind not in COUNTED:
            raise ValueError(f"kind: expected impression or conversion, found {kind}")
        window = state.value or {"begins_at": at, "ends_at": _hour_after(at), "impressions": 0, "conversions": 0}
        window["begins_at"] = min(at, window["begins_at"])
        window[COUNTED[kind]] += 1
        state.value, state.expires_at = window, window["ends_at"]

    def on_expiry(self, key: int, state: State) -> Iterator[dict[str, Any]]:
        """Flag the window that has ended, let it end, or let it go on."""
        window, version = state.value, self.baseline.version
        if version is None:
            return
        seen, judged, rate = window["conversions"], max(1, window["impressions"]), self.baseline.rate(key)
        expected, score = rate.expected(judged), rate.score(seen, judged)
        if score >= FLAGGED_FROM:
            yield {
                "offer_id": key,
                "begins_at": window["begins_at"],
                "ends_at": window["ends_at"],
                "flag": "too few" if seen < expected else "too many",
                "score": round(score, 2),
                "expected": round(expected, 2),
                "seen": seen,
                "impressions": window["impressions"],
                "model_version": version,
            }
        elif expected < ENOUGH and window["ends_at"] - window["begins_at"] < LONGEST:
            ends_at = window["ends_at"] + HOUR
            state.value, state.expires_at = {**window, "ends_at": ends_at}, ends_at


def _hour_after(at: datetime) -> datetime:
    return at.replace(minute=0, second=0, microsecond=0) + HOUR


processor = Anomalies()
