"""A Spark standalone cluster on loopback: a master and workers, each a process with a folder of its own, which can be killed and started again."""

import os
import site
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path

import psutil
import pyspark

from servers import wheel_environment
from tideline.deployment import java_program
from tideline_stack import ports, spark
from tideline_stack.processes import Child

_DEPLOY = "org.apache.spark.deploy"
_OPTIONS = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx128m")
_EXECUTOR = "CoarseGrainedExecutorBackend"
_HOME = Path(pyspark.__file__).parent
_STARTS_WITHIN_S = 120
_LOGGING = """\
rootLogger.level = info
rootLogger.appenderRef.stderr.ref = stderr
appender.console.type = Console
appender.console.name = stderr
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n%ex
"""
_OTHER_VERSION = (
    'raise ImportError("this is the Tideline that stands where executors run, and not that of the driver")\n'
)


class SparkCluster:
    """A master that remembers its applications and workers when it is killed, and workers with one core each.

    Their Python has what Tideline depends on, and of Tideline only a version that does not work.

    Args:
        folder: The folder of all of them.
        n_workers: How many workers.
    """

    def __init__(self, folder: Path, *, n_workers: int = 2) -> None:
        self.folder = folder
        self.workers = [f"worker-{number}" for number in range(n_workers)]
        self._port = ports.choose()
        self._drivers = count(1)
        self._children: dict[str, Child] = {}
        self._python = folder / "env" / "bin" / "python"

    @property
    def url(self) -> str:
        """Return the address of the master."""
        return f"spark://{ports.LOOPBACK}:{self._port}"

    @contextmanager
    def running(self) -> Iterator["SparkCluster"]:
        """Start the master and all workers, and stop them at the end."""
        (self.folder / "recovery").mkdir(parents=True)
        (self.folder / "log4j2.properties").write_text(_LOGGING)
        _create_environment(self.folder / "env")
        try:
            self.start("master")
            for name in self.workers:
                self.start(name)
            yield self
        finally:
            for name in sorted(self._children, key="master".__eq__):
                self._children.pop(name).stop(patience=5)

    def properties(self, more: Mapping[str, str] | None = None) -> Path:
        """Write the properties file of drivers that use this cluster; return its path.

        Args:
            more: More properties of Spark, which override those of this class.
        """
        own = {
            # An executor that has been silent for ten seconds is given up, and its tasks run elsewhere.
            "spark.executor.heartbeatInterval": "2s",
            "spark.network.timeout": "10s",
            "spark.network.timeoutInterval": "2s",
            "spark.executor.extraClassPath": f"{spark.JARS}/*",
            "spark.executor.extraJavaOptions": f"{spark.JAVA_OPTIONS} -Dlog4j2.configurationFile=file:{self.folder}/log4j2.properties",
            "spark.executor.memory": "512m",
            "spark.pyspark.python": str(self._python),
            "spark.pyspark.driver.python": sys.executable,
        }
        file = spark.configure(self.folder / f"driver-{next(self._drivers)}")
        all_of_them = {**own, **(more or {})}
        file.write_text(file.read_text() + "".join(f"{name} {value}\n" for name, value in all_of_them.items()))
        return file

    def start(self, name: str) -> None:
        """Start the master or a worker, again too, and wait until it is ready. What the master knew before, it still knows."""
        place, web = ["--host", ports.LOOPBACK], ["--webui-port", str(ports.choose())]
        if name == "master":
            kept = self.folder / "master.properties"
            kept.write_text(
                f"spark.deploy.recoveryMode FILESYSTEM\nspark.deploy.recoveryDirectory {self.folder}/recovery\n"
            )
            own = [f"{_DEPLOY}.master.Master", "--port", str(self._port), "--properties-file", str(kept)]
            self._launch(name, [*own, *place, *web], ready="I have been elected leader")
        else:
            offers = ["--cores", "1", "--memory", "1g", "--work-dir", str(self.folder / name)]
            own = [f"{_DEPLOY}.worker.Worker", *place, *web, *offers, self.url]
            self._launch(name, own, ready="Successfully registered with master")

    def kill(self, name: str) -> None:
        """Kill the master, or a worker with its executors, as a machine that loses its power."""
        child = self._children.pop(name)
        everything = [psutil.Process(child.pid), *_below(psutil.Process(child.pid))]
        for process in everything:
            process.kill()
        psutil.wait_procs(everything, timeout=60)
        child.stop()

    def busy_executors(self, name: str) -> list[psutil.Process]:
        """Return the executors of a worker that have started Python: those that run tasks, or have run some."""
        found = [one for one in _below(psutil.Process(self._children[name].pid)) if _EXECUTOR in _words(one)]
        return [one for one in found if _below(one)]

    def _launch(self, name: str, program: list[str], *, ready: str) -> None:
        logging = f"-Dlog4j2.configurationFile=file:{self.folder}/log4j2.properties"
        command = [java_program.find(), *_OPTIONS, logging, "-cp", f"{_HOME}/jars/*", *program]
        log = self.folder / f"{name}.log"
        child = Child(f"Spark's {name}", command, log=log, cwd=self.folder, environment=_environment())
        self._children[name] = child
        child.wait_until(lambda: ready in log.read_text(errors="replace"), seconds=_STARTS_WITHIN_S)


def _environment() -> Mapping[str, str]:
    """Return the environment of a machine that knows nothing of Tideline."""
    kept = {
        name: value for name, value in os.environ.items() if name in ("HOME", "PATH", "JAVA_HOME", "LANG", "TMPDIR")
    }
    # The last is what Spark's scripts set.
    return {**kept, "SPARK_HOME": str(_HOME), "SPARK_LOCAL_IP": ports.LOOPBACK, "SPARK_SCALA_VERSION": "2.13"}


def _create_environment(folder: Path) -> None:
    """Create an environment whose packages are links to those of this one, without Tideline."""
    wheel_environment.run([sys.executable, "-m", "venv", "--without-pip", str(folder)])
    here = Path(site.getsitepackages()[0])
    there = folder / here.relative_to(sys.prefix)
    for entry in here.iterdir():
        if "tideline" not in entry.name:
            (there / entry.name).symlink_to(entry)
    (there / "tideline").mkdir()
    (there / "tideline" / "__init__.py").write_text(_OTHER_VERSION)


def ports_of(process: psutil.Process) -> set[int]:
    """Return the ports of a process and of those below it that are connected to anything."""
    found = set()
    for one in (process, *_below(process)):
        with suppress(psutil.Error):  # it ends
            found |= {connection.laddr.port for connection in one.net_connections("tcp") if connection.raddr}
    return found


def _below(process: psutil.Process) -> list[psutil.Process]:
    try:
        return process.children(recursive=True)
    except psutil.Error:  # it ends
        return []


def _words(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:  # it ends
        return ""
