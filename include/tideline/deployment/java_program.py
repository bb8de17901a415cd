"""Finds the Java program that runs Spark, Kafka and Ivy."""

import os
import shutil

from tideline.errors import FatalError


def find() -> str:
    """Return the path of the Java program: that of JAVA_HOME if it is set, else the one on the PATH, which is Spark's rule too.

    Raises:
        FatalError: There is none.
    """
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=f"{home}/bin") if home else shutil.which("java")
    if found is None:
        raise FatalError(
            f"no Java {'in JAVA_HOME=' + home if home else 'on the PATH'}",
            next_step="install a Java 17+ runtime, or set JAVA_HOME to one",
        )
    return found
