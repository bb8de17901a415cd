"""Download the jars of this checkout: for Spark, Kafka, a schema registry, and tests of Delta tables, of Debezium and of logins at Amazon MSK.

Set-up runs it, and reads from its output how much was downloaded.
"""

import sys
from pathlib import Path

from tideline.deployment import jars
from tideline.errors import TidelineError
from tideline.settings import PROJECT

_LOCAL = PROJECT / ".local"


def main() -> int:
    """Download them; return the exit code."""
    kept = _LOCAL / "cache" / "ivy"
    before = _downloaded(kept)
    try:
        jars.fetch(
            {name: _LOCAL / "jars" / name for name in ("spark", "kafka", "registry", "delta", "connect", "msk")},
            cache=kept,
        )
    except TidelineError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    for jar in _downloaded(kept) - before:
        print(f"Downloading {jar.name} ({jar.stat().st_size / 1e6:.1f} MB)")
    return 0


def _downloaded(kept: Path) -> set[Path]:
    return {*kept.rglob("*.jar"), *kept.rglob("*.tar.gz")}


if __name__ == "__main__":
    sys.exit(main())
