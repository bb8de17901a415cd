"""Numbers at and beyond their limits, and numbers of another type."""

from faults.bad_input.fates import Rejected
from faults.bad_input.good import Change, each, fields_class, kept

NO_JSON = Rejected("decode", "not valid JSON")
NINES = "9" * 5000


def unfit(column: str, kind: str) -> Rejected:
    return Rejected("decode", f"{column}: expected {kind}, found ")


CLASSES = [
    fields_class(
        "limits of whole numbers",
        *kept("i8", {text: text for text in ("9223372036854775807", "-9223372036854775808")}),
        *kept("i4", {text: text for text in ("2147483647", "-2147483648")}),
        *kept("i2", {text: text for text in ("32767", "-32768")}),
        *kept("i2", {"-0": "0"}),
    ),
    fields_class(
        "one beyond 64 bits",
        *each("i8", "9223372036854775808", "-9223372036854775809"),
        fate=unfit("i8", "bigint"),
    ),
    fields_class("one beyond 32 bits", *each("i4", "2147483648", "-2147483649"), fate=unfit("i4", "int")),
    fields_class("one beyond 16 bits", *each("i2", "32768", "-32769"), fate=unfit("i2", "smallint")),
    fields_class("5,000 digits", *each("i8", NINES), *each("d", NINES), Change(more=f'"z": {NINES}'), fate=NO_JSON),
    fields_class(
        "beyond a double",
        *each("f8", "1e400", "-1e309", "1e131073"),
        *each("d", "1e400", "1e131073"),
        Change(more='"z": 1e400'),
        fate=NO_JSON,
    ),
    fields_class(
        "no numbers",
        *each("f8", "NaN", "-NaN", "Infinity", "-Infinity", "inf", "nan", "1.#INF"),
        *each("i4", "01", "+1", "1.", ".5", "-", "0x10", "1_000", "1e", "--1", "\u0661"),
        fate=NO_JSON,
    ),
    fields_class(
        "zeros",
        *kept("f8", {"-0.0": "-0", "-0": "-0", "0e5": "0", "0.0": "0", "-0e-5": "-0"}),
        *kept("f4", {"-0.0": "-0", "-0": "-0"}),
        *kept("d", {"-0.0": "0.0000", "-0": "0.0000", "0e5": "0.0000", '"0E-10"': "0.0000"}),
    ),
    fields_class(
        "numbers nearest to the given ones",
        *kept(
            "f8", {"1e-400": "0", "5e-324": "5e-324", "0.1": "0.1", "1.7976931348623157e308": "1.7976931348623157e+308"}
        ),
        *kept("f8", {"0.1000000000000000055511151231257827": "0.1", "9007199254740993": "9.007199254740992e+15"}),
        *kept("f4", {"16777217": "1.6777216e+07", "3.4028235677973366e38": "3.4028235e+38", "1e-46": "0"}),
        *kept("f8", {"1" * 300: "1.1111111111111112e+299", "0." + "0" * 4999 + "1": "0"}),
    ),
    fields_class("beyond 32 bits of a float", *each("f4", "1e39", "-3.5e38"), fate=unfit("f4", "float")),
    fields_class(
        "decimals at their limits",
        *kept("d", {"99999999.9999": "99999999.9999", "-99999999.99990": "-99999999.9999", "1.50000000": "1.5000"}),
        *kept("d", {'"12.5"': "12.5000", '"+.5"': "0.5000", '"1e2"': "100.0000", "1E-4": "0.0001"}),
        *kept("e", {"1e27": f"1{'0' * 27}.0000000000", f"1{'0' * 38}e-38": "1.0000000000"}),
    ),
    fields_class("1E30 in a decimal", *each("e", "1E30", "-1E30", "1e28"), fate=unfit("e", "decimal(38,10)")),
    fields_class(
        "decimals too large",
        *each("d", "100000000", "123456789012", '"1e999999999"', f'"{NINES}"'),
        fate=unfit("d", "decimal(12,4)"),
    ),
    fields_class(
        "too many decimal places",
        *each("d", "1.23456", "0.00001", '"1.00001"', "1e-5"),
        fate=unfit("d", "decimal(12,4)"),
    ),
    # Without a check each of these would end the process that reads it, or become another number.
    fields_class(
        "places beyond a table's end",
        *each(
            "d", "1e-999999999", '"0e-999999999"', '"0\\u0065-999999999"', '"1e\\u002d999999999"', "1e-196", "5e-100"
        ),
        *each("d", "0." + "0" * 70 + "5e-9", '"\\u0035e-99"', f"5{'0' * 39}e-100"),
        fate=unfit("d", "decimal(12,4)"),
    ),
    fields_class(
        "text that is no decimal",
        *each(
            "d",
            '"NaN"',
            '"Infinity"',
            '"1_0"',
            '"0x10"',
            '" 1"',
            '"1 "',
            '""',
            '"-"',
            '"\u0661"',
            '"1,5"',
            '"1e"',
            "true",
        ),
        fate=unfit("d", "decimal(12,4)"),
    ),
    fields_class("a fraction in a whole number", *each("i4", "1.0", "1.5", "1e2", "-0.0"), fate=unfit("i4", "int")),
    fields_class("a boolean in a whole number", *each("i4", "true", "false"), fate=unfit("i4", "int")),
    fields_class("text in a whole number", *each("i4", '"12"', '""', '"x"'), fate=unfit("i4", "int")),
    fields_class("no boolean", *each("b", "1", "0", '"true"', '""', "[]"), fate=unfit("b", "boolean")),
    fields_class("text in a float", *each("f8", '"0.5"', '"NaN"', "true", "{}"), fate=unfit("f8", "double")),
    fields_class("a number in text", *each("s", "5", "1e5", "true", "{}", "[]"), fate=unfit("s", "string")),
]
