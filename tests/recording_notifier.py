"""A notifier that appends what it is created and called with to a file."""

import json
from pathlib import Path

from airflow.sdk import BaseNotifier


class RecordingNotifier(BaseNotifier):
    """Writes one line of JSON for each notification. It raises `error` instead, if one is given."""

    template_fields = ("text",)

    def __init__(self, path, text="", error=None, **rest):
        super().__init__()
        self.path = Path(path)
        self.text = text
        self.error = error
        self.rest = rest

    def notify(self, context):
        """Append the rendered text and the other arguments."""
        self.log.info("notifying with %s", self.rest)
        if self.error:
            raise RuntimeError(self.error)
        with self.path.open("a") as file:
            file.write(json.dumps({"text": self.text, **self.rest}) + "\n")
