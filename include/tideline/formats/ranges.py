"""The bounds of values, which are the same in every format, and the words for what lies outside of them."""

INTEGERS = {"smallint": 16, "int": 32, "bigint": 64}
"""The bits of the types of whole numbers."""
FIRST_US, LAST_US = -62_135_596_800_000_000, 253_402_300_799_999_999
"""The years 1 to 9999, which is what Postgres and Python both have, in microseconds since 1970."""
FIRST_DAY, LAST_DAY = -719_162, 2_932_896
"""The same in days."""
NUL_IN_TEXT = "text holds U+0000, which PostgreSQL cannot store"
TOO_MANY = "a block has more items than bytes"
NOT_FINITE = "the number is not finite"
NO_SUCH_MOMENT = "the timestamp is outside of the years 1 to 9999"
