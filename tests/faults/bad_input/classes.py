"""Every kind of record that is sent, good and bad, by its name."""

from faults.bad_input import of_bytes, of_moments, of_numbers, of_records, of_shapes, of_tables, of_texts
from faults.bad_input.fates import Class
from faults.bad_input.good import GOOD

BAD: tuple[Class, ...] = tuple(
    one
    for room in (of_numbers, of_moments, of_texts, of_shapes, of_bytes, of_records, of_tables)
    for one in room.CLASSES
)
"""All that is odd. Much of it is written all the same, exactly as it is."""
CLASSES: dict[str, Class] = {one.name: one for one in (GOOD, *BAD)}
