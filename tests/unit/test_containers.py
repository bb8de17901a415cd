"""Container files. No test starts a container, so these check that every name and file in them exists, and what the first runs have taught."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest
from cryptography.fernet import Fernet
from ruamel.yaml import YAML

from tideline.ledger.rights import GRANTED
from tideline.settings import PROJECT

OURS = "tideline:0.1.0"


def text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


@pytest.fixture
def compose():
    return YAML(typ="safe").load(text(PROJECT / "docker-compose.yaml"))


@pytest.fixture
def services(compose):
    return compose["services"]


@pytest.fixture
def own(services):
    """Return the services of the image that is built here."""
    found = {name: service for name, service in services.items() if service["image"] == OURS}
    assert len(found) == len(services) - len({"postgres", "kafka"})
    return found


def mounts(service) -> dict[str, str]:
    return dict(volume.split(":")[1::-1] for volume in service.get("volumes", []))


def test_services_depend_on_services_that_say_when_they_are_ready(services):
    for name, service in services.items():
        for other, how in service.get("depends_on", {}).items():
            if how["condition"] == "service_healthy":
                assert "healthcheck" in services[other], (name, other)
            else:
                assert how["condition"] == "service_completed_successfully", name
                assert services[other]["restart"] == "no", (name, other)


def test_volumes_and_files_are_there(compose, services):
    for name, service in services.items():
        for source in mounts(service).values():
            assert (PROJECT / source).is_file() if source.startswith(".") else source in compose["volumes"], name
    assert {source for service in services.values() for source in mounts(service).values()} >= set(compose["volumes"])


def test_every_volume_of_kafkas_image_has_a_name(services):
    assert set(mounts(services["kafka"])) == {"/var/lib/kafka/data", "/etc/kafka/secrets", "/mnt/shared/config"}


def test_hosts_are_services(services):
    container_file, properties = text(PROJECT / "docker-compose.yaml"), text(PROJECT / "containers/spark.properties")
    spoken_to = re.findall(r"[/@ :\"']([a-z][a-z-]*):\d{4}\b", container_file)
    master = re.search(r'"host": "spark://([a-z-]+)"', container_file)
    driver = re.search(r"^spark\.driver\.host +(\S+)", properties, re.MULTILINE)
    assert {"kafka", "postgres", "airflow-apiserver"} <= set(spoken_to)
    assert {*spoken_to, master[1], driver[1]} <= set(services)
    assert services[driver[1]]["hostname"] == driver[1]


def test_the_properties_file_is_where_the_variable_says(services):
    scheduler = services["airflow-scheduler"]
    mounted = mounts(scheduler)[scheduler["environment"]["TIDELINE_SPARK_PROPERTIES"]]
    assert mounted == "./containers/spark.properties"


def test_the_properties_name_the_jars_that_the_image_downloads():
    folder = re.search(r"tideline jars (\S+)", text(PROJECT / "Dockerfile"))[1]
    named = re.findall(
        r"^spark\.\w+\.extraClassPath +(\S+)", text(PROJECT / "containers/spark.properties"), re.MULTILINE
    )
    assert named == [f"/opt/tideline/{folder}/*"] * 2


def test_one_service_builds_the_image_for_all(own):
    assert [name for name, service in own.items() if "build" in service] == ["airflow-init"]


def test_own_services_write_to_memory_and_volumes_only(own):
    for name, service in own.items():
        assert service["read_only"], name
        memory = {entry.split(":")[0]: entry.split(":")[1].split(",") for entry in service["tmpfs"]}
        # Docker's default is noexec, with which Kafka's client cannot load the compression libraries that it unpacks.
        assert "exec" in memory["/tmp"], name
        user = re.search(r"--uid (\d+) tideline", text(PROJECT / "Dockerfile"))[1]
        for folder in ("/home/tideline", *(["/opt/airflow"] if name.startswith("airflow-") else [])):
            assert f"uid={user}" in memory[folder], (name, folder)


def test_a_killed_task_is_tried_again_within_minutes(services):
    for name, service in services.items():
        if name.startswith("airflow-"):
            assert service["environment"]["AIRFLOW__SCHEDULER__ORPHANED_TASKS_CHECK_INTERVAL"] == "60", name
    assert services["airflow-scheduler"]["stop_grace_period"] == "60s"


def test_logs_have_a_limit(services):
    for name, service in services.items():
        assert service["logging"]["options"] == {"max-size": "10m", "max-file": "3"}, name


def test_checks_are_rare_once_a_service_has_started_and_import_nothing_large(services):
    for name, service in services.items():
        if name == "airflow-init":
            continue
        check = service["healthcheck"]
        assert (check["interval"], check["start_interval"]) == ("60s", "5s"), name
        words = " ".join(check["test"])
        assert not re.search(r"kafka-[a-z-]+\.sh|airflow (jobs|db)|spark-", words), name
        if check["test"][1] == "python":
            compile(check["test"][3], name, "exec")


def test_secrets_come_from_a_file_that_each_person_fills_in():
    container_file = text(PROJECT / "docker-compose.yaml")
    asked = re.findall(r"\$\{(\w+)(:\?)?", container_file)
    unset = re.findall(r"^(\w+)=(.*)$", text(PROJECT / ".env.example"), re.MULTILINE)
    assert {name for name, refused in asked if refused} == {name for name, _ in asked} == {name for name, _ in unset}
    assert {value for _, value in unset} == {""}
    assert "/.env" in text(PROJECT / ".gitignore").splitlines()


def test_only_postgres_and_the_service_that_makes_the_logins_have_the_administrators_password(services):
    holders = {name for name, service in services.items() if "POSTGRES_PASSWORD" in str(service.get("environment"))}
    assert holders == {"postgres", "airflow-init"}


def test_each_kind_of_process_has_a_role_and_a_password_of_its_own(own):
    for name in (
        "airflow-apiserver",
        "airflow-scheduler",
        "airflow-dag-processor",
        "airflow-triggerer",
        "airflow-init",
    ):
        urls = re.findall(r"//(\w+):\$\{(\w+)[^}]*\}@postgres:5432/(\w+)'", str(own[name]["environment"]))
        assert {(user, database) for user, _, database in urls} == {
            ("airflow", "airflow"),
            *((f"tideline_{duty}", "warehouse") for duty in GRANTED),
        }
        assert len({password for _, password, _ in urls}) == len(urls)


def test_the_command_for_a_fernet_key_makes_one():
    command = re.search(r"(openssl rand 32 .*)$", text(PROJECT / ".env.example"), re.MULTILINE)[1]
    made = subprocess.run(["bash", "-c", command], capture_output=True, check=True, timeout=60).stdout.strip()
    assert Fernet(made).decrypt(Fernet(made).encrypt(b"x")) == b"x"
    assert re.fullmatch(rb"[\w-]+=", made)


def test_the_image_gets_the_files_that_it_copies():
    rules = [line for line in text(PROJECT / ".dockerignore").splitlines() if line and not line.startswith("#")]
    copied = re.findall(r"^COPY (?:--chown=\S+ )?((?!--from)\S.*) \S+$", text(PROJECT / "Dockerfile"), re.MULTILINE)
    sources = {source for line in copied if "--from" not in line for source in line.split()}
    assert {source.split("/")[0] for source in sources} == {rule[1:] for rule in rules if rule.startswith("!")}
    assert all((PROJECT / source).exists() for source in sources)
    assert "*" in rules


def test_the_image_has_no_extras():
    """They hold the local stack's Postgres, tests and tools."""
    image = text(PROJECT / "Dockerfile")
    assert "['project']['dependencies']" in image
    assert not re.search(
        r"optional-dependencies|--editable|\[(local|dev)\]|--requirement requirements\.txt|COPY .*tests", image
    )


def test_the_pipelines_of_the_image_are_where_its_variable_says():
    image = text(PROJECT / "Dockerfile")
    source, folder = re.search(r"^COPY \S+ (\S+/pipelines) (\S+)$", image, re.MULTILINE).groups()
    assert re.search(r"TIDELINE_PIPELINES=(\S+)", image)[1] == f"/opt/tideline/{folder}"
    assert (PROJECT / source / "impressions" / "pipeline.yaml").is_file()


def test_the_command_that_produces_records_can_be_run():
    """The image has the wheel only, so the program is sent to it: it may import the package, and what the package requires."""
    [program] = re.findall(
        r"exec -T \S+ python - kafka:9092 10000 < (\S+)$", text(PROJECT / "docs/deploy.md"), re.MULTILINE
    )
    modules = {
        name.partition(".")[0]
        for node in ast.walk(ast.parse(text(PROJECT / program)))
        for name in (
            [node.module]
            if isinstance(node, ast.ImportFrom)
            else [one.name for one in node.names]
            if isinstance(node, ast.Import)
            else []
        )
    }
    assert modules - {*sys.stdlib_module_names} == {"confluent_kafka", "tideline"}
