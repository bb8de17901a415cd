"""A namespace of Kubernetes as the manifests of deploy/kubernetes set it up, whose pods reach the servers of a test."""

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from faults.jobs.crashing_servers import Servers
from servers.kubernetes_api import KubernetesApi, rights_of
from servers.kubernetes_pods import Pods
from tideline.settings import PROJECT
from tideline_stack import spark

MANIFESTS = PROJECT / "deploy" / "kubernetes"
NAME = "tideline"
SUBMITS, DRIVES = "tideline-submit", "tideline-driver"
"""The two roles. The token of a service account is the name of its role."""


@dataclass(frozen=True, slots=True)
class Namespace:
    """A namespace, and the variables of Airflow's tasks that use it."""

    api: KubernetesApi
    pods: Pods
    variables: dict[str, str]

    def drivers(self) -> list[str]:
        """Return the names of all pods of drivers that there were, the oldest first."""
        return [name for name, pod in self.pods.specs.items() if pod["metadata"]["labels"]["spark-role"] == "driver"]

    def executors(self) -> list[str]:
        """Return the names of the pods of executors that run."""
        return [pod["metadata"]["name"] for pod in self.api.objects.all_of("pods", _is_running_executor)]


def _is_running_executor(pod: dict[str, Any]) -> bool:
    return bool(
        pod["metadata"]["labels"]["spark-role"] == "executor" and pod.get("status", {}).get("phase") == "Running"
    )


def manifests() -> list[dict[str, Any]]:
    """Return the objects of tideline.yaml."""
    return list(YAML(typ="safe").load_all(MANIFESTS / "tideline.yaml"))


@contextmanager
def running(servers: Servers, folder: Path) -> Iterator[Namespace]:
    """Run one whose drivers use these servers."""
    rights = {one["metadata"]["name"]: rights_of(one) for one in manifests() if one["kind"] == "Role"}
    api = KubernetesApi(NAME, rights)
    [shared] = [one for one in manifests() if one["kind"] == "ConfigMap"]
    known = {"TIDELINE_KAFKA": servers.bootstrap, "TIDELINE_PIPELINES": str(servers.pipelines)}
    api.objects.put("configmaps", shared | {"data": shared["data"] | known})
    api.objects.put(
        "secrets", {"metadata": {"name": NAME}, "stringData": {"writer-url": servers.url, "stager-url": servers.url}}
    )
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    image = {name: os.environ[name] for name in ("HOME", "JAVA_HOME", "LANG") if name in os.environ} | {"PATH": path}
    with api.running(), Pods(api, folder, image).running() as pods:
        yield Namespace(api, pods, {**servers.variables(), "PATH": path, **_of_tasks(api, folder)})


def _of_tasks(api: KubernetesApi, folder: Path) -> dict[str, str]:
    """Write what Airflow's tasks need to submit; return the variables that name it."""
    for role in (SUBMITS, DRIVES):
        (folder / role).write_text(role)
    # What is elsewhere here: a cluster gives each pod its token, and each its own processors.
    own = {
        "spark.kubernetes.authenticate.submission.oauthTokenFile": folder / SUBMITS,
        "spark.kubernetes.authenticate.driver.mounted.oauthTokenFile": folder / DRIVES,
        "spark.kubernetes.driver.master": api.url,
        "spark.kubernetes.allocation.batch.delay": "200ms",
        "spark.executor.cores": 1,
        "spark.executor.memory": "512m",
        "spark.driver.memory": "512m",
        "spark.driver.extraJavaOptions": spark.JAVA_OPTIONS,
        "spark.executor.extraJavaOptions": spark.JAVA_OPTIONS,
    }
    given = (MANIFESTS / "spark.properties").read_text()
    here = given.replace("/opt/tideline/kubernetes", str(MANIFESTS)).replace("/opt/tideline/jars", str(spark.JARS))
    properties, configuration = folder / "spark.properties", folder / "kubeconfig"
    properties.write_text(here + "".join(f"{name} {value}\n" for name, value in own.items()))
    configuration.write_text(json.dumps(_configuration(api.url)))
    extra = {"deploy-mode": "cluster", "namespace": NAME}
    return {
        "TIDELINE_SPARK_PROPERTIES": str(properties),
        # Airflow's own client deletes the driver of a task that is ended.
        "AIRFLOW__KUBERNETES_EXECUTOR__IN_CLUSTER": "False",
        "AIRFLOW__KUBERNETES_EXECUTOR__CONFIG_FILE": str(configuration),
        "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps({"conn_type": "spark", "host": f"k8s://{api.url}", "extra": extra}),
    }


def _configuration(url: str) -> dict[str, Any]:
    """Return the configuration of the client that deletes a driver whose task is ended."""
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": NAME,
        "clusters": [{"name": NAME, "cluster": {"server": url}}],
        "users": [{"name": SUBMITS, "user": {"token": SUBMITS}}],
        "contexts": [{"name": NAME, "context": {"cluster": NAME, "user": SUBMITS, "namespace": NAME}}],
    }
