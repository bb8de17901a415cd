"""What a validation reports: one line for each thing that was checked, or that could not be."""

from dataclasses import dataclass
from enum import StrEnum


class FindingVerdict(StrEnum):
    """The result of one check."""

    OK = "ok"
    WARN = "warn"
    """The parser does not understand it. Postgres may."""
    NOT_CHECKED = "not checked"
    BAD = "bad"
    """A run would fail with it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One line of the report."""

    pipeline: str
    where: str
    """The file, with the line if it is known, or the table."""
    verdict: FindingVerdict
    found: str
    """What was found, and what was expected instead if that is wrong."""

    def document(self) -> dict[str, str]:
        """Return the finding as a JSON object."""
        return {"verdict": str(self.verdict), "pipeline": self.pipeline, "where": self.where, "found": self.found}
