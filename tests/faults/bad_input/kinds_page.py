"""Write KINDS.md, the list of all kinds of bad records:

PYTHONPATH=tests:tests/integration .local/env/bin/python -m faults.bad_input.kinds_page
"""

from pathlib import Path

from faults.bad_input import framed_records
from faults.bad_input.classes import BAD, MODULES

PAGE = Path(__file__).with_name("KINDS.md")
COMMAND = "PYTHONPATH=tests:tests/integration .local/env/bin/python -m faults.bad_input.kinds_page"


def page() -> str:
    """Return the text of KINDS.md."""
    n_framed = sum(len(one.bad) for one in framed_records.FORMATS.values())
    head = (
        "# Bad input\n\n"
        f"{len(BAD)} kinds of records in JSON, text and bytes, and {n_framed} in Avro, Protobuf and Debezium's changes.\n"
        "The expected result of each is written by hand in the module of its section.\n"
        "[reliability.md](../../../docs/reliability.md#bad-input) says what is checked. This page is written by\n\n"
        f"    {COMMAND}\n"
    )
    sections = (
        f"## {module.__name__.rpartition('.')[2]}.py\n\n{module.__doc__}\n\n"
        + "\n".join(f"- {kind.name}" for kind in module.CLASSES)
        + "\n"
        for module in MODULES
    )
    formats = (
        f"## framed_records.py: {name}\n\nRecords of the format {name}.\n\n"
        + "\n".join(f"- {kind}" for kind in one.bad)
        + "\n"
        for name, one in framed_records.FORMATS.items()
    )
    return "\n".join([head, *sections, *formats])


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
