"""Convert texts to the values that binary COPY sends for types of Postgres that no Arrow column has.

The law: a text that Postgres would refuse, or would read as something else than it says, is a ValueError.
"""

import re
from collections.abc import Callable
from datetime import time
from functools import partial
from ipaddress import IPv4Interface, ip_interface

import pyarrow as pa

_ADDRESS = re.compile(r"[0-9a-fA-F.:]+(/\d{1,3})?", re.ASCII)
"""Without zones such as `%eth0`, and without masks such as `/255.0.0.0`, which Python reads as well."""
_TIME = re.compile(r"([01]\d|2[0-3]):[0-5]\d(:[0-5]\d(\.\d{1,6})?)?", re.ASCII)
# What stands behind T must follow; weeks may stand beside other parts, as Postgres allows.
_INTERVAL = re.compile(
    r"(?P<sign>-?)P(?=[\d-]|T)(?:(?P<years>-?\d+)Y)?(?:(?P<months>-?\d+)M)?(?:(?P<weeks>-?\d+)W)?(?:(?P<days>-?\d+)D)?"
    r"(?:T(?=[\d-])(?:(?P<hours>-?\d+)H)?(?:(?P<minutes>-?\d+)M)?(?:(?P<seconds>-?\d+(?:\.\d{1,6})?)S)?)?",
    re.ASCII,
)
_IPV4, _IPV6 = 2, 3
"""How Postgres numbers families of addresses."""
_INT32 = 1 << 31
_INT64_US = 1 << 63
_US = 1_000_000


def _address(text: str, *, is_cidr: bool) -> bytes:
    """Return an address as Postgres sends it: family, bits of the network, whether it is a network, length, bytes."""
    if not _ADDRESS.fullmatch(text):
        raise ValueError("expected an IP address, with the bits of its network behind a slash or without")
    found = ip_interface(text)
    if is_cidr and found.ip != found.network.network_address:
        raise ValueError("the address has bits to the right of its network")
    family = _IPV4 if isinstance(found, IPv4Interface) else _IPV6
    return bytes((family, found.network.prefixlen, is_cidr, len(found.packed))) + found.ip.packed


def _time(text: str) -> time:
    if not _TIME.fullmatch(text):
        raise ValueError("expected a time of the day such as 23:59:59.5, without a zone")
    return time.fromisoformat(text)


def _interval(text: str) -> tuple[int, int, int]:
    """Return months, days and nanoseconds."""
    found = _INTERVAL.fullmatch(text)
    if found is None:
        raise ValueError("expected an interval by ISO 8601, such as P1Y2M3DT4H5M6.5S")
    sign = -1 if found["sign"] else 1
    years, months, weeks, days, hours, minutes = (
        int(found[name] or 0) for name in ("years", "months", "weeks", "days", "hours", "minutes")
    )
    whole, _, fraction = (found["seconds"] or "0").partition(".")
    part = int(fraction.ljust(6, "0") or 0) * (-1 if whole.startswith("-") else 1)
    us = ((hours * 60 + minutes) * 60 + int(whole)) * _US + part
    in_months, in_days = sign * (12 * years + months), sign * (7 * weeks + days)
    if not (-_INT32 <= in_months < _INT32 and -_INT32 <= in_days < _INT32 and abs(us) * 1_000 < _INT64_US):
        raise ValueError("interval out of range")
    return in_months, in_days, sign * us * 1_000


OF_TEXT: dict[str, tuple[Callable[[str], object], pa.DataType]] = {
    "inet": (partial(_address, is_cidr=False), pa.binary()),
    "cidr": (partial(_address, is_cidr=True), pa.binary()),
    "time without time zone": (_time, pa.time64("us")),
    "interval": (_interval, pa.month_day_nano_interval()),
}
"""How a text is read for a type, and the Arrow type that COPY needs."""


def of_text(values: pa.ChunkedArray, type_name: str) -> pa.ChunkedArray:
    """Return texts as values of one of the types of `OF_TEXT`.

    Raises:
        ValueError: A text is no such value.
    """
    read, kind = OF_TEXT[type_name]
    return pa.chunked_array([[None if one is None else read(one) for one in values.to_pylist()]], kind)
