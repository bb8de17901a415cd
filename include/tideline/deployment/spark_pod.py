"""Start Spark in a pod of Kubernetes: a driver or an executor, by the arguments and variables that Spark has put into the pod.

The entry point of Spark's own image does the same. This one needs no more than the installed pyspark. The pod templates of deploy/kubernetes name it:
`python -m tideline.deployment.spark_pod`.
"""

import importlib.util
import os
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from tideline.deployment import java_program

_EXECUTOR = "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend"
_OF_EXECUTOR = {
    "--driver-url": "SPARK_DRIVER_URL",
    "--executor-id": "SPARK_EXECUTOR_ID",
    "--cores": "SPARK_EXECUTOR_CORES",
    "--app-id": "SPARK_APPLICATION_ID",
    "--hostname": "SPARK_EXECUTOR_POD_IP",
    "--resourceProfileId": "SPARK_RESOURCE_PROFILE_ID",
    "--podName": "SPARK_EXECUTOR_POD_NAME",
}
_JAVA_OPTION = re.compile(r"SPARK_JAVA_OPT_(\d+)")


def main() -> None:
    """Become the driver or the executor."""
    found = importlib.util.find_spec("pyspark")
    if found is None or found.origin is None:
        sys.exit("the image has no pyspark; install Tideline with its dependencies")
    home = Path(found.origin).parent
    command = program(sys.argv[1:], os.environ, home)
    os.execve(command[0], command, {**os.environ, "SPARK_HOME": str(home)})  # noqa: S606 - the pod is that program


def program(arguments: Sequence[str], variables: Mapping[str, str], home: Path) -> list[str]:
    """Return the command line of the pod's role.

    Args:
        arguments: What Spark has put into the pod: the role and, for a driver, the arguments of spark-submit.
        variables: The pod's environment.
        home: Where pyspark is installed.
    """
    role, *rest = arguments or [""]
    if role == "driver":
        address = variables["SPARK_DRIVER_BIND_ADDRESS"]
        own = [f"spark.driver.bindAddress={address}", f"spark.executorEnv.SPARK_DRIVER_POD_IP={address}"]
        # In client mode: the driver runs here, and does not make one more pod.
        options = [word for setting in own for word in ("--conf", setting)]
        return [str(home / "bin" / "spark-submit"), *options, "--deploy-mode", "client", *rest]
    if role == "executor":
        memory = variables["SPARK_EXECUTOR_MEMORY"]
        given = [variables[name] for name in ("SPARK_CONF_DIR", "SPARK_CLASSPATH") if variables.get(name)]
        settings = [word for option, name in _OF_EXECUTOR.items() for word in (option, variables[name])]
        path = ":".join([*given, f"{home}/jars/*"])
        return [java_program.find(), *_java_options(variables), f"-Xms{memory}", f"-Xmx{memory}", "-cp", path, _EXECUTOR, *settings]  # fmt: skip
    sys.exit(f"expected the role `driver` or `executor`, found {role!r}: Spark starts its pods with one of them")


def _java_options(variables: Mapping[str, str]) -> list[str]:
    numbered = [(int(found[1]), value) for name, value in variables.items() if (found := _JAVA_OPTION.fullmatch(name))]
    return [value for _, value in sorted(numbered)]


if __name__ == "__main__":
    main()
