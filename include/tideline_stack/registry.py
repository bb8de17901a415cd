"""A real schema registry on loopback: Apicurio, which answers by the API of Confluent's. Owns the folder of its schemas."""

from pathlib import Path

import httpx

from tideline.deployment import java_program
from tideline.errors import FatalError
from tideline_stack import ports
from tideline_stack.processes import Child

# As the broker's: it lives for minutes, on a machine that has other work.
_JAVA_OPTIONS = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx192m", "-Djava.awt.headless=true")
_PROGRAM = "io.quarkus.runner.GeneratedMain"
_SECONDS = 120
_REQUEST_S = 2


class LocalRegistry:
    """One registry in one folder; schemas and their ids stay there between starts.

    Args:
        directory: The folder of its data and its log.
        jars: The folder with Apicurio's jars.
        port: The port; 0 means any free port.
    """

    def __init__(self, directory: Path, jars: Path, *, port: int = 0) -> None:
        self.directory = directory.absolute()
        self._classpath = f"{jars.absolute()}/*"
        self._child: Child | None = None
        self.port = port or ports.choose()

    @property
    def child(self) -> Child:
        """The running registry."""
        if self._child is None:
            raise FatalError("the schema registry is not running", next_step="call launch() first")
        return self._child

    @property
    def url(self) -> str:
        """The address of Confluent's API, for `source.registry.urls`."""
        return f"http://{ports.LOOPBACK}:{self.port}/apis/ccompat/v7"

    def launch(self) -> None:
        """Start it, without waiting until it answers."""
        settings = {
            "quarkus.http.host": ports.LOOPBACK,
            "quarkus.http.port": self.port,
            "quarkus.log.level": "WARN",
            "quarkus.log.console.level": "WARN",
            "quarkus.datasource.jdbc.url": f"jdbc:h2:file:{self.directory}/schemas",
            # By default twenty sessions are opened before it answers.
            "quarkus.datasource.jdbc.initial-size": 1,
            "quarkus.datasource.jdbc.min-size": 1,
        }
        options = [*_JAVA_OPTIONS, *(f"-D{name}={value}" for name, value in settings.items())]
        command = [java_program.find(), *options, "-cp", self._classpath, _PROGRAM]
        self.directory.mkdir(parents=True, exist_ok=True)
        self._child = Child("the schema registry", command, log=self.directory / "registry.log", cwd=self.directory)

    def wait(self) -> None:
        """Wait until it answers, and let it refuse what Confluent's refuses by default: Apicurio takes any schema."""
        self.child.wait_until(self._takes_compatible_schemas_only, seconds=_SECONDS)

    def _takes_compatible_schemas_only(self) -> bool:
        try:
            answer = httpx.put(f"{self.url}/config", json={"compatibility": "BACKWARD"}, timeout=_REQUEST_S)
        except httpx.HTTPError:  # not listening yet
            return False
        return answer.status_code == httpx.codes.OK

    def stop(self) -> None:
        """Stop it; the schemas stay. Do nothing when it is not running."""
        if self._child:
            self._child.stop()
            self._child = None
