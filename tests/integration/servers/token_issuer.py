"""An issuer of OIDC tokens in this process: client credentials become tokens that a broker can verify."""

import json
import time
from base64 import b64decode
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qs

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa

from servers.tls import Certificates
from servers.web_server import Answer, WebServer
from tideline.deployment import secret

AUDIENCE = "kafka"


class TokenIssuer(WebServer):
    """Gives tokens to one client.

    Args:
        certificates: Serve by TLS with these; without them by plain HTTP.
        lifetime_seconds: How long a token is valid.
    """

    client_id = "tideline"

    def __init__(self, certificates: Certificates | None = None, lifetime_seconds: float = 300) -> None:
        super().__init__(certificates)
        self.client_secret = secret.marked("oauth")
        self.given: list[Mapping[str, Any]] = []
        """The claims of each token."""
        self._lifetime = lifetime_seconds
        self._key = rsa.generate_private_key(public_exponent=65537, key_size=2048)

    def keys(self) -> str:
        """Return the public key, as brokers read it from a file."""
        key = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(self._key.public_key()))
        return json.dumps({"keys": [key | {"kid": "test", "alg": "RS256", "use": "sig"}]})

    def _token(self, asked: Mapping[str, list[str]]) -> dict[str, Any]:
        now = time.time()
        claims = {"sub": self.client_id, "aud": AUDIENCE, "iat": int(now), "exp": int(now + self._lifetime) + 1}
        claims |= {"scope": asked["scope"][0]} if "scope" in asked else {}
        self.given.append(claims)
        token = jwt.encode(claims, self._key, algorithm="RS256", headers={"kid": "test"})
        return {"access_token": token, "token_type": "Bearer", "expires_in": int(self._lifetime)}

    def answered(self, path: str, headers: Mapping[str, str], body: bytes) -> Answer:
        """Return a token, or the refusal of a client that is not the one."""
        asked = parse_qs(body.decode())
        scheme, _, login = headers.get("Authorization", "").partition(" ")
        client = b64decode(login).decode() if scheme == "Basic" else ""
        if client != f"{self.client_id}:{self.client_secret}" or asked.get("grant_type") != ["client_credentials"]:
            return 401, {"error": "invalid_client"}
        return 200, self._token(asked)
