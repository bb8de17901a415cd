"""The picture of the README is the one that its declaration describes."""

import runpy
from xml.etree import ElementTree as ET

from tideline.settings import PROJECT

FOLDER = PROJECT / "docs"
DRAWING = runpy.run_path(str(FOLDER / "architecture.py"))
PICTURE = (FOLDER / "architecture.svg").read_text(encoding="utf-8")


def test_the_picture_is_what_its_declaration_says():
    source = (FOLDER / "architecture.toml").read_text(encoding="utf-8")
    assert DRAWING["drawn"](source) == PICTURE, "draw it again: .local/env/bin/python docs/architecture.py"


def test_every_colour_has_a_value_for_light_and_for_dark_pages():
    light, dark = DRAWING["STYLE"].split("@media (prefers-color-scheme: dark)")
    assert names(light) == names(dark)


def names(style):
    return {word.strip().removesuffix(":") for word in style.split() if word.startswith("--")}


def test_the_picture_needs_nothing_from_elsewhere():
    """GitHub shows pictures without scripts, fonts and files of other places."""
    tags = {element.tag.rpartition("}")[2] for element in ET.fromstring(PICTURE).iter()}
    assert tags == {"svg", "title", "desc", "style", "marker", "path", "rect", "text"}
    assert "http" not in PICTURE.replace("http://www.w3.org/2000/svg", "")
