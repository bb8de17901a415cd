"""The command line as people call it: in a process of its own, with an environment that a test declares."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

TIDELINE = Path(sys.executable).parent / "tideline"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cli:
    """A shell with its variables, and a folder of declared pipelines."""

    folder: Path
    variables: dict[str, str] = field(default_factory=dict, repr=False)  # one may hold a password

    @property
    def environment(self) -> dict[str, str]:
        """All variables: of Tideline's only those that the test declares."""
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("TIDELINE_")}
        return {**inherited, "TIDELINE_PIPELINES": str(self.folder), **self.variables}

    def __call__(self, *arguments: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        """Run `tideline` with the arguments, and expect this exit code."""
        done = subprocess.run(
            [str(TIDELINE), *arguments],
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert done.returncode == code, (done.returncode, done.stdout, done.stderr)
        assert "Traceback" not in done.stderr
        return done

    def json(self, *arguments: str, code: int = 0) -> Any:
        """The document that the command prints with --json."""
        return json.loads(self(*arguments, "--json", code=code).stdout)

    def error(self, *arguments: str, code: int) -> dict[str, Any]:
        """What it says on stderr with --json."""
        return json.loads(self(*arguments, "--json", code=code).stderr.splitlines()[-1])

    def declare(self, name: str, topic: str, *, start: str = "earliest", **more: Any) -> Path:
        """A pipeline of raw bytes in the folder, at the brokers of TIDELINE_KAFKA; `more` are keys of pipeline.yaml. Returns its folder."""
        folder = self.folder / name
        folder.mkdir(parents=True, exist_ok=True)
        source = {
            "bootstrap_servers": {"env": "TIDELINE_KAFKA"},
            "topics": [topic],
            "start": start,
            "value": {"format": "bytes"},
        }
        declaration = {"description": "A test", "source": source, "sink": {"table": "ads.output"}, **more}
        (folder / "pipeline.yaml").write_text(json.dumps(declaration))  # JSON is YAML
        (folder / "target.sql").write_text("-- never run: these tests write no output\n")
        return folder


def table(done: subprocess.CompletedProcess[str]) -> list[dict[str, str]]:
    """The first table of a plain answer: cells by heading. Columns stand two spaces apart."""
    lines = done.stdout.split("\n\n")[0].splitlines()
    cells = [[cell.strip() for cell in line.split("  ") if cell.strip()] for line in lines]
    return [dict(zip(cells[0], row, strict=True)) for row in cells[1:]]
