"""Connection settings for the clients of a pipeline's brokers. One table ensures that planner and reader use the same settings.

Never connects. `tideline.kafka.broker` uses the option names of librdkafka, the Spark job those of the Java client.
"""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from tideline.declaration import Source
from tideline.declaration.brokers import Brokers
from tideline.errors import FatalError
from tideline.kafka import aws_tokens

ClientSettings = dict[str, Any]
"""Settings for librdkafka: texts, and what gives tokens where librdkafka does not fetch them itself. They can be pickled."""

# Declared key: (librdkafka's option, the Java client's option). None if the value becomes a part of `sasl.jaas.config`, or of what gives tokens.
_NAMES = {
    "bootstrap_servers": ("bootstrap.servers", "bootstrap.servers"),
    "protocol": ("security.protocol", "security.protocol"),
    "sasl_mechanism": ("sasl.mechanism", "sasl.mechanism"),
    "sasl_username": ("sasl.username", None),
    "sasl_password": ("sasl.password", None),
    "sasl_oauth_token_url": ("sasl.oauthbearer.token.endpoint.url", "sasl.oauthbearer.token.endpoint.url"),
    "sasl_oauth_client_id": ("sasl.oauthbearer.client.id", None),
    "sasl_oauth_client_secret": ("sasl.oauthbearer.client.secret", None),
    "sasl_oauth_scope": ("sasl.oauthbearer.scope", None),
    "sasl_oauth_ca_location": ("https.ca.location", None),
    "sasl_oauth_extensions": ("sasl.oauthbearer.extensions", None),
    "sasl_aws_region": (None, None),
    "sasl_aws_role_arn": (None, None),
    "ssl_ca_location": ("ssl.ca.location", "ssl.truststore.certificates"),
    "ssl_certificate_location": ("ssl.certificate.location", "ssl.keystore.certificate.chain"),
    # Java 17 requires PKCS#8 and, where it is encrypted, PBES1: `openssl pkcs8 -topk8 -v1 PBE-SHA1-3DES`.
    "ssl_key_location": ("ssl.key.location", "ssl.keystore.key"),
    "ssl_key_password": ("ssl.key.password", "ssl.key.password"),
}
_TOKENS, _AWS = "OAUTHBEARER", "AWS_MSK_IAM"
_JAVA, _JAVA_OF_AWS = "org.apache.kafka.common.security", "software.amazon.msk.auth.iam"
# Planner and reader use the same level. Else a plan could hold offsets behind an open transaction, which Spark cannot read.
_BOTH = {"isolation.level": "read_committed"}


def client_settings(brokers: Brokers) -> ClientSettings:
    """Return the settings for librdkafka. They hold secrets: never log them.

    Raises:
        FatalError: An environment variable that the declaration names is not set, or AWS gives no token.
        RetryableError: AWS does not answer.
    """
    values = brokers.connection()
    named = {name: value for key, value in values.items() if (name := _NAMES[key][0])}
    settings = named | _by_token(values) | _BOTH
    check_token(settings, f"{brokers.section}.security")
    return settings


def check_token(settings: Mapping[str, Any], section: str) -> None:
    """Make sure that there are tokens, where AWS gives them. A client itself would try for ten seconds, and not say why there is none.

    Raises:
        FatalError: AWS gives no token.
        RetryableError: AWS does not answer.
    """
    if give := settings.get("oauth_cb"):
        aws_tokens.check(give, section)


def spark_settings(source: Source) -> dict[str, str]:
    """Return the settings for Spark's Kafka reader, each with the prefix `kafka.`. They hold secrets: never log them.

    The Java client gets the text of PEM files instead of their paths, because executors may run on machines without the files.

    Raises:
        FatalError: An environment variable that the declaration names is not set, or a PEM file cannot be read.
    """
    values = source.brokers.connection()
    settings = dict(_BOTH)
    for key, value in values.items():
        if name := _NAMES[key][1]:
            settings[name] = _pem(key, value) if key.endswith("_location") else value
    if "sasl_mechanism" in values:
        settings["sasl.jaas.config"] = _login(values)
    if values.get("sasl_mechanism") == _TOKENS:
        settings["sasl.login.callback.handler.class"] = f"{_JAVA}.oauthbearer.OAuthBearerLoginCallbackHandler"
    if values.get("sasl_mechanism") == _AWS:
        settings["sasl.client.callback.handler.class"] = f"{_JAVA_OF_AWS}.IAMClientCallbackHandler"
    if "ssl_ca_location" in values:
        settings["ssl.truststore.type"] = "PEM"
    if "ssl_key_location" in values:
        settings["ssl.keystore.type"] = "PEM"
    return {f"kafka.{name}": value for name, value in settings.items()}


