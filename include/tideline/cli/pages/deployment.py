"""The page of `tideline jars`: what was downloaded, and the settings that name it."""

from pathlib import Path

from tideline.cli.output import Page
from tideline.deployment.jars import fetch


def jars(folder: Path) -> Page:
    """Download the jars of Spark into `folder`, and show them with the two settings of Spark's properties file."""
    folder = folder.expanduser().absolute()
    fetch({"spark": folder})
    names = sorted(path.name for path in folder.iterdir())
    settings = {f"spark.{part}.extraClassPath": f"{folder}/*" for part in ("driver", "executor")}
    return Page(
        document={"folder": str(folder), "jars": names, "settings": settings},
        parts=[
            f"{len(names)} jars in {folder}. Spark's properties file must name them:",
            "\n".join(f"  {name} {value}" for name, value in settings.items()),
        ],
    )
