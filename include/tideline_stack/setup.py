"""Set-up: an environment, packages, jars and class-data archives, all under `.local/`. The system's Python runs it.

Standard library only, and no syntax newer than Python 3.6, so that an old Python prints a message and no syntax error.
Each finished step leaves a stamp file with a key of all that the step depends on. A repeat with the same key does
nothing; a step that was killed has no stamp, and is done again.
"""

import fcntl
import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
DEPLOYMENT = ROOT / "include" / "tideline" / "deployment"
LOCAL = ROOT / ".local"
ENV = LOCAL / "env"
PYTHON = ENV / "bin" / "python"
NEEDED_PYTHON = (3, 11)
NEEDED_JAVA = 17
NEEDED_DISK_GB = 5
DOWNLOADED_GB = 1.1
"""What is downloaded the first time, about. Half of it is Spark."""
_LOG_TAIL = 15
# What a step prints of each file of a megabyte or more. uv: "Downloading numpy (16.1MiB)"
_DOWNLOADED = re.compile(r"Downloading \S+ \(([\d.]+) ?([MG])i?B\)")


class SetupError(Exception):
    """The problem because of which set-up cannot continue, and the next step for the user."""

    def __init__(self, problem: str, next_step: str) -> None:
        super().__init__(f"{problem}\n  Next: {next_step}")


def main() -> None:
    """Check the machine, then do every step that is not done yet."""
    try:
        check_python()
        java_version = check_java()
        LOCAL.mkdir(exist_ok=True)
        with (LOCAL / "setup.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # `make up` and `make test` at the same time set up only once
            set_up(java_version)
    except SetupError as error:
        sys.exit(f"set-up: {error}")


def set_up(java_version: str) -> None:
    """Do the steps in order. Each key is built from all that the step's result depends on."""
    begin = time.monotonic()
    if not (LOCAL / "stamps").exists():
        print(f"  Set-up, once: about {DOWNLOADED_GB} GB are downloaded. All of it is kept in {LOCAL}.")
    interpreter = f"{sys.implementation.cache_tag} {sys.base_prefix}"
    packages = interpreter + digest(ROOT / "requirements.txt")
    sizes = [
        step("Python environment", interpreter, make_environment),
        step("Python packages", packages, install("packages")),
        step("Project", packages + digest(ROOT / "pyproject.toml", HERE / "packages.py"), install("project")),
        step(
            "Jars",
            packages
            + digest(*(DEPLOYMENT / name for name in ("ivy.xml", "jars.py"))),  # they follow the installed Spark
            run_module("tideline_stack.checkout_jars"),
        ),
        step("Class-data archives for Java", archive_key(java_version), dump_archives),
    ]
    done = [size for size in sizes if size is not None]
    if done:
        print(f"  {'Set-up, in all':<34}{figures(begin, sum(done))}")


def check_python() -> None:
    """Raise SetupError unless this Python is new enough and can create virtual environments."""
    if sys.version_info[:2] < NEEDED_PYTHON:
        raise SetupError(
            "Python 3.11 or newer is needed; {} is {}.{}".format(sys.executable, *sys.version_info[:2]),
            "install one and name it: `make setup PYTHON=python3.11`",
        )
    missing = [name for name in ("venv", "ensurepip") if importlib.util.find_spec(name) is None]
    if missing:
        raise SetupError(
            f"{sys.executable} lacks the module {missing[0]}, which makes environments",
            "install it (Debian, Ubuntu: `apt install python3-venv`), or name another Python: `make setup PYTHON=...`",
        )


def check_java() -> str:
    """Return the output of `java -version` of the Java that Spark will find. Raise SetupError unless it is new enough."""
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=home + "/bin") if home else shutil.which("java")
    install = f"install a Java {NEEDED_JAVA}+ runtime (Debian, Ubuntu: `apt install openjdk-17-jre-headless`)"
    if java is None:
        where = f"JAVA_HOME={home} holds no bin/java" if home else "there is no `java` on the PATH"
        raise SetupError("Java is needed; " + where, install + " or set JAVA_HOME to one")
    done = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
    found = re.search(r'version "(?:1\.)?(\d+)', done.stderr)
    if found is None:
        raise SetupError(f"{java} does not say its version: {done.stderr.strip()}", install)
    if int(found.group(1)) < NEEDED_JAVA:
        raise SetupError(f"Java {NEEDED_JAVA} or newer is needed; {java} is {found.group(1)}", install)
    return done.stderr


