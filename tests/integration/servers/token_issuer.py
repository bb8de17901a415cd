"""An issuer of OIDC tokens in this process: client credentials become tokens that a broker can verify."""

import json
import ssl
import time
from base64 import b64decode
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any, Self
from urllib.parse import parse_qs

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa

from servers.tls import Certificates
from tideline.deployment import secret

AUDIENCE = "kafka"


class TokenIssuer:
    """Serves at a free port of this machine until its block ends.

    Args:
        certificates: Serve by TLS with these; without them by plain HTTP.
        lifetime_seconds: How long a token is valid.
    """

    client_id = "tideline"

    def __init__(self, certificates: Certificates | None = None, lifetime_seconds: float = 300) -> None:
        self.client_secret = secret.marked("oauth")
        self.given: list[Mapping[str, Any]] = []
        """The claims of each token."""
        self._lifetime = lifetime_seconds
        self._key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
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

    def keys(self) -> str:
        """Return the public key, as brokers read it from a file."""
        key = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(self._key.public_key()))
        return json.dumps({"keys": [key | {"kid": "test", "alg": "RS256", "use": "sig"}]})

    def _token(self, asked: Mapping[str, list[str]]) -> dict[str, Any]:
        now = time.time()
        claims = {"sub": self.client_id, "aud": AUDIENCE, "iat": int(now), "exp": int(now + self._lifetime)}
        claims |= {"scope": asked["scope"][0]} if "scope" in asked else {}
        self.given.append(claims)
        token = jwt.encode(claims, self._key, algorithm="RS256", headers={"kid": "test"})
        return {"access_token": token, "token_type": "Bearer", "expires_in": int(self._lifetime)}

    def _answer(self, authorization: str, asked: Mapping[str, list[str]]) -> tuple[int, dict[str, Any]]:
        scheme, _, login = authorization.partition(" ")
        client = b64decode(login).decode() if scheme == "Basic" else ""
        if client != f"{self.client_id}:{self.client_secret}" or asked.get("grant_type") != ["client_credentials"]:
            return 401, {"error": "invalid_client"}
        return 200, self._token(asked)

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        issuer = self

        class Handler(BaseHTTPRequestHandler):
            timeout = 30

            def do_POST(self) -> None:
                asked = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
                status, body = issuer._answer(self.headers.get("Authorization", ""), asked)
                content = json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_: object) -> None:
                """Print nothing."""

        return Handler
