"""The formats that a declaration can name. A new one is a module and an entry here, see docs/contributing-a-format.md."""

from collections.abc import Mapping
from pathlib import Path

from tideline.declaration.source import Key, Value
from tideline.formats import json_format, whole_bytes
from tideline.formats.avro import avro_format
from tideline.formats.format import Format, MakesFormat

FORMATS: Mapping[str, MakesFormat] = {
    "json": json_format.declared,
    "text": whole_bytes.declared,
    "bytes": whole_bytes.declared,
    "avro": avro_format.declared,
}


def declared(section: Value | Key, folder: Path) -> Format:
    """Return the format that a section of the declaration in `folder` names.

    Raises:
        FatalError: What the section names, such as a file, is not there or does not fit the columns.
    """
    return FORMATS[section.format](section, folder)
