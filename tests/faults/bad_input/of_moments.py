"""Dates and timestamps: of unusual years, not in the calendar, without a zone."""

from faults.bad_input.good import each, fields_class, kept
from faults.bad_input.of_numbers import unfit

NO_DATE = unfit("day", "date as 2026-01-31")
NO_MOMENT = unfit("t", "timestamp with a zone, to the microsecond")


def quoted(*texts: str) -> list[str]:
    return [f'"{text}"' for text in texts]


CLASSES = [
    fields_class(
        "the year 0",
        *kept("day", {'"0000-01-01"': "0001-01-01 BC", '"0000-02-29"': "0001-02-29 BC"}),
        *kept("t", {'"0000-01-01T00:00:00Z"': "0001-01-01 00:00:00 BC"}),
    ),
    fields_class(
        "the last year and the first",
        *kept("day", {'"9999-12-31"': "9999-12-31", '"0001-01-01"': "0001-01-01"}),
        *kept("t", {'"9999-12-31T23:59:59.999999Z"': "9999-12-31 23:59:59.999999"}),
        *kept("t", {'"9999-12-31T23:59:59-01:00"': "10000-01-01 00:59:59"}),
    ),
    fields_class("a year beyond four digits", *each("day", *quoted("10000-01-01", "+10000-01-01")), fate=NO_DATE),
    fields_class("a moment beyond four digits", *each("t", *quoted("10000-01-01T00:00:00Z")), fate=NO_MOMENT),
    fields_class("a year before the first", *each("day", *quoted("-0001-01-01", "0001-01-01 BC")), fate=NO_DATE),
    fields_class(
        "a day of no calendar",
        *each("day", *quoted("2026-02-30", "2023-02-29", "2026-13-01", "2026-00-10", "1900-02-29", "2026-04-31")),
        fate=NO_DATE,
    ),
    fields_class("a leap day", *kept("day", {'"2024-02-29"': "2024-02-29", '"2000-02-29"': "2000-02-29"})),
    fields_class(
        "a leap second or an hour 24",
        *each("t", *quoted("2016-12-31T23:59:60Z", "2026-01-01T24:00:00Z", "2026-01-01T12:60:00Z")),
        fate=NO_MOMENT,
    ),
    fields_class(
        "a timestamp without a zone",
        *each(
            "t", *quoted("2026-01-02T03:04:05", "2026-01-02", "2026-01-02T03:04:05.123456", "2026-01-02T03:04:05 CET")
        ),
        fate=NO_MOMENT,
    ),
    fields_class(
        "zones of every form",
        *kept(
            "t",
            {
                '"2026-01-02 03:04:05+02:00"': "2026-01-02 01:04:05",
                '"2026-01-02T03:04:05.1-0030"': "2026-01-02 03:34:05.1",
            },
        ),
        *kept("t", {'"2026-01-02T03:04:05-08"': "2026-01-02 11:04:05", '"2026-01-02T03:04Z"': "2026-01-02 03:04:00"}),
        *kept("t", {'"2026-01-02T03:04:05-00:00"': "2026-01-02 03:04:05"}),
    ),
    fields_class(
        "finer than a microsecond",
        *each("t", *quoted("2026-01-02T03:04:05.1234567Z", "2026-01-02T03:04:05.123456789Z")),
        fate=NO_MOMENT,
    ),
    fields_class(
        "a moment in other words",
        *each(
            "t",
            "1767322800",
            "1767322800.5",
            *quoted("20260102T030405Z", "2026-W01-1T00:00:00Z", "now", "infinity", ""),
        ),
        *each(
            "t",
            *quoted(
                "2026-01-02T03:04:05z", "2026-01-02T03:04:05 Z", "2026-01-02T03:04:05,5Z", "\u0662026-01-02T03:04:05Z"
            ),
        ),
        fate=NO_MOMENT,
    ),
    fields_class(
        "a date in other words",
        *each(
            "day",
            "20454",
            *quoted("20260102", "2026-1-2", "2026-W01-1", "today", "epoch", " 2026-01-02", "02/01/2026", ""),
        ),
        fate=NO_DATE,
    ),
]
