"""A mutant: a copy of the product with one guard taken away. Imports nothing of the product."""

from dataclasses import dataclass
from pathlib import Path
from shutil import copytree

FOLDERS = ("include/tideline", "spark_jobs")
"""What is copied: all that processes of the product import."""


@dataclass(frozen=True, slots=True)
class Edit:
    """One replacement, of a text that stands in the file exactly once."""

    file: str
    old: str
    new: str


@dataclass(frozen=True, slots=True)
class Mutant:
    """The product with these edits."""

    name: str
    guard: str
    """What is gone."""
    edits: tuple[Edit, ...]
    first_seed: int = 0
    """Of the schedules that are played. Where each costs seconds: of one that is known to need the guard."""
    seen_by: str = ""
    """The tests, where it is not schedules."""


class MisfitError(Exception):
    """The product has changed: the text of a mutant does not stand where it should, or not once."""


def edited(project: Path, mutant: Mutant) -> dict[str, str]:
    """Return the files that a mutant changes, by their name in the project, each with its new text.

    Raises:
        MisfitError: An edit does not fit.
    """
    texts: dict[str, str] = {}
    for edit in mutant.edits:
        text = texts.get(edit.file) or (project / edit.file).read_text(encoding="utf-8")
        if text.count(edit.old) != 1:
            raise MisfitError(f"{mutant.name}: stands {text.count(edit.old)} times in {edit.file}: {edit.old}")
        texts[edit.file] = text.replace(edit.old, edit.new)
    return texts


def grow(project: Path, mutant: Mutant | None, tree: Path) -> Path:
    """Copy the product into a new folder, with the edits of a mutant or with none; the folder.

    With what Python has compiled of it: each process that imports a copy would spend a second on that.

    Raises:
        MisfitError: An edit does not fit.
    """
    for folder in FOLDERS:
        copytree(project / folder, tree / folder)  # files keep their times, by which Python knows what it has compiled
    (tree / ".local").symlink_to(project / ".local")  # the jars, for tests that start a broker
    for name, text in edited(project, mutant).items() if mutant else ():
        file = tree / name
        file.write_text(text, encoding="utf-8")
        for compiled in (file.parent / "__pycache__").glob(f"{file.stem}.*"):
            compiled.unlink()  # an edit of the same length within a second would not be seen
    return tree
