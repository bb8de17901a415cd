"""How Spark starts on this machine, in the files that Spark itself reads: the operator and the DAG name no jar and no JVM option.

A deployment has its own spark-defaults.conf; this one is for a single machine that runs everything.
"""

from pathlib import Path

from tideline import settings
from tideline.local.ports import LOOPBACK

# C1 only: a batch of minutes is over before the second compiler pays. A class-data archive fits the virtual machine, its options and the class
# path that it was dumped with, so these are the same for the dump and for every later run.
# The heap grows late and shrinks early: by default ten times the records took a quarter more memory, all of it garbage.
JAVA_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:MinHeapFreeRatio=10 -XX:MaxHeapFreeRatio=30"
# Where it is in truth: a copy of the project that has a link to it shall start with the same class path.
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
# Said at every start, about nothing that anybody here could change.
logger.native.name = org.apache.hadoop.util.NativeCodeLoader
logger.native.level = error
# A broker in one process closes idle connections of a reader that is done; each is a warning.
logger.kafka.name = org.apache.spark.sql.kafka010.KafkaDataConsumer
logger.kafka.level = error
"""


def configure(folder: Path, *, java_options: str = "") -> Path:
    """Write a properties file for spark-submit into `folder`, and the logging that it names; returns the file.

    Not a spark-defaults.conf: the folder that holds one is put on the class path, and an archive refuses a class path with folders.

    Args:
        folder: Where to write; a path without spaces, which Spark takes for the end of a JVM option.
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
