"""Container files. No test starts a container, so these check that every name and file in them exists."""

import re
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from tideline.settings import PROJECT


def text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


@pytest.fixture
def compose():
    return YAML(typ="safe").load(text(PROJECT / "docker-compose.yaml"))


def test_services_depend_on_services_that_say_when_they_are_ready(compose):
    services = compose["services"]
    for name, service in services.items():
        for other, how in service.get("depends_on", {}).items():
            if how["condition"] == "service_healthy":
                assert "healthcheck" in services[other], (name, other)
            else:
                assert how["condition"] == "service_completed_successfully", name
                assert services[other]["restart"] == "no", (name, other)


def test_volumes_configs_and_files_are_there(compose):
    for name, service in compose["services"].items():
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            assert (PROJECT / source).exists() if source.startswith(".") else source in compose["volumes"], name
        assert {config["source"] for config in service.get("configs", [])} <= set(compose["configs"]), name


def test_hosts_are_services(compose):
    spoken_to = re.findall(r"[/@ :\"']([a-z][a-z-]*):\d{4}\b", text(PROJECT / "docker-compose.yaml"))
    master = re.search(r'"host": "spark://([a-z-]+)"', text(PROJECT / "docker-compose.yaml"))
    driver = re.search(r"spark\.driver\.host +(\S+)", compose["configs"]["spark_properties"]["content"])
    assert {"kafka", "postgres", "airflow-apiserver"} <= set(spoken_to)
    assert {*spoken_to, master[1], driver[1]} <= set(compose["services"])
    assert compose["services"][driver[1]]["hostname"] == driver[1]


def test_the_properties_file_is_where_the_variable_says(compose):
    scheduler = compose["services"]["airflow-scheduler"]
    mounted = {config["source"]: config["target"] for config in scheduler["configs"]}
    assert mounted["spark_properties"] == scheduler["environment"]["TIDELINE_SPARK_PROPERTIES"]


def test_secrets_come_from_a_file_that_each_person_fills_in():
    container_file = text(PROJECT / "docker-compose.yaml")
    asked = re.findall(r"\$\{(\w+)(:\?)?", container_file)
    unset = re.findall(r"^(\w+)=(.*)$", text(PROJECT / ".env.example"), re.MULTILINE)
    assert {name for name, refused in asked if refused} == {name for name, _ in asked} == {name for name, _ in unset}
    assert {value for _, value in unset} == {""}
    assert "/.env" in text(PROJECT / ".gitignore").splitlines()


def test_the_image_gets_the_files_that_it_copies():
    rules = [line for line in text(PROJECT / ".dockerignore").splitlines() if line and not line.startswith("#")]
    copied = re.findall(r"^COPY (?:--\S+ )*(.+) \S+$", text(PROJECT / "Dockerfile"), re.MULTILINE)
    sources = {source for line in copied for source in line.split()}
    assert sources == {rule.removeprefix("!") for rule in rules if rule.startswith("!")}
    assert all((PROJECT / source).exists() for source in sources)
    assert "*" in rules