def executor_settings(source: Source) -> ClientSettings:
    """Return the settings for librdkafka in executors. They hold secrets: never log them.

    PEM files are given as their texts, for the same reason as in `spark_settings`.

    Raises:
        FatalError: As above.
    """
    values = source.brokers.connection()
    settings: ClientSettings = {}
    for key, value in values.items():
        name = _NAMES[key][0]
        if name and key.endswith("_location"):
            settings[name.removesuffix("location") + "pem"] = _pem(key, value)
        elif name:
            settings[name] = value
    return settings | _by_token(values) | _BOTH


def _by_token(values: Mapping[str, str]) -> ClientSettings:
    """Return what librdkafka needs besides for tokens: it fetches those of an issuer itself, and asks for those of AWS."""
    match values.get("sasl_mechanism"):
        case "OAUTHBEARER":
            return {"sasl.oauthbearer.method": "oidc"}
        case "AWS_MSK_IAM":
            region, role = values["sasl_aws_region"], values.get("sasl_aws_role_arn")
            return {"sasl.mechanism": _TOKENS, "oauth_cb": partial(aws_tokens.token, region, role)}
        case _:
            return {}


def _login(values: Mapping[str, str]) -> str:
    """Return how the Java client logs in, as the options of a login module."""
    if values["sasl_mechanism"] == _AWS:
        module = f"{_JAVA_OF_AWS}.IAMLoginModule"
        options = {}
        if role := values.get("sasl_aws_role_arn"):
            session, region = aws_tokens.SESSION, values["sasl_aws_region"]
            options = {"awsRoleArn": role, "awsRoleSessionName": session, "awsStsRegion": region}
    elif values["sasl_mechanism"] == _TOKENS:
        module = f"{_JAVA}.oauthbearer.OAuthBearerLoginModule"
        options = {"clientId": values["sasl_oauth_client_id"], "clientSecret": values["sasl_oauth_client_secret"]}
        if "sasl_oauth_scope" in values:
            options["scope"] = values["sasl_oauth_scope"]
        extensions = filter(None, values.get("sasl_oauth_extensions", "").split(","))
        options |= {f"extension_{name}": text for name, _, text in (one.partition("=") for one in extensions)}
        if path := values.get("sasl_oauth_ca_location"):
            options |= {
                "ssl.truststore.type": "PEM",
                "ssl.truststore.certificates": _pem("sasl_oauth_ca_location", path),
            }
    else:
        of_password = "plain.PlainLoginModule" if values["sasl_mechanism"] == "PLAIN" else "scram.ScramLoginModule"
        module = f"{_JAVA}.{of_password}"
        options = {"username": values["sasl_username"], "password": values["sasl_password"]}
    quoted = "".join(f" {name}={_quoted(text)}" for name, text in options.items())
    return f"{module} required{quoted};"


def _quoted(text: str) -> str:
    """Quote a text for Java's StreamTokenizer: an unescaped quote or line break would end it, and a backslash would vanish."""
    for plain, escaped in (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("\r", "\\r")):
        text = text.replace(plain, escaped)
    return f'"{text}"'


def _pem(key: str, path: str) -> str:
    try:
        return Path(path).read_text("utf-8")
    except (OSError, ValueError) as error:
        raise FatalError(
            f"source.security.{key}: expected the path of a readable PEM file, found: {type(error).__name__}",
            next_step="correct the path, or the file's permissions for the account that runs the task; it is not shown: it may be a key",
            entry="kafka-refuses",
        ) from None  # the error names the path
