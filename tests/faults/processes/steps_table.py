"""Render and read the failpoint matrix in STEPS.md: one row for each step of each verb, one column for each fault.

The tests strike the cases that the table lists.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from faults.processes.gate import Kind
from faults.processes.matrix import Case
from faults.processes.process_faults import Fault, faults_of

PAGE = Path(__file__).with_name("STEPS.md")
COMMAND = "PYTHONPATH=tests:tests/integration .local/env/bin/python -m faults.processes --write-table"
_BEGIN, _END = "<!-- failpoints -->", "<!-- /failpoints -->"
_EMPTY = f"# Each step of each verb\n\n{_BEGIN}\n{_END}\n"
_VERB = re.compile(r"<details><summary>(.+): \d+ steps?</summary>")

Points = Mapping[str, Sequence[tuple[str, Kind]]]
"""By verb, the steps and what each does."""


def rendered(points: Points) -> str:
    """Return the text between the markers, for the given steps."""
    n_steps = sum(map(len, points.values()))
    n_cases = sum(len(faults_of(kind)) for steps in points.values() for _, kind in steps)
    parts = [
        f"{n_steps} steps, {n_cases:,} cases. A transaction that several verbs send is listed under the first of them.\n",
        *(_section(verb, steps) for verb, steps in points.items()),
    ]
    return "\n".join(parts)


def _section(verb: str, steps: Sequence[tuple[str, Kind]]) -> str:
    head = f"| step | {' | '.join(Fault)} |\n|---|{'---|' * len(Fault)}\n"
    rows = "".join(_row(name, faults_of(kind)) for name, kind in steps)
    return f"<details><summary>{verb}: {len(steps)} steps</summary>\n\n{head}{rows}\n</details>\n"


def _row(name: str, faults: Sequence[Fault]) -> str:
    return f"| {name} | {' | '.join('ok' if fault in faults else '' for fault in Fault)} |\n"


def shown(page: Path = PAGE) -> str:
    """Return the text that is between the markers now."""
    text = page.read_text(encoding="utf-8") if page.exists() else _EMPTY
    return text.partition(_BEGIN)[2].partition(_END)[0].strip("\n")


def write(points: Points, page: Path = PAGE) -> None:
    """Write the table between the markers; the rest of the page stays."""
    text = page.read_text(encoding="utf-8") if page.exists() else _EMPTY
    before, _, rest = text.partition(_BEGIN)
    page.write_text(f"{before}{_BEGIN}\n{rendered(points)}{_END}{rest.partition(_END)[2]}", encoding="utf-8")


def cases(text: str) -> Iterator[Case]:
    """Yield a case for every cell of the table that is not empty."""
    verb = ""
    for line in text.splitlines():
        if begun := _VERB.fullmatch(line):
            verb = begun[1]
        elif verb and line.startswith("| ") and not line.startswith("| step |"):
            step, *cells = (cell.strip() for cell in line.strip("|").split("|"))
            yield from (Case(verb, step, fault) for fault, cell in zip(Fault, cells, strict=True) if cell)
