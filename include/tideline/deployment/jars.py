"""Downloads the jars of ivy.xml with the Ivy that pyspark ships, so that no Maven is needed.

`tideline jars` runs it for a deployment, and set-up for a checkout. Names no registry: Ivy's defaults, or the
user's `~/.ivy2/ivysettings.xml`, decide where jars are downloaded from.
"""

import importlib.util
import json
import os
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import unquote, urlsplit

from tideline.deployment import java_program, secret
from tideline.errors import FatalError, RetryableError

_LIST = Path(__file__).with_name("ivy.xml")
CONNECTORS = {"4.1": "4.1.3", "4.2": "4.2.0"}
"""The version of Spark's connector for Kafka, by the line of Spark: the newest of the line. The last digit of the two may differ, as one of them has
releases that the other does not have."""


def fetch(folders: Mapping[str, Path], *, cache: Path | None = None, listing: Path = _LIST) -> None:
    """Download the jars of each configuration of ivy.xml, and replace the folder that is given for it.

    Args:
        folders: The folder of each configuration. Its contents are replaced only when every jar has been downloaded.
        cache: Where Ivy keeps what it has downloaded; None keeps nothing.
        listing: Another file of the form of ivy.xml.

    Raises:
        FatalError: There is no Java, no pyspark or one of another line, or a folder holds something other than jars.
        RetryableError: Ivy could not download a jar.
    """
    for folder in folders.values():
        _check_holds_only_jars(folder)
        folder.parent.mkdir(parents=True, exist_ok=True)
    # Beside the first folder: a rename within one file system cannot fail half-way.
    with tempfile.TemporaryDirectory(prefix=".jars-", dir=next(iter(folders.values())).parent) as scratch:
        draft = Path(scratch)
        _run_ivy(listing, draft, list(folders), cache or draft / "cache")
        for configuration, folder in folders.items():
            _unpack(draft / configuration)
            shutil.rmtree(folder, ignore_errors=True)
            (draft / configuration).rename(folder)


def _check_holds_only_jars(folder: Path) -> None:
    """Refuse to replace a folder of other files, such as a home directory that was named by mistake."""
    others = [path.name for path in folder.iterdir() if path.suffix != ".jar"] if folder.is_dir() else []
    if others or (folder.exists() and not folder.is_dir()):
        raise FatalError(
            f"{folder}: expected a new folder, or one that holds only jars, found {others[0] if others else 'a file'}",
            next_step="name another folder",
        )


def _unpack(folder: Path) -> None:
    """Replace each archive in a folder by the jars that it holds, wherever they are in it."""
    for archive in folder.glob("*.tar.gz"):
        with tarfile.open(archive) as opened:
            for member in opened:
                if member.isfile() and member.name.endswith(".jar"):
                    member.name = Path(member.name).name
                    opened.extract(member, folder, filter="data")
        archive.unlink()


# Ivy would ask the registry for the sources and the documentation of each module, which took a quarter of the time.
_ONLY_JARS = ("-Divy.maven.lookup.sources=false", "-Divy.maven.lookup.javadoc=false")


def _run_ivy(listing: Path, draft: Path, configurations: list[str], cache: Path) -> None:
    arguments = ["-ivy", str(listing), "-cache", str(cache), "-confs", *configurations]
    mirror = Path.home() / ".ivy2" / "ivysettings.xml"
    if mirror.exists():
        arguments += ["-settings", str(mirror)]
    arguments += ["-retrieve", f"{draft}/[conf]/[artifact]-[revision].[ext]"]
    # A file, because a proxy's address may hold a password, and every user of the machine can read command lines.
    options = draft / "java-options"
    secret.write(options, "".join(f"{json.dumps(option)}\n" for option in _proxy_options()))
    java = java_program.find()
    installed = _shipped("spark-core_2.13").stem.rpartition("-")[2]
    of_spark = [f"-D{name}={value}" for name, value in variables(installed).items()]
    command = [
        java,
        f"@{options}",
        *_ONLY_JARS,
        *of_spark,
        f"-Divy.default.ivy.user.dir={cache}",
        "-jar",
        str(_shipped("ivy")),
        *arguments,
    ]
    done = subprocess.run(command, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        raise RetryableError(
            f"Ivy could not download the jars of {listing} (exit code {done.returncode}):\n{done.stdout.strip()}",
            next_step="check the network, the proxy and ~/.ivy2/ivysettings.xml, and run the same command again",
        )


def variables(spark: str) -> dict[str, str]:
    """Return the variables of ivy.xml that follow the version of Spark.

    Raises:
        FatalError: Tideline knows no jars for this Spark.
    """
    line = ".".join(spark.split(".")[:2])
    if line not in CONNECTORS:
        raise FatalError(
            f"pyspark: expected a version {', '.join(f'{known}.x' for known in CONNECTORS)}, found {spark}",
            next_step="install a version of Spark that docs/deploy.md names",
        )
    return {"spark.line": line, "spark.connector": CONNECTORS[line]}


def _shipped(name: str) -> Path:
    """Return a jar that pyspark ships."""
    found = importlib.util.find_spec("pyspark")
    jars = [*Path(found.origin).parent.glob(f"jars/{name}-*.jar")] if found and found.origin else []
    if not jars:
        raise FatalError(
            f"pyspark, which ships {name}, is not installed", next_step="install Tideline with its dependencies"
        )
    return jars[0]


def _proxy_options() -> list[str]:
    """Return Java options for the proxy variables that pip and uv read: Java does not read those variables."""
    options: dict[str, str | int | None] = {}
    for scheme in ("http", "https"):
        proxy = urlsplit(os.environ.get(f"{scheme}_proxy") or os.environ.get(f"{scheme.upper()}_PROXY") or "")
        options |= {f"{scheme}.proxyHost": proxy.hostname, f"{scheme}.proxyPort": proxy.port}
        if proxy.username:  # Ivy has one user and password for both schemes
            options |= {"http.proxyUser": unquote(proxy.username), "http.proxyPassword": unquote(proxy.password or "")}
            options["jdk.http.auth.tunneling.disabledSchemes"] = ""  # without this Java sends no password over https
    direct = os.environ.get("no_proxy") or os.environ.get("NO_PROXY") or ""
    if direct:
        options["http.nonProxyHosts"] = "|".join(
            f"*{host}" if host.startswith(".") else host for host in direct.split(",")
        )
    return [f"-D{name}={value}" for name, value in options.items() if value is not None]
