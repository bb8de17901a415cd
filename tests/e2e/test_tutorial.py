"""The tutorial: its commands run as they stand on the page, in order, and print what the page shows."""

import pytest

from tutorial_page import not_printed, play


@pytest.fixture(scope="module")
def compared(system, tmp_path_factory):
    """Run the page; return each output that it shows with what the commands before it print."""
    return play(system, tmp_path_factory.mktemp("tutorial"), page="tutorial.md", pipeline="shop_orders")


def test_every_command_of_the_page_succeeds_and_prints_what_it_shows(compared):
    assert len(compared) > 6
    assert not_printed(compared) == []


def test_in_the_end_each_record_is_in_the_table_once(system, compared):
    rows = system.rows("SELECT order_id, kafka_partition, kafka_offset FROM shop.orders ORDER BY order_id")
    assert [row[0] for row in rows] == [1, 2, 3, 4, 5, 6]
    assert len({row[1:] for row in rows}) == 6
