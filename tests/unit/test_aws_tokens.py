"""Tokens of AWS_MSK_IAM: they are the signer's own, their signature is that of the credentials, and without credentials the message says so."""

import base64
import hashlib
import hmac
import pickle
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl, quote, urlsplit

import pytest
from aws_msk_iam_sasl_signer import MSKAuthTokenProvider
from moto.server import ThreadedMotoServer

from tideline.declaration import Source
from tideline.deployment import secret
from tideline.errors import FatalError, RetryableError
from tideline.kafka.settings import client_settings, executor_settings, spark_settings

KEY, SECRET, REGION = "AKIDEXAMPLE", secret.marked("aws"), "eu-central-1"
ROLE = "arn:aws:iam::123456789012:role/loads/tideline"
AUTHORITY_S = 900


@pytest.fixture
def credentials(monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)


@pytest.fixture
def nowhere(monkeypatch, tmp_path):
    """Let boto find no credentials."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "none"))


def source(**security):
    raw = {
        "bootstrap_servers": "broker:9098",
        "topics": ["t"],
        "value": {"format": "bytes"},
        "security": {"protocol": "SASL_SSL", "sasl_mechanism": "AWS_MSK_IAM", "sasl_aws_region": REGION, **security},
    }
    return Source.model_validate(raw, context="impressions")


def parts(token):
    """Return the address that a token is, and its parameters."""
    address = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)).decode()
    return urlsplit(address), dict(parse_qsl(urlsplit(address).query))


def signature(address, given, key):
    """Sign a request by Signature Version 4, as Amazon documents it: the second opinion."""

    def digest(of, text):
        return hmac.new(of, text.encode(), hashlib.sha256).digest()

    signed = {name: value for name, value in given.items() if name not in {"X-Amz-Signature", "User-Agent"}}
    query = "&".join(f"{quote(name, safe='~')}={quote(signed[name], safe='~')}" for name in sorted(signed))
    request = f"GET\n/\n{query}\nhost:{address.netloc}\n\nhost\n{hashlib.sha256(b'').hexdigest()}"
    day, region, service, last = given["X-Amz-Credential"].split("/")[1:]
    text = f"AWS4-HMAC-SHA256\n{given['X-Amz-Date']}\n{day}/{region}/{service}/{last}\n{hashlib.sha256(request.encode()).hexdigest()}"
    own = f"AWS4{key}".encode()
    for one in (day, region, service, last):
        own = digest(own, one)
    return digest(own, text).hex()


def test_a_token_is_that_of_the_signer_and_signed_with_the_credentials(credentials):
    give = client_settings(source().brokers)["oauth_cb"]
    for _ in range(5):  # both must fall into the same second
        (token, ends_s), (own, ends_ms) = give(None), MSKAuthTokenProvider.generate_auth_token(REGION)
        if token == own:
            break
    assert (token, abs(ends_s - ends_ms / 1000) <= 1, abs(ends_s - time.time() - AUTHORITY_S) < 60) == (own, True, True)
    address, given = parts(token)
    assert (address.netloc, given["Action"]) == (f"kafka.{REGION}.amazonaws.com", "kafka-cluster:Connect")
    assert given["X-Amz-Credential"].startswith(f"{KEY}/")
    assert given["X-Amz-Signature"] == signature(address, given, SECRET)


def test_both_clients_get_the_login_and_the_secret_stands_in_none_of_their_settings(credentials):
    client, executor, spark = client_settings(source().brokers), executor_settings(source()), spark_settings(source())
    for settings in (client, executor):
        assert settings["sasl.mechanism"] == "OAUTHBEARER"
        assert "sasl.oauthbearer.method" not in settings
        assert pickle.loads(pickle.dumps(settings))["oauth_cb"](None)[0]
    assert {name: value for name, value in spark.items() if "sasl" in name} == {
        "kafka.sasl.mechanism": "AWS_MSK_IAM",
        "kafka.sasl.jaas.config": "software.amazon.msk.auth.iam.IAMLoginModule required;",
        "kafka.sasl.client.callback.handler.class": "software.amazon.msk.auth.iam.IAMClientCallbackHandler",
    }
    assert SECRET not in f"{client}{executor}{spark}"


def test_a_role_is_assumed_before_the_token_is_signed(credentials, monkeypatch):
    server = ThreadedMotoServer(port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        monkeypatch.setenv("AWS_ENDPOINT_URL_STS", f"http://{host}:{port}")
        monkeypatch.setenv("AWS_DEFAULT_REGION", REGION)
        assuming = source(sasl_aws_role_arn=ROLE)
        _, given = parts(client_settings(assuming.brokers)["oauth_cb"](None)[0])
    finally:
        server.stop()
    assert not given["X-Amz-Credential"].startswith(KEY)
    assert given["X-Amz-Security-Token"]
    assert spark_settings(assuming)["kafka.sasl.jaas.config"] == (
        f'software.amazon.msk.auth.iam.IAMLoginModule required awsRoleArn="{ROLE}" awsRoleSessionName="tideline" awsStsRegion="{REGION}";'
    )


def test_without_credentials_the_message_says_where_to_put_them(nowhere):
    with pytest.raises(FatalError, match=r"source\.security: AWS gives no token.*\n.*give the process credentials"):
        client_settings(source().brokers)


def test_a_token_service_that_does_not_answer_is_tried_again_and_one_that_refuses_is_not(credentials, monkeypatch):
    monkeypatch.setenv("AWS_DEFAULT_REGION", REGION)
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    monkeypatch.setenv("AWS_ENDPOINT_URL_STS", "http://127.0.0.1:1")
    assuming = source(sasl_aws_role_arn=ROLE)
    with pytest.raises(RetryableError, match=r"AWS does not answer with a token.*EndpointConnectionError"):
        client_settings(assuming.brokers)
    for status, kind, said in ((503, RetryableError, "AWS does not answer"), (403, FatalError, "AWS gives no token")):
        with answering(status) as address:
            monkeypatch.setenv("AWS_ENDPOINT_URL_STS", address)
            with pytest.raises(kind, match=said):
                client_settings(assuming.brokers)


@contextmanager
def answering(status):
    """Serve one answer to everything; yield the address."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_):
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(
    ("security", "said"),
    [
        ({"sasl_aws_region": None}, "missing sasl_aws_region"),
        ({"sasl_username": "me"}, "expected only what the mechanism AWS_MSK_IAM uses, found sasl_username"),
        ({"sasl_aws_region": "Frankfurt"}, "sasl_aws_region"),
        ({"sasl_aws_role_arn": "tideline"}, "sasl_aws_role_arn"),
        ({"sasl_mechanism": "OAUTHBEARER"}, "found sasl_aws_region"),
    ],
)
def test_a_login_that_is_incomplete_or_of_another_mechanism_is_refused(security, said):
    with pytest.raises(ValueError, match=said):
        source(**security)
