"""An environment into which the project is installed from its wheel, as at a user's, with nothing of the checkout on its path."""

import os
import shutil
import subprocess
import sys
from importlib.metadata import Distribution, distribution
from importlib.util import cache_from_source
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tideline.settings import PROJECT

UV = Path(sys.executable).with_name("uv")


def build(folder: Path) -> Path:
    """Build the wheel from a copy of the sources in `folder`, so that the checkout stays as it is; return its path."""
    source = folder / "source"
    caches = shutil.ignore_patterns("__pycache__", "*.egg-info")
    for name in ("include", "spark_jobs"):
        shutil.copytree(PROJECT / name, source / name, symlinks=True, ignore=caches)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(PROJECT / name, source / name)
    run([str(UV), "build", "--wheel", "--offline", "--no-build-isolation", "--python", sys.executable, str(source)])
    (wheel,) = (source / "dist").glob("*.whl")
    return wheel


def create(folder: Path, wheel: Path) -> Path:
    """Create an environment with the wheel and what its metadata requires, and with nothing else; return its folder of programs.

    The required packages are links to the files of this environment: nothing is downloaded. The installer checks that
    they are all there, in versions that the metadata allows.
    """
    run([sys.executable, "-m", "venv", "--without-pip", str(folder)])
    here = Path(sys.prefix)
    for required in _required(_requirements(wheel)):
        for file in required.files or []:
            path = Path(os.path.normpath(str(file.locate())))
            # Compiled modules too: a list of installed files has none, and compiling them all takes longer than the test.
            for one in (path, Path(cache_from_source(str(path))) if path.suffix == ".py" else path):
                if one.is_relative_to(here) and one.exists():
                    _place(one, folder / one.relative_to(here), here, folder)
    run([str(UV), "pip", "install", "--quiet", "--offline", "--python", str(folder / "bin" / "python"), str(wheel)])
    return folder / "bin"


def run(command: list[str], environment: dict[str, str] | None = None, cwd: Path | None = None) -> str:
    """Run a program to its end, which must be success; return what it printed."""
    done = subprocess.run(command, check=False, capture_output=True, text=True, env=environment, cwd=cwd, timeout=900)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def _requirements(wheel: Path) -> list[str]:
    """Return what the wheel requires without an extra."""
    code = "import sys; from importlib.metadata import distributions as d; print(*next(iter(d(path=[sys.argv[1]]))).requires, sep='\\n')"
    return run([sys.executable, "-c", code, str(wheel)]).splitlines()


def _required(requirements: list[str]) -> list[Distribution]:
    """Return every distribution that the requirements need, directly or not."""
    found: dict[str, Distribution] = {}
    waiting = [(Requirement(text), frozenset[str]()) for text in requirements]
    seen = set()
    while waiting:
        requirement, of_extras = waiting.pop()
        if requirement.marker and not any(requirement.marker.evaluate({"extra": extra}) for extra in of_extras | {""}):
            continue
        name = canonicalize_name(requirement.name)
        extras = frozenset(requirement.extras)
        if (name, extras) in seen:
            continue
        seen.add((name, extras))
        found[name] = distribution(name)
        waiting += [(Requirement(text), extras) for text in found[name].requires or []]
    return list(found.values())


def _place(path: Path, target: Path, here: Path, there: Path) -> None:
    """Put a file of this environment into the other one. A program names its interpreter, so it is written again."""
    if target.exists():  # pyspark and pyspark-client install some of the same files
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    if path.parent == here / "bin":
        target.write_bytes(path.read_bytes().replace(str(here).encode(), str(there).encode()))
        target.chmod(0o755)
        return
    try:
        os.link(path, target)
    except OSError:  # another file system
        shutil.copy2(path, target)
