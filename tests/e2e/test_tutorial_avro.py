"""The tutorial of Avro: its commands run as they stand on the page, in order, and print what the page shows."""

import pytest

from tutorial_page import not_printed, play


@pytest.fixture(scope="module")
def compared(system, tmp_path_factory):
    """Run the page; return each output that it shows with what the commands before it print."""
    return play(system, tmp_path_factory.mktemp("deliveries"), page="tutorial-avro.md", pipeline="deliveries")


def test_every_command_of_the_page_succeeds_and_prints_what_it_shows(compared):
    assert len(compared) == 6
    assert not_printed(compared) == []


def test_in_the_end_each_delivery_is_in_the_table_once_with_its_tip(system, compared):
    rows = system.rows("SELECT delivery_id, tip FROM shop.deliveries ORDER BY delivery_id")
    assert rows == [(1, None), (2, None), (3, None), (4, 1)]
