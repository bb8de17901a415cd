"""The files of deploy/kubernetes: valid by the official schemas of Kubernetes, and in accord with each other, the image and the code."""

import re

import kubernetes_validate
import pytest
from ruamel.yaml import YAML

from tideline import settings
from tideline.settings import PROJECT

FOLDER = PROJECT / "deploy" / "kubernetes"
OBJECTS = [(file.name, one) for file in sorted(FOLDER.glob("*.yaml")) for one in YAML(typ="safe").load_all(file)]
PROPERTIES = dict(
    line.split(maxsplit=1)
    for line in (FOLDER / "spark.properties").read_text().splitlines()
    if line and not line.startswith("#")
)


@pytest.mark.parametrize("version", ["1.30", "1.36"])
@pytest.mark.parametrize(("file", "given"), OBJECTS, ids=[f"{file}-{one['kind']}" for file, one in OBJECTS])
def test_each_object_is_valid(file, given, version):
    kubernetes_validate.validate(given, version, strict=True)


def named(kind: str) -> set[str]:
    return {one["metadata"]["name"] for file, one in OBJECTS if file == "tideline.yaml" and one["kind"] == kind}


def template(role: str) -> dict:
    [found] = [one for file, one in OBJECTS if file == f"{role}.yaml"]
    return found["spec"]


@pytest.mark.parametrize("role", ["driver", "executor"])
def test_the_templates_are_where_the_image_has_them_and_start_what_the_package_has(role):
    path = PROPERTIES[f"spark.kubernetes.{role}.podTemplateFile"]
    assert "COPY --chown=tideline:tideline deploy/kubernetes kubernetes\n" in (PROJECT / "Dockerfile").read_text()
    assert path == f"/opt/tideline/kubernetes/{role}.yaml"
    [container] = template(role)["containers"]
    assert container["name"] == PROPERTIES[f"spark.kubernetes.{role}.podTemplateContainerName"]
    assert container["command"] == ["python", "-m", "tideline.deployment.spark_pod"]
    user = re.search(r"--uid (\d+) tideline", (PROJECT / "Dockerfile").read_text())
    assert user
    assert template(role)["securityContext"]["runAsUser"] == int(user[1])


def test_a_driver_has_the_secrets_that_each_driver_needs_and_an_executor_has_none():
    [driver] = template("driver")["containers"]
    [executor] = template("executor")["containers"]
    assert {one["name"] for one in driver["env"]} == set(settings.secrets_of_driver())
    assert {source["configMapRef"]["name"] for source in driver["envFrom"]} <= named("ConfigMap")
    assert "env" not in executor
    assert "envFrom" not in executor
    assert template("executor")["automountServiceAccountToken"] is False


def test_what_is_named_elsewhere_is_declared():
    assert PROPERTIES["spark.kubernetes.authenticate.driver.serviceAccountName"] in named("ServiceAccount")
    bound = [one["roleRef"]["name"] for _, one in OBJECTS if one["kind"] == "RoleBinding"]
    assert sorted(bound) == sorted(named("Role"))
