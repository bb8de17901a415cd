"""Fetches the jars of ivy.xml with the Ivy that pyspark ships, so that no Maven is needed. Set-up runs it once.

Names no registry: Ivy's defaults, or the user's `~/.ivy2/ivysettings.xml`, decide where jars are downloaded from.
"""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote, urlsplit

from tideline.errors import FatalError
from tideline.local import secret
from tideline.local.broker import java
from tideline.settings import PROJECT

_LOCAL = PROJECT / ".local"
CONFIGURATIONS = ("spark", "kafka")


def fetch() -> None:
    """Resolve ivy.xml and store the jars in `.local/jars/<configuration>/`.

    Raises:
        CalledProcessError: Ivy failed.
    """
    draft = _LOCAL / "jars.new"
    shutil.rmtree(draft, ignore_errors=True)
    cache = _LOCAL / "cache" / "ivy"
    arguments = ["-ivy", str(PROJECT / "ivy.xml"), "-cache", str(cache), "-confs", *CONFIGURATIONS]
    mirror = Path.home() / ".ivy2" / "ivysettings.xml"
    if mirror.exists():
        arguments += ["-settings", str(mirror)]
    arguments += ["-retrieve", f"{draft}/[conf]/[artifact]-[revision].[ext]"]
    # A file, because a proxy's address may hold a password, and every user of the machine can read command lines.
    options = _LOCAL / "cache" / "java-options"
    cache.mkdir(parents=True, exist_ok=True)
    secret.write(options, "".join(f"{json.dumps(option)}\n" for option in _proxy_options()))
    command = [java(), f"@{options}", f"-Divy.default.ivy.user.dir={cache}", "-jar", str(_ivy()), *arguments]
    try:
        subprocess.run(command, check=True)
    finally:
        options.unlink()
    for configuration in CONFIGURATIONS:
        folder = _LOCAL / "jars" / configuration
        shutil.rmtree(folder, ignore_errors=True)
        folder.parent.mkdir(exist_ok=True)
        (draft / configuration).rename(folder)
    draft.rmdir()


def _ivy() -> Path:
    found = importlib.util.find_spec("pyspark")
    jars = [*Path(found.origin).parent.glob("jars/ivy-*.jar")] if found and found.origin else []
    if not jars:
        raise FatalError("pyspark, which ships Ivy, is not installed", next_step="run `make setup`")
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


if __name__ == "__main__":
    try:
        fetch()
    except subprocess.CalledProcessError as error:
        sys.exit(f"Ivy could not fetch the jars of ivy.xml (exit code {error.returncode})")
