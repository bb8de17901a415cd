"""Writes the files that configure Spark on this machine, so that neither the Airflow operator nor the DAG names a jar or a JVM option.

A deployment has its own spark-defaults.conf. The files of this module are for a single machine that runs everything.
"""

from pathlib import Path

from tideline import settings
from tideline_stack.ports import LOOPBACK

# Only the C1 compiler: a batch takes minutes, and ends before the second compiler pays. A class-data archive can be used only with the JVM, the
# options and the class path that it was dumped with, so these options are the same for the dump and for every later run.
# The heap grows late and shrinks early: with default ratios ten times the records took a quarter more memory, all of it garbage.
JAVA_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:MinHeapFreeRatio=10 -XX:MaxHeapFreeRatio=30"
# Resolved, because the class path must be the same in a copy of the project whose `.local` is a symbolic link.
_LOCAL = (settings.PROJECT / ".local").resolve()
ARCHIVE = _LOCAL / "spark.jsa"
JARS = _LOCAL / "jars" / "spark"

_LOG4J = """\
rootLogger.level = warn
rootLogger.appenderRef.stderr.ref = stderr
appender.console.type = Console
appender.console.name = stderr
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n%ex
# It warns at every start that the native library is missing, which a user cannot change here.
logger.native.name = org.apache.hadoop.util.NativeCodeLoader
logger.native.level = error
# It warns of each connection that the broker closes because a finished reader left it idle.
logger.kafka.name = org.apache.spark.sql.kafka010.KafkaDataConsumer
logger.kafka.level = error
"""


def configure(folder: Path, *, java_options: str = "") -> Path:
    """Write a properties file for spark-submit, and the logging configuration that it names, into `folder`; return the properties file.

    It is not a spark-defaults.conf, because Spark puts the folder of that file on the class path, and the JVM refuses a
    class-data archive when the class path holds a folder.

    Args:
        folder: Where to write. Its path must not contain spaces: Spark would take a space for the end of a JVM option.
        java_options: JVM options instead of those that use the archive.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if not java_options and ARCHIVE.exists():
        java_options = f"-XX:SharedArchiveFile={ARCHIVE} -Xshare:auto -Xlog:cds=off -Xlog:cds+dynamic=off"
    logging = folder / "log4j2.properties"
    logging.write_text(_LOG4J)
    properties = {
        "spark.driver.extraClassPath": ":".join(sorted(str(jar) for jar in JARS.glob("*.jar"))),
        "spark.driver.extraJavaOptions": f"{JAVA_OPTIONS} {java_options} -Dlog4j2.configurationFile=file:{logging}",
        "spark.driver.host": LOOPBACK,
        "spark.driver.bindAddress": LOOPBACK,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "4",
    }
    file = folder / "spark.properties"
    file.write_text("".join(f"{name} {value}\n" for name, value in properties.items()))
    return file
