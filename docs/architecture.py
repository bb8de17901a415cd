"""Draw docs/architecture.svg, the picture of the README, from docs/architecture.toml.

Run it: .local/env/bin/python docs/architecture.py
"""  # noqa: INP001 - a script beside its picture, not a package

import tomllib
from pathlib import Path
from xml.etree import ElementTree as ET

SOURCE = Path(__file__).with_suffix(".toml")
PICTURE = Path(__file__).with_suffix(".svg")
LINE = 22
"""Height of a line of text, in pixels. Text has 17 pixels, so that it can be read on a phone, at half the size."""
AROUND = 15
"""Pixels by which an arrow leaves on the left, to go around other boxes."""
# The picture has a background of its own. So it can be read also where the page and the system disagree about dark mode.
STYLE = """
svg { --back: #ffffff; --text: #1f2933; --faint: #52606d; --line: #7b8794; --panel: #f4f6f8; --edge: #d5dbe1;
  --task: #d9f2f0; --task-edge: #1b9a91; --spark: #fdebd8; --spark-edge: #dd7a1c; --kafka: #ece8f8; --kafka-edge: #7a5fc0;
  --table: #e1ecfa; --table-edge: #5b8fd0; --commit: #cfe2fb; --commit-edge: #1f62bd; }
@media (prefers-color-scheme: dark) {
  svg { --back: #0d1117; --text: #e6edf3; --faint: #a9b4c0; --line: #7d8794; --panel: #161c24; --edge: #303a46;
    --task: #0f3835; --task-edge: #3fbcb2; --spark: #44290f; --spark-edge: #f0a04b; --kafka: #2b2347; --kafka-edge: #a58ee6;
    --table: #172d4a; --table-edge: #6aa0e0; --commit: #1b4478; --commit-edge: #8fc0ff; }
}
text { font: 17px system-ui, -apple-system, "Segoe UI", Roboto, Helvetica, Arial, sans-serif; fill: var(--faint); text-anchor: middle; }
text.title { font-weight: 600; font-size: 19px; fill: var(--text); }
text.label { font-size: 16px; }
text.beside { text-anchor: start; }
rect { stroke-width: 1.5; }
.back { fill: var(--back); }
.panel { fill: var(--panel); stroke: var(--edge); }
.task { fill: var(--task); stroke: var(--task-edge); }
.spark { fill: var(--spark); stroke: var(--spark-edge); }
.kafka { fill: var(--kafka); stroke: var(--kafka-edge); }
.table { fill: var(--table); stroke: var(--table-edge); }
.transaction { fill: var(--commit); stroke: var(--commit-edge); stroke-width: 3; }
.other { fill: var(--panel); stroke: var(--edge); }
.note { fill: none; stroke: var(--line); stroke-dasharray: 5 5; }
path { fill: none; stroke: var(--line); stroke-width: 2; marker-end: url(#head); }
#head path { fill: var(--line); stroke: none; marker-end: none; }
"""


def drawn(source: str) -> str:
    """Return the SVG of a declaration of boxes and arrows."""
    declared = tomllib.loads(source)
    width, height = declared["size"]
    view = {"width": width, "height": height, "viewBox": f"0 0 {width} {height}", "role": "img"}
    svg = _add(None, "svg", xmlns="http://www.w3.org/2000/svg", **view)
    _add(svg, "title", declared["title"])
    _add(svg, "desc", " ".join(declared["description"].split()))
    _add(svg, "style", STYLE)
    head = {"viewBox": "0 0 10 10", "refX": 9, "refY": 5, "markerWidth": 6, "markerHeight": 6, "orient": "auto"}
    _add(_add(svg, "marker", id="head", **head), "path", d="M0 0 10 5 0 10z")
    _add(svg, "rect", width=width, height=height, rx=14, **{"class": "back"})
    boxes = declared["boxes"]
    for box in boxes.values():
        _draw_box(svg, **box)
    for arrow in declared["arrows"]:
        begin, end = (boxes[arrow.pop(name)]["place"] for name in ("from", "to"))
        _draw_arrow(svg, begin, end, **arrow)
    ET.indent(svg)
    return ET.tostring(svg, encoding="unicode") + "\n"


def _add(parent: ET.Element | None, tag: str, text: str = "", **attributes: object) -> ET.Element:
    """Add an element to its parent, or begin a document."""
    values = {name: str(value) for name, value in attributes.items()}
    element = ET.Element(tag, values) if parent is None else ET.SubElement(parent, tag, values)
    element.text = text or None
    return element


def _write(svg: ET.Element, text: str, x: float, y: float, kind: str) -> None:
    if text:
        _add(svg, "text", text, x=f"{x:g}", y=f"{y:g}", **{"class": kind})


def _draw_box(svg: ET.Element, *, kind: str, place: list[int], text: list[str]) -> None:
    """Draw a box with its lines in the middle; the line of a panel is at its top."""
    left, top, width, height = place
    _add(svg, "rect", x=left, y=top, width=width, height=height, rx=9, **{"class": kind})
    first = top + 31 if kind == "panel" else top + (height - LINE * len(text)) / 2 + 17
    for number, line in enumerate(text):
        _write(svg, line, left + width / 2, first + number * LINE, "line" if number else "title")


def _draw_arrow(svg: ET.Element, begin: list[int], end: list[int], text: str = "", *, around: bool = False) -> None:
    """Draw an arrow, with its text above a line that is level, or to the right of one that is not."""
    (left, top, width, height), (to_left, to_top, to_width, to_height) = begin, end
    x, y = _middle(left, width, to_left, to_width), _middle(top, height, to_top, to_height)
    if around:
        line = f"M{left} {top + height / 2:g}h-{AROUND}V{to_top + to_height / 2:g}H{to_left - 2}"
    elif y is not None:
        line = f"M{left + width} {y:g}H{to_left - 2}"
        _write(svg, text, (left + width + to_left) / 2, y - 9, "label")
    elif x is not None:
        line = f"M{x:g} {top + height}V{to_top - 2}"
        _write(svg, text, x + 10, (top + height + to_top) / 2 + 5, "label beside")
    else:
        x, turn = left + 40, to_top + LINE
        line = f"M{x} {top + height}V{turn}H{to_left + to_width + 2}"
        _write(svg, text, x + 10, (top + height + turn) / 2 + 5, "label beside")
    _add(svg, "path", d=line)


def _middle(begin: int, length: int, other: int, other_length: int) -> float | None:
    """Return the middle of what two stretches have in common, or None."""
    low, high = max(begin, other), min(begin + length, other + other_length)
    return (low + high) / 2 if low < high else None


def main() -> None:
    """Write the picture."""
    PICTURE.write_text(drawn(SOURCE.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
