"""The tutorial of states: its commands run as they stand on the page, in order, and print what the page shows."""

import pytest

from tutorial_page import not_printed, play


@pytest.fixture(scope="module")
def compared(system, tmp_path_factory):
    """Run the page; return each output that it shows with what the commands before it print."""
    return play(system, tmp_path_factory.mktemp("sessions"), page="tutorial-sessions.md", pipeline="visits")


def test_every_command_of_the_page_succeeds_and_prints_what_it_shows(compared):
    assert len(compared) == 5
    assert not_printed(compared) == []


def test_in_the_end_each_event_is_folded_once(system, compared):
    counted = system.rows(
        "SELECT (SELECT sum(pages) FROM shop.visits)::int,"
        " (SELECT sum((value ->> 'pages')::int) FROM tideline.state WHERE pipeline = 'visits')::int"
    )
    assert counted == [(5, 2)]
