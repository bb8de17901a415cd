"""All classes of records that are sent, good and bad, by name."""

from faults.bad_input import of_bytes, of_moments, of_numbers, of_records, of_shapes, of_tables, of_texts
from faults.bad_input.fates import Class
from faults.bad_input.good import GOOD

MODULES = (of_numbers, of_moments, of_texts, of_shapes, of_bytes, of_records, of_tables)
BAD: tuple[Class, ...] = tuple(one for module in MODULES for one in module.CLASSES)
"""All unusual classes. Many of them are still written, unchanged."""
CLASSES: dict[str, Class] = {one.name: one for one in (GOOD, *BAD)}
