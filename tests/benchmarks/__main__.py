"""`make bench`: measure each table and write it into docs/performance.md. Each has a module with `TITLE`, and `measure`, which returns its lines."""

import argparse
import platform
import re
import sys
import tempfile
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

import psutil

from benchmarks import (
    formats,
    history,
    lakes,
    latency,
    loads,
    memory,
    partitions,
    rejects,
    states,
    topics_written,
    upserts,
)
from benchmarks.scene import scene
from tideline import settings

TABLES = {
    "loads": loads,
    "lakes": lakes,
    "topics": topics_written,
    "partitions": partitions,
    "rejects": rejects,
    "formats": formats,
    "upserts": upserts,
    "states": states,
    "history": history,
    "memory": memory,
    "latency": latency,
}
"""In the order of the page."""
BY_HAND = "The page in Airflow"
"""A section of the page that is written by hand, the last one."""
PAGE = settings.PROJECT / "docs" / "performance.md"


def main() -> None:
    """Measure the tables; Airflow has a stack of its own, the others share one."""
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("--table", action="append", choices=TABLES, help="measure this one only; may be given again")
    wanted = parser.parse_args().table or list(TABLES)
    check_jars(settings.PROJECT / ".local" / "jars")
    with tempfile.TemporaryDirectory(prefix="tideline-bench-") as name:
        folder = Path(name)
        folder.chmod(0o755)  # Postgres runs as another user where this runs as root
        for airflow in (False, True):
            with ExitStack() as stack:
                here = None
                for table in (name for name in TABLES if name in wanted and (name == "latency") == airflow):
                    here = here or stack.enter_context(scene(folder, airflow=airflow))
                    section = [f"## {TABLES[table].TITLE}", "", *TABLES[table].measure(here)]
                    # Write at once: the result stays even if a later table fails.
                    PAGE.write_text(page(PAGE.read_text(), table, section))
                    print("\n".join(section), flush=True)


def check_jars(folder: Path) -> None:
    """Exit with a message unless set-up has downloaded the jars of each kind: for Spark, Delta and the broker."""
    missing = [name for name in ("spark", "delta", "kafka") if not [*(folder / name).glob("*.jar")]]
    if missing:
        found = " or ".join(str(folder / name) for name in missing)
        sys.exit(f"no jars in {found}: run make setup, then this again (make bench runs it by itself)")


def page(text: str, table: str, section: list[str]) -> str:
    """Return the page with one section replaced; only the explanatory text in it is written by hand."""
    titles = {module.TITLE: name for name, module in TABLES.items()} | {BY_HAND: BY_HAND}
    found = {
        titles.get(part.splitlines()[0]): f"## {part.strip()}\n"
        for part in re.split(r"^## ", text, flags=re.MULTILINE)[1:]
    }
    found[table] = "\n".join([*section, "", f"Measured on {datetime.now(UTC):%Y-%m-%d}: {machine()}."]) + "\n"
    head = "# Performance\n\nWritten by `make bench`. Read the figures as ratios: machines are noisy.\n"
    return "\n".join([head, *(found[name] for name in (*TABLES, BY_HAND) if name in found)])


def machine() -> str:
    """Describe the machine of the measurement."""
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    cpu = next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), platform.machine())
    size = psutil.virtual_memory().total / 2**30
    return f"{cpu}, {psutil.cpu_count()} cores, {size:.0f} GiB, {platform.system()}"


if __name__ == "__main__":
    main()
