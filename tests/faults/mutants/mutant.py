"""A mutant: a copy of the product without one guard. Imports nothing of the product."""

from dataclasses import dataclass
from pathlib import Path
from shutil import copytree

FOLDERS = ("include/tideline", "spark_jobs")
"""The folders that are copied: everything that processes of the product import."""


@dataclass(frozen=True, slots=True)
class Edit:
    """One replacement, of a text that is in the file exactly once."""

    file: str
    old: str
    new: str


@dataclass(frozen=True, slots=True)
class Mutant:
    """The product with these edits."""

    name: str
    guard: str
    """The guard that is removed."""
    edits: tuple[Edit, ...]
    first_seed: int = 0
    """The first seed of the played schedules. Where each schedule takes seconds: a seed that is known to need the guard."""
    seen_by: str = ""
    """The tests that detect it, if schedules do not."""


class MisfitError(Exception):
    """The product has changed: the text that a mutant replaces is not in the file exactly once."""


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
    """Copy the product into a new folder, with the edits of a mutant or with none; return the folder.

    The copy includes Python's compiled files: without them each process that imports a copy would spend a second on compiling.

    Raises:
        MisfitError: An edit does not fit.
    """
    for folder in FOLDERS:
        copytree(project / folder, tree / folder)  # keeps times, by which Python recognises compiled files
    for name in (".local", "include/pipelines"):  # the jars, for tests that start a broker; the tables of the example
        (tree / name).symlink_to(project / name)
    for name, text in edited(project, mutant).items() if mutant else ():
        file = tree / name
        file.write_text(text, encoding="utf-8")
        for compiled in (file.parent / "__pycache__").glob(f"{file.stem}.*"):
            compiled.unlink()  # an edit of the same length within a second would be overlooked
    return tree
