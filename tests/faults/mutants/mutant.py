"""A mutant: a copy of the product without one guard. Imports nothing of the product.

The tables of mutants (`*.toml` beside this file) have an entry for each guard:

    [name]
    guard = "what the guard ensures"
    seen_by = "tests/...::test_..."  # or a recorded schedule: "simulation SEED", "processes SEED"
    file = "the file of the guard"
    statement = "the name of a statement of an SQL file, if the text is in others as well"
    old = "a text that is in the file, or in that statement, exactly once"
    new = "what replaces it in the copy"
    [[name.also]]  # a second guard of the same property, which has to go as well
    file, old, new
"""

import os
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from shutil import copy2, copytree
from typing import Any

FOLDERS = ("include/tideline", "spark_jobs")
"""The folders that are copied: everything that processes of the product import."""
TABLES = tuple(sorted(Path(__file__).parent.glob("*.toml")))
SIMULATION, PROCESSES, TEST = "simulation", "processes", "test"


@dataclass(frozen=True, slots=True)
class Edit:
    """One replacement, of a text that is in the file exactly once, or in one statement of it."""

    file: str
    old: str
    new: str
    statement: str = ""
    """The name of the statement; empty if the text is in the file once."""

    def applied(self, text: str) -> str | None:
        """Return the text of the file with this replacement; None if it does not fit."""
        before, begin, part = text.partition(f"-- name: {self.statement}\n") if self.statement else ("", "", text)
        part, end, behind = part.partition("\n-- name: ") if self.statement else (part, "", "")
        if part.count(self.old) != 1:
            return None
        return "".join((before, begin, part.replace(self.old, self.new), end, behind))


@dataclass(frozen=True, slots=True)
class Mutant:
    """The product with these edits."""

    name: str
    guard: str
    """The guard that is removed."""
    edits: tuple[Edit, ...]
    seen_by: str
    """What detects it: a test, or a level and the seed of a schedule that was recorded."""
    table: str
    """The file that lists it, without its ending."""

    @property
    def level(self) -> str:
        """Return what detects it: the simulation, real processes, or a test."""
        level = self.seen_by.partition(" ")[0]
        return level if level in {SIMULATION, PROCESSES} else TEST

    @property
    def seed(self) -> int:
        """Return the seed of the recorded schedule."""
        return int(self.seen_by.partition(" ")[2])


class MisfitError(Exception):
    """The product has changed: the text that a mutant replaces is not in the file exactly once."""


def every() -> list[Mutant]:
    """Return all mutants, in the order of the tables."""
    return [mutant for table in TABLES for mutant in _of(table)]


def _of(table: Path) -> Iterator[Mutant]:
    for name, entry in tomllib.loads(table.read_text(encoding="utf-8")).items():
        edits = tuple(_edit(one) for one in (entry, *entry.get("also", ())))
        yield Mutant(name, entry["guard"], edits, entry["seen_by"], table.stem)


def _edit(entry: dict[str, Any]) -> Edit:
    return Edit(entry["file"], entry["old"], entry["new"], entry.get("statement", ""))


def edited(project: Path, mutant: Mutant) -> dict[str, str]:
    """Return the files that a mutant changes, by their name in the project, each with its new text.

    Raises:
        MisfitError: An edit does not fit.
    """
    texts: dict[str, str] = {}
    for edit in mutant.edits:
        text = texts.get(edit.file) or (project / edit.file).read_text(encoding="utf-8")
        changed = edit.applied(text)
        if changed is None:
            raise MisfitError(f"{mutant.name}: stands {text.count(edit.old)} times in {edit.file}: {edit.old}")
        texts[edit.file] = changed
    return texts


def grow(project: Path, mutant: Mutant | None, tree: Path) -> Path:
    """Copy the product into a new folder, with the edits of a mutant or with none; return the folder.

    The copy consists of links to the product's files, except for those that change. Among them are Python's compiled files: without
    them each process that imports a copy would spend a second on compiling.

    Raises:
        MisfitError: An edit does not fit.
    """
    for folder in FOLDERS:
        copytree(project / folder, tree / folder, symlinks=True, copy_function=_linked)
    for name in (".local", "include/pipelines"):  # the jars, for tests that start a broker; the tables of the example
        (tree / name).symlink_to(project / name)
    for name, text in edited(project, mutant).items() if mutant else ():
        file = tree / name
        file.unlink()  # the link: written into, it would change the product itself
        file.write_text(text, encoding="utf-8")
        for compiled in (file.parent / "__pycache__").glob(f"{file.stem}.*"):
            compiled.unlink()  # an edit of the same length within a second would be overlooked
    return tree


def _linked(file: str, link: str) -> None:
    """Link a file, or copy it to another file system. Both keep its time, by which Python recognises compiled files."""
    try:
        os.link(file, link)
    except OSError:
        copy2(file, link)
