"""The metadata of the package: its dependencies, its extras, and the hooks of a commit."""

import re
import subprocess
import tomllib

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tideline.settings import PROJECT

METADATA = tomllib.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def requirements(lines) -> dict[str, Requirement]:
    found = [Requirement(line.partition("#")[0]) for line in lines if re.match(r"[a-z]", line)]
    return {canonicalize_name(requirement.name): requirement for requirement in found}


DIRECT = requirements((PROJECT / "requirements.in").read_text(encoding="utf-8").splitlines())
PINNED = requirements((PROJECT / "requirements.txt").read_text(encoding="utf-8").splitlines())
GROUPS = {"": METADATA["dependencies"], **METADATA["optional-dependencies"]}


def test_every_direct_dependency_is_in_the_metadata_once_and_has_a_reason():
    declared = [name for group in GROUPS.values() for name in requirements(group) if name != "tideline"]
    assert sorted(declared) == sorted(DIRECT)


def test_the_versions_that_are_tested_are_in_the_ranges_that_the_package_accepts():
    for group in GROUPS.values():
        for name, requirement in requirements(group).items():
            if name != "tideline":
                (pin,) = PINNED[name].specifier
                assert pin.version in requirement.specifier, (name, pin.version)


def test_no_tool_of_developers_is_a_dependency_of_users():
    assert not set(requirements(GROUPS[""])) & {*requirements(GROUPS["local"]), *requirements(GROUPS["dev"])}


def test_a_commit_runs_the_parts_of_make_check():
    page = (PROJECT / ".pre-commit-config.yaml").read_text(encoding="utf-8")
    assert re.findall(r"entry: (.*)", page) == ["make style", "make check"]
    program = PROJECT / ".local" / "env" / "bin" / "pre-commit"
    subprocess.run([program, "validate-config", PROJECT / ".pre-commit-config.yaml"], check=True, timeout=180)
