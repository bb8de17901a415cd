"""A notifier that appends what it is called with to a file. Nothing of it is a mock: Airflow creates and calls it like any other."""

import json
from pathlib import Path
from typing import Any

from airflow.sdk import BaseNotifier


class RecordingNotifier(BaseNotifier):  # type: ignore[misc]  # mypy does not follow Airflow: the class is untyped here
    """Writes one line of JSON for each notification, and logs a secret as a careless notifier would. It raises `error` instead, if one is given."""

    template_fields = ("text", "about")

    def __init__(
        self,
        path: str,
        text: str = "",
        about: Any = (),
        secret: str | None = None,
        error: str | None = None,
        **rest: Any,
    ) -> None:
        super().__init__()
        self.path = Path(path)
        self.text = text
        self.about = about
        self.secret = secret
        self.error = error
        self.rest = rest

    def notify(self, context: Any) -> None:
        """Append the rendered texts and the other arguments."""
        self.log.info("notifying with %s", self.secret)
        if self.error:
            raise RuntimeError(self.error)
        with self.path.open("a") as file:
            file.write(json.dumps({"text": self.text, "about": self.about, **self.rest}) + "\n")
