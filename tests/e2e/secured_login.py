"""A login to the brokers that no process has in its environment: the user is in a file, and the password in Airflow's secrets backend."""

import json
from collections.abc import Mapping
from pathlib import Path

from tideline.deployment import secret
from tideline_stack.broker import LocalBroker

_SERVERS, _USER, PASSWORD = "SECURED_KAFKA", "SECURED_KAFKA_USER", "SECURED_KAFKA_PASSWORD"
DECLARED = {
    "servers": f"{{env: {_SERVERS}}}",
    "security": {
        "protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "PLAIN",
        "sasl_username": {"env": _USER},
        "sasl_password": {"env": PASSWORD},
    },
}


def settings(folder: Path) -> Mapping[str, str]:
    """Return the settings of Airflow, and the variable that names the file."""
    return {
        "AIRFLOW__SECRETS__BACKEND": "airflow.secrets.local_filesystem.LocalFilesystemBackend",
        "AIRFLOW__SECRETS__BACKEND_KWARGS": json.dumps({"variables_file_path": str(folder / "variables.json")}),
        f"{_USER}_FILE": str(folder / "kafka-user"),
    }


def write(folder: Path, broker: LocalBroker) -> None:
    """Write the files that `settings` names."""
    secret.write(folder / "kafka-user", f"{broker.sasl_username}\n")
    kept = {_SERVERS: broker.sasl_bootstrap, PASSWORD: broker.sasl_password}
    secret.write(folder / "variables.json", json.dumps(kept))
