"""What a pod of Spark becomes, by the arguments and variables that Spark gives it."""

from pathlib import Path

import pytest

from tideline.deployment import java_program, spark_pod

HOME = Path("/opt/pyspark")
EXECUTOR = {
    "SPARK_DRIVER_URL": "spark://driver:7078",
    "SPARK_EXECUTOR_ID": "3",
    "SPARK_EXECUTOR_CORES": "2",
    "SPARK_APPLICATION_ID": "spark-1",
    "SPARK_EXECUTOR_POD_IP": "10.0.0.3",
    "SPARK_RESOURCE_PROFILE_ID": "0",
    "SPARK_EXECUTOR_POD_NAME": "exec-3",
    "SPARK_EXECUTOR_MEMORY": "1g",
    "SPARK_CONF_DIR": "/opt/spark/conf",
    "SPARK_CLASSPATH": "/opt/tideline/jars/*",
    "SPARK_JAVA_OPT_1": "-Dtwo=2",
    "SPARK_JAVA_OPT_10": "-Dthree=3",
    "SPARK_JAVA_OPT_0": "-Done=1 and more",
}


def test_a_driver_is_submitted_within_its_pod():
    words = spark_pod.program(
        ["driver", "--class", "C", "local:///x.py"], {"SPARK_DRIVER_BIND_ADDRESS": "10.0.0.2"}, HOME
    )
    assert words == [
        "/opt/pyspark/bin/spark-submit",
        "--conf", "spark.driver.bindAddress=10.0.0.2", "--conf", "spark.executorEnv.SPARK_DRIVER_POD_IP=10.0.0.2",
        "--deploy-mode", "client", "--class", "C", "local:///x.py",
    ]  # fmt: skip


def test_an_executor_has_its_options_in_order_and_the_class_path_of_the_deployment_first():
    words = spark_pod.program(["executor"], EXECUTOR, HOME)
    assert words[:8] == [
        java_program.find(), "-Done=1 and more", "-Dtwo=2", "-Dthree=3", "-Xms1g", "-Xmx1g",
        "-cp", "/opt/spark/conf:/opt/tideline/jars/*:/opt/pyspark/jars/*",
    ]  # fmt: skip
    assert words[9:] == [
        "--driver-url", "spark://driver:7078", "--executor-id", "3", "--cores", "2", "--app-id", "spark-1",
        "--hostname", "10.0.0.3", "--resourceProfileId", "0", "--podName", "exec-3",
    ]  # fmt: skip


@pytest.mark.parametrize("given", [[], ["bash"]])
def test_a_pod_without_a_role_says_which_ones_there_are(given):
    with pytest.raises(SystemExit, match="expected the role `driver` or `executor`, found"):
        spark_pod.program(given, {}, HOME)
