"""The section `spark`: where the batches of a pipeline are written, and with which properties of Spark.

The properties stand on the command line of spark-submit. So a property that may hold a secret is refused, and so is one
that would undo a setting of the job or of the deployment.
"""

from collections.abc import Mapping
from typing import Annotated

from pydantic import AfterValidator, Field

from tideline.declaration.sections import Section, has_password, may_be_secret

_JOB = "the job sets it itself, and correct results depend on it"
_FILE = "it belongs to the properties file of the deployment (TIDELINE_SPARK_PROPERTIES)"
_MASTER = "the Airflow connection that spark.connection names holds it"
_WAITING = "Airflow must wait until the job has ended"
_REDACTION = "it keeps passwords out of Spark's logs and UI"
_KAFKA = "source.security says how to connect to the brokers"

_REFUSED: Mapping[str, str] = {
    # What spark_jobs/session.py sets. There it would win, and the declared value would have no effect.
    "spark.app.name": _JOB,
    "spark.kafka.consumer.": _JOB,
    "spark.python.daemon.module": _JOB,
    "spark.python.use.daemon": _JOB,
    "spark.python.worker.module": _JOB,
    "spark.speculation": _JOB,
    "spark.speculation.": _JOB,
    "spark.sql.execution.arrow.": _JOB,
    "spark.sql.session.timeZone": _JOB,
    "spark.sql.sources.useV1SourceList": _JOB,
    # A property replaces the one of the file and does not add to it: the job would lose its jars, its packages or its JVM options.
    "spark.archives": _FILE,
    "spark.driver.bindAddress": _FILE,
    "spark.driver.defaultJavaOptions": _FILE,
    "spark.driver.extraClassPath": _FILE,
    "spark.driver.extraJavaOptions": _FILE,
    "spark.driver.extraLibraryPath": _FILE,
    "spark.driver.host": _FILE,
    "spark.driver.userClassPathFirst": _FILE,
    "spark.executor.defaultJavaOptions": _FILE,
    "spark.executor.extraClassPath": _FILE,
    "spark.executor.extraJavaOptions": _FILE,
    "spark.executor.extraLibraryPath": _FILE,
    "spark.executor.userClassPathFirst": _FILE,
    "spark.executorEnv.": _FILE,
    "spark.files": _FILE,
    "spark.jars": _FILE,
    "spark.jars.": _FILE,
    "spark.kubernetes.driverEnv.": _FILE,
    "spark.pyspark.": _FILE,
    "spark.submit.pyFiles": _FILE,
    "spark.yarn.appMasterEnv.": _FILE,
    "spark.yarn.dist.": _FILE,
    "spark.master": _MASTER,
    "spark.remote": _MASTER,
    "spark.submit.deployMode": _MASTER,
    "spark.kubernetes.submission.waitAppCompletion": _WAITING,
    "spark.standalone.submit.waitAppCompletion": _WAITING,
    "spark.yarn.submit.waitAppCompletion": _WAITING,
    "spark.redaction.": _REDACTION,
    "spark.sql.redaction.": _REDACTION,
    "spark.kafka.clusters.": _KAFKA,
}
"""Why a property is refused, by its name. A name that ends with a dot stands for all that begin with it."""


def _allowed(name: str) -> str:
    if not name.startswith("spark.") or name.endswith(".") or any(sign.isspace() or sign == "=" for sign in name):
        raise ValueError(f"expected the name of a Spark property, such as spark.executor.memory, found {name!r}")
    for refused, reason in _REFUSED.items():
        if name == refused or (refused.endswith(".") and name.startswith(refused)):
            raise ValueError(f"expected another property: {reason}")
    if may_be_secret(name):
        raise ValueError(
            f"expected no property that may hold a secret, because every user of a machine can read its command lines; {_FILE}"
        )
    return name


def _shown(value: str) -> str:
    if has_password(value):
        raise ValueError(
            f"expected no address with a password, because every user of a machine can read its command lines; {_FILE}"
        )
    return value


ConnectionId = Annotated[str, Field(pattern=r"^[A-Za-z0-9_#!().:/\\-]+$", max_length=250)]
Property = Annotated[str, AfterValidator(_allowed)]
# No control character: a zero byte cannot be on a command line, and a line break would look like another line of the log.
PropertyText = Annotated[str, Field(pattern=r"^[^\x00-\x1f]+$"), AfterValidator(_shown)]


class Spark(Section):
    """Where the batches are written, and with which resources."""

    connection: ConnectionId | None = Field(
        default=None,
        title="The Airflow connection of the Spark cluster; null is spark_default",
        description="the id of an Airflow connection, or null",
    )
    properties: Mapping[Property, PropertyText | bool | int | float] = Field(
        default={},
        title="Properties of Spark for this pipeline; they win over those of the deployment's properties file",
        description="names of Spark properties with text, numbers or booleans",
    )

    def conf(self) -> dict[str, str]:
        """Return the properties as spark-submit expects them, all as text."""
        return {name: _written(value) for name, value in self.properties.items()}


def _written(value: str | float) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return str(value)
    # The YAML parser has number types of its own, which remember how a number was written.
    return str(int(value)) if isinstance(value, int) else str(float(value))
