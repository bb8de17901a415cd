"""Make the logins that the variables of the containers name, and migrate the ledger: `python -m tideline.deployment.container_logins`.

Run by the service `airflow-init` of docker-compose.yaml, before each start. It alone has the password of the administrator.
"""

import os
import sys
from urllib.parse import urlsplit

from tideline import settings
from tideline.deployment import logins
from tideline.errors import TidelineError

_OF_ROLES = (settings.LEDGER_URL, settings.WRITER_URL, settings.STAGER_URL, settings.READER_URL)
_OF_AIRFLOW = "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"


def main() -> int:
    """Make the logins; return the exit code."""
    given = {name: urlsplit(os.environ[name]) for name in (*_OF_ROLES, _OF_AIRFLOW)}
    passwords = {url.username or "": url.password or "" for url in given.values()}

    def admin(name: str) -> str:
        return f"{os.environ['ADMIN_URL']}{given[name].path}"

    try:
        logins.of_ledger(admin(settings.LEDGER_URL), passwords.__getitem__)
        logins.of_airflow(admin(_OF_AIRFLOW), passwords.__getitem__)
    except TidelineError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
