"""A web server in this process, at a free port of this machine, by plain HTTP or by TLS."""

import json
import ssl
from collections.abc import Mapping
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any, Self

from servers.tls import Certificates

Answer = tuple[int, Any]
"""A status, and what the body holds: JSON, or bytes as they are. Status 0 ends the connection without an answer."""


class WebServer:
    """Serves until its block ends. A server says in `answered` what it answers.

    Args:
        certificates: Serve by TLS with these; without them by plain HTTP.
    """

    def __init__(self, certificates: Certificates | None = None) -> None:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._scheme = "http"
        if certificates is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificates.server.certificate, certificates.server.key)
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
            self._scheme = "https"
        self._thread = Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05})

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def url(self) -> str:
        return f"{self._scheme}://127.0.0.1:{self._server.server_port}"

    def answered(self, path: str, headers: Mapping[str, str], body: bytes) -> Answer:
        """Return the answer to a request."""
        raise NotImplementedError

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            timeout = 30

            def do_GET(self) -> None:
                given = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                status, body = server.answered(self.path, dict(self.headers), given)
                if not status:
                    self.close_connection = True
                    return
                content = body if isinstance(body, bytes) else json.dumps(body).encode()
                with suppress(ConnectionError):
                    self.send_response(status)
                    self.send_header("Content-Type", "application/json")
                    self.send_header("Content-Length", str(len(content)))
                    self.end_headers()
                    self.wfile.write(content)

            def do_POST(self) -> None:
                self.do_GET()

            def log_message(self, *_: object) -> None:
                """Print nothing."""

        return Handler
