"""Installs the packages of requirements.txt, and this project, into the environment whose Python runs it. Set-up calls it.

Standard library only: the environment is still empty. Names no registry: pip and uv use those of the user's own
configuration. What it prints is the log of set-up, which reads from it how much was downloaded.
"""

import argparse
import ast
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CACHES = ROOT / ".local" / "cache"
_UV = Path(sys.executable).with_name("uv")
# What Python reads at each start in this environment. The stack and the demo are used in a checkout only, so they are in no wheel, and the
# installer does not know them. While Airflow is imported nothing becomes garbage, but Python would look for some each time that 700 objects are
# added, which takes a fifth of the processor time of the start.
_AT_EACH_START = f"{ROOT / 'include'}\nimport gc; gc.set_threshold(50_000, 20, 20)\n"
# pip's options, and the variables in which uv expects them: uv reads neither pip's files nor its variables.
_UV_WORDS = {
    "index-url": "UV_INDEX_URL",
    "extra-index-url": "UV_EXTRA_INDEX_URL",
    "find-links": "UV_FIND_LINKS",
    "trusted-host": "UV_INSECURE_HOST",
    "cert": "SSL_CERT_FILE",
    "default-timeout": "UV_HTTP_TIMEOUT",
    "timeout": "UV_HTTP_TIMEOUT",
    "proxy": "ALL_PROXY",
}


def install_packages() -> None:
    """Install exactly the packages of requirements.txt, and compile them: without that, importing Airflow takes half as long again."""
    pinned = re.search(r"^uv==\S+", (ROOT / "requirements.txt").read_text(), re.MULTILINE)
    if pinned is None:
        sys.exit("requirements.txt pins no uv, which installs the rest; run `make lock`, or `git checkout` the file")
    environment = registry_settings()
    pip = [sys.executable, "-m", "pip", "install", "--progress-bar", "off", pinned.group()]
    subprocess.run(pip, env=environment, check=True)
    sync = [str(_UV), "pip", "sync", "--compile-bytecode", "--python", sys.executable, "requirements.txt"]
    subprocess.run(sync, env=environment, cwd=ROOT, check=True)
    # uv does not say how large a source archive is, and Spark's is the largest file of all. The wheel that it has built of it is about as large.
    for wheel in (CACHES / "uv").glob("sdists-*/**/*.whl"):
        print(f"Downloading {wheel.name} ({wheel.stat().st_size / 1e6:.1f} MB)")
    # More than a gigabyte, and not needed later: uv downloads only packages that the environment lacks.
    shutil.rmtree(CACHES / "uv", ignore_errors=True)


def install_project() -> None:
    """Install the project itself as editable, so that Airflow, Spark and the command line import the checkout."""
    options = ["--no-deps", "--no-build-isolation", "--python", sys.executable]
    command = [str(_UV), "pip", "install", *options, "--editable", "."]
    subprocess.run(command, env=registry_settings(), cwd=ROOT, check=True)
    (Path(sysconfig.get_path("purelib")) / "tideline_checkout.pth").write_text(_AT_EACH_START)


def registry_settings() -> dict[str, str]:
    """Return the environment for pip and uv: caches under `.local/`, and pip's registry settings translated for uv."""
    environment = dict(os.environ)
    environment.setdefault("UV_CACHE_DIR", str(CACHES / "uv"))
    environment.setdefault("PIP_CACHE_DIR", str(CACHES / "pip"))
    command = [sys.executable, "-m", "pip", "config", "list"]
    listing = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = [line.partition("=") for line in listing.stdout.splitlines()]
    # pip's order of precedence, strongest first: variables, then its section for `install`, then the global one.
    for section in (":env:", "install", "global"):
        for option, word in _UV_WORDS.items():
            for name, _, value in lines:
                if name == f"{section}.{option}":
                    several = "," if word == "UV_FIND_LINKS" else " "
                    environment.setdefault(word, several.join(str(ast.literal_eval(value)).split()))
    return environment


def main() -> None:
    """Install what the command line names."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("packages", "project"))
    try:
        install_packages() if parser.parse_args().what == "packages" else install_project()
    except subprocess.CalledProcessError as error:
        sys.exit(error.returncode)  # the command has said why


if __name__ == "__main__":
    main()
