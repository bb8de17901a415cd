"""Set-up first checks the machine, says how to correct what is missing, and does no step twice."""

import ast
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tideline.deployment import jars
from tideline_stack import packages, ports, setup

_SOURCE = Path(setup.__file__)


@pytest.fixture
def checkout(tmp_path):
    """Create a checkout that holds only the set-up script, and files that it reads."""
    script = tmp_path / "include" / "tideline_stack" / "setup.py"
    script.parent.mkdir(parents=True)
    shutil.copy(_SOURCE, script)
    return tmp_path


def run_setup(checkout, *, before="", path="/nonexistent", **variables):
    """Run the script as make does, after the statements `before`; return what it wrote to stderr."""
    script = checkout / "include" / "tideline_stack" / "setup.py"
    program = f"import runpy, shutil, sys\n{before}\nrunpy.run_path({str(script)!r}, run_name='__main__')"
    environment = {"PATH": path, **variables}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert "\n  Next: " in done.stderr
    return done.stderr


def fake_java(folder, version):
    folder.mkdir()
    java = folder / "java"
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    java.chmod(0o755)
    return folder


def test_the_script_parses_on_an_old_python():
    ast.parse(_SOURCE.read_text(), feature_version=(3, 6))


def test_an_old_python_is_named_with_its_version(checkout):
    said = run_setup(checkout, before="sys.version_info = (3, 10, 1, 'final', 0)")
    assert "Python 3.11 or newer is needed" in said
    assert "is 3.10" in said
    assert "make setup PYTHON=" in said


def test_a_missing_venv_module_is_named(checkout):
    said = run_setup(checkout, before="sys.modules['ensurepip'] = None")
    assert "lacks the module ensurepip" in said
    assert "python3-venv" in said


def test_no_java_on_the_path_says_so(checkout):
    assert "there is no `java` on the PATH" in run_setup(checkout)


def test_a_java_home_without_java_is_not_replaced_by_the_path(checkout, tmp_path):
    path = fake_java(tmp_path / "bin", "17.0.1")
    assert "JAVA_HOME=/nonexistent holds no bin/java" in run_setup(checkout, path=str(path), JAVA_HOME="/nonexistent")


@pytest.mark.parametrize(("version", "major"), [("1.8.0_392", "8"), ("11.0.21", "11"), ("16", "16")])
def test_an_old_java_is_named_with_its_version(checkout, tmp_path, version, major):
    path = fake_java(tmp_path / "bin", version)
    assert f"Java 17 or newer is needed; {path}/java is {major}\n" in run_setup(checkout, path=str(path))


def test_a_full_disk_stops_set_up_before_the_first_download(checkout, tmp_path):
    path = fake_java(tmp_path / "bin", "17.0.1")
    for name in ("requirements.txt", "pyproject.toml"):
        (checkout / name).write_text("")
    full = "shutil.disk_usage = lambda _: shutil._ntuple_diskusage(10**12, 10**12, 10**9)"
    said = run_setup(checkout, before=full, path=str(path))
    assert "5 GB of free disk are needed" in said
    assert "1.0 are left" in said


@pytest.fixture
def steps(tmp_path, monkeypatch):
    """Run a step in a folder of its own; the fixture lists what ran."""
    monkeypatch.setattr(setup, "LOCAL", tmp_path)
    return []


def test_a_step_is_done_once_for_the_same_key(steps):
    for key in ("a", "a", "b", "b"):
        setup.step("Jars", key, lambda _log, key=key: steps.append(key))
    assert steps == ["a", "b"]


def test_a_step_that_was_killed_is_done_again(steps):
    def killed(_log):
        steps.append("killed")
        raise KeyboardInterrupt

    setup.step("Jars", "a", lambda _log: steps.append("done"))
    with pytest.raises(KeyboardInterrupt):
        setup.step("Jars", "b", killed)
    setup.step("Jars", "a", lambda _log: steps.append("again"))  # the files of key a may be half overwritten by now
    assert steps == ["done", "killed", "again"]


def test_a_step_says_how_much_it_has_downloaded(steps, capsys):
    said = "Downloading numpy (16.1MiB)\n Downloaded numpy\n  Downloading uv-0.9.2-py3-none.whl (2.3 MB)\nDownloading spark (1.1 GB)\n"
    assert setup.step("Packages", "a", lambda log: log.write_text(said) and None) == pytest.approx(1118.4)
    assert "s   1118 MB downloaded\n" in capsys.readouterr().out
    assert setup.step("Packages", "a", lambda log: None) is None
    assert capsys.readouterr().out == ""


def test_a_failed_command_shows_the_end_of_its_output(tmp_path):
    with pytest.raises(
        setup.SetupError, match=r"exit code 3; the end of its output:\n    the cause\n  Next: "
    ) as error:
        setup.run(tmp_path / "log", ["sh", "-c", "echo the cause; exit 3"])
    assert str(tmp_path / "log") in str(error.value)


def test_uv_goes_where_pip_is_sent(monkeypatch):
    monkeypatch.setenv("PIP_INDEX_URL", "https://mirror.invalid/simple")
    monkeypatch.setenv("PIP_FIND_LINKS", "/wheels/a /wheels/b")
    monkeypatch.setenv("PIP_TRUSTED_HOST", "mirror.invalid")
    monkeypatch.setenv("UV_INSECURE_HOST", "chosen-for-uv.invalid")
    found = packages.registry_settings()
    assert found["UV_INDEX_URL"] == "https://mirror.invalid/simple"
    assert found["UV_FIND_LINKS"] == "/wheels/a,/wheels/b"
    assert found["UV_INSECURE_HOST"] == "chosen-for-uv.invalid"


def test_java_goes_through_the_proxy_that_pip_uses(monkeypatch):
    for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HTTPS_PROXY", "http://me:a%40b@proxy.invalid:3128")
    monkeypatch.setenv("no_proxy", "localhost,.inside.invalid")
    assert set(jars._proxy_options()) == {
        "-Dhttps.proxyHost=proxy.invalid",
        "-Dhttps.proxyPort=3128",
        "-Dhttp.proxyUser=me",
        "-Dhttp.proxyPassword=a@b",
        "-Djdk.http.auth.tunneling.disabledSchemes=",
        "-Dhttp.nonProxyHosts=localhost|*.inside.invalid",
    }


def test_a_taken_port_gives_way_to_a_free_one():
    with socket.create_server((ports.LOOPBACK, 0)) as taken:
        usual = taken.getsockname()[1]
        assert ports.choose(usual) != usual
    assert ports.choose(usual) == usual


def test_no_port_is_given_twice():
    """A server with five listeners was given the same port for two of them once in a thousand starts, and did not start."""
    given = [ports.choose() for _ in range(500)]
    assert len(set(given)) == len(given)
