"""A reason is one line that can be stored and shown, whatever text an error has."""

import pytest

from tideline.domain.reject_reasons import MAX_REASON, of_error, one_line


class SpeechlessError(Exception):
    def __str__(self):
        raise RuntimeError("cannot say")


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (ValueError("no\nbatch 7 is published"), "ValueError: no"),
        (ValueError("\x1b[2J\x1b[31mred\x00"), "ValueError: \\x1b[2J\\x1b[31mred\\x00"),
        (ValueError("half \ud800"), "ValueError: half \\ud800"),
        (ValueError("\u202egnp\u2028"), "ValueError: \\u202egnp"),
        (ValueError("%s {} 'a' é"), "ValueError: %s {} 'a' é"),
        (ValueError(), "ValueError"),
        (SpeechlessError(), "SpeechlessError"),
    ],
)
def test_an_error_is_one_line_without_what_a_terminal_obeys(error, expected):
    assert of_error(error) == expected


@pytest.mark.parametrize("text", ["\x1b" * 1000, "é" * 1000, "\U000e0001" * 499])
def test_a_reason_stays_short_when_it_is_escaped(text):
    said = one_line(text)
    assert len(said) <= MAX_REASON
    assert said.isprintable()