def check_disk() -> None:
    """Raise SetupError unless there is enough free disk for packages, jars and the stack's data."""
    free = shutil.disk_usage(str(ROOT)).free / 1e9
    if free < NEEDED_DISK_GB:
        raise SetupError(
            f"{NEEDED_DISK_GB} GB of free disk are needed in {ROOT}; {free:.1f} are left",
            "free some, or move the checkout to a larger disk",
        )


def step(name: str, key: str, action: "Callable[[Path], None]") -> "float | None":
    """Run `action(log)` unless the stamp file holds the same key already, and print what it took.

    Returns:
        How many megabytes it has downloaded, by its log; None if there was nothing to do.
    """
    slug = name.lower().replace(" ", "-")
    stamp = LOCAL / "stamps" / slug
    if stamp.exists() and stamp.read_text() == key:
        return None
    check_disk()
    log = LOCAL / "log" / (slug + ".log")
    for folder in (stamp.parent, log.parent):
        folder.mkdir(exist_ok=True)
    if stamp.exists():
        stamp.unlink()
    log.write_text("")
    begin = time.monotonic()
    print(f"  {name:<34}", end="", flush=True)
    try:
        action(log)
    except SetupError:
        print(" failed")
        raise
    stamp.write_text(key)
    found = _DOWNLOADED.findall(log.read_text(errors="replace"))
    megabytes = sum(float(number) * (1000 if unit == "G" else 1) for number, unit in found)
    print(figures(begin, megabytes), flush=True)
    return megabytes


def figures(begin: float, megabytes: float) -> str:
    """Return how long something took that began then, and how much it has downloaded."""
    return f"{time.monotonic() - begin:7.1f} s" + (f"{megabytes:7.0f} MB downloaded" if megabytes else "")


def make_environment(log: Path) -> None:
    """Create the virtual environment. One that exists and works is kept, and only pip's own files are renewed."""
    version = f"import sys; sys.exit(sys.version_info[:2] != {sys.version_info[:2]})"
    works = PYTHON.exists() and subprocess.run([str(PYTHON), "-c", version], check=False).returncode == 0
    run(log, [sys.executable, "-m", "venv", *([] if works else ["--clear"]), str(ENV)])


def install(what: str) -> "Callable[[Path], None]":
    """Return an action that installs the packages, or the project, into the environment."""
    return lambda log: run(log, [str(PYTHON), str(HERE / "packages.py"), what])


def dump_archives(log: Path) -> None:
    """Dump the archives. A failure prints a warning only, as Spark and Kafka just start slower; the next try is when Java or a jar changes."""
    try:
        run_module("tideline_stack.class_archive")(log)
    except SetupError as error:
        print(f" failed. This is harmless: Spark and Kafka only start slower. {error}", end="")


def run_module(name: str) -> "Callable[[Path], None]":
    """Return an action that runs a module of the project in the environment."""
    return lambda log: run(log, [str(PYTHON), "-m", name])


def run(log: Path, command: "list[str]") -> None:
    """Run `command` and append its output to `log`. Raise SetupError with the end of the log when the command fails."""
    with log.open("a") as out:
        code = subprocess.run(
            command,
            cwd=str(ROOT),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            check=False,
        ).returncode
    if code:
        tail = "".join(f"    {line}\n" for line in log.read_text(errors="replace").splitlines()[-_LOG_TAIL:])
        raise SetupError(
            "`{}` ended with exit code {}; the end of its output:\n{}".format(" ".join(command), code, tail.rstrip()),
            f"fix the cause (network, proxy, disk; the whole output is in {log}) and run the same command again",
        )


def digest(*files: Path) -> str:
    """Return one hash of the contents of these files."""
    return hashlib.sha256(b"\0".join(file.read_bytes() for file in files)).hexdigest()


def archive_key(java_version: str) -> str:
    """Return a hash of what Java compares before it uses an archive: its version, its options, and each jar's path, size and mtime."""
    jars = sorted([*LOCAL.glob("jars/*/*.jar"), *ENV.glob("lib/*/site-packages/pyspark/jars/*.jar")])
    facts = [f"{jar} {jar.stat().st_size} {jar.stat().st_mtime_ns}" for jar in jars]
    sources = digest(*(HERE / name for name in ("class_archive.py", "class_archive_job.py", "broker.py", "spark.py")))
    return hashlib.sha256("\n".join([java_version, sources, *facts]).encode()).hexdigest()


if __name__ == "__main__":
    main()
