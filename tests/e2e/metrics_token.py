"""The token with which the tests read `/tideline/metrics`, and logins to Airflow."""

import json
from pathlib import Path

import httpx

from system import System
from tideline.deployment import secret

TOKEN = secret.marked("-a-token-of-the-metrics-")
USERS = {"AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": "admin:admin,viewer:viewer"}


def login(system: System, user: str) -> str:
    """Return Airflow's token of a user."""
    passwords = json.loads(Path(system.environment["AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE"]).read_text())
    url = f"{system.environment['TIDELINE_AIRFLOW_URL']}/auth/token"
    answer = httpx.post(url, json={"username": user, "password": passwords[user]}, timeout=60)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["access_token"])
