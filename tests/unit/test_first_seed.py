"""Each commit plays other schedules than the commit before it."""

import subprocess

import pytest

from faults.first_seed import COMMIT, WITHOUT_GIT, first_seed, of_commit


def git(folder, *arguments):
    asked = ["git", "-C", str(folder), "-c", "user.name=ada", "-c", "user.email=ada@example.org", *arguments]
    return subprocess.run(asked, check=True, capture_output=True, text=True).stdout.strip()


def test_two_commits_begin_with_two_seeds_and_one_commit_always_with_the_same(tmp_path):
    git(tmp_path, "init", "--quiet")
    seeds = []
    for subject in ("one", "two"):
        git(tmp_path, "commit", "--quiet", "--allow-empty", "--message", subject)
        seeds += [of_commit(tmp_path), of_commit(tmp_path)]
    assert seeds[0] == seeds[1] != seeds[2] == seeds[3]
    assert f"{seeds[2]:07x}" == git(tmp_path, "rev-parse", "HEAD")[:7]


@pytest.mark.parametrize("path", [None, ""])
def test_without_a_commit_or_without_git_the_seed_is_a_fixed_one(tmp_path, monkeypatch, path):
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    if path is not None:
        monkeypatch.setenv("PATH", path)
    assert of_commit(tmp_path) == WITHOUT_GIT


def test_a_number_is_taken_as_it_is():
    assert first_seed("7") == 7
    assert first_seed(COMMIT) >= 0
