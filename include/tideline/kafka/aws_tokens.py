"""Tokens for clusters of Amazon MSK that let roles in. Amazon's signer makes them of the credentials that boto finds where the process runs.

A token is a signed address that is valid for 15 minutes. Nothing is asked for it unless another role is to be assumed.
Source of the rules: "IAM access control" in the developer guide of Amazon MSK.
"""

from collections.abc import Callable
from importlib import import_module
from typing import Any

from tideline.errors import FatalError, RetryableError

SESSION = "tideline"
"""The name of the session of a role that is assumed, as CloudTrail shows it."""
_SERVER_ERROR = 500


def token(region: str, role_arn: str | None, _config: str | None) -> tuple[str, float]:
    """Return a token, and when it ends, in seconds since 1970. librdkafka calls this when it connects, and before the last one ends.

    Raises:
        ImportError: The signer is not installed.
        Exception: Boto finds no credentials, or may not assume the role.
    """
    signer: Any = import_module("aws_msk_iam_sasl_signer.MSKAuthTokenProvider")
    if role_arn is None:
        signed, expires_ms = signer.generate_auth_token(region)
    else:
        signed, expires_ms = signer.generate_auth_token_from_role_arn(region, role_arn, SESSION)
    return signed, expires_ms / 1000


def check(give: Callable[[None], tuple[str, float]], section: str) -> None:
    """Get a token once.

    Args:
        give: Gives it.
        section: Where the login is declared, for messages.

    Raises:
        FatalError: There is none, for a reason that stays.
        RetryableError: AWS does not answer.
    """
    try:
        give(None)
    except ImportError as error:
        raise FatalError(
            f"{section}: the mechanism AWS_MSK_IAM needs the package aws-msk-iam-sasl-signer-python, found: {error}",
            next_step="install it where tasks and executors run: pip install 'tideline[msk]'",
            entry="kafka-refuses",
        ) from error
    except Exception as error:  # of boto's many
        if _passes(error):
            raise RetryableError(
                f"{section}: AWS does not answer with a token for the brokers: {type(error).__name__}: {error}",
                next_step="check that its token service can be reached from here; the task tries again by itself",
                entry="kafka-does-not-answer",
            ) from error
        raise FatalError(
            f"{section}: AWS gives no token for the brokers: {type(error).__name__}: {error}",
            next_step="give the process credentials where boto looks for them (a role of the machine, AWS_PROFILE, variables), "
            "or correct sasl_aws_role_arn",
            entry="kafka-refuses",
        ) from error


def _passes(error: Exception) -> bool:
    """Return whether an error of boto is one that passes by itself: no answer, or one that the server blames on itself or on haste."""
    errors = import_module("botocore.exceptions")  # the signer has brought it
    if isinstance(error, errors.ClientError):
        said = error.response
        status = said.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        return status >= _SERVER_ERROR or "Throttl" in said.get("Error", {}).get("Code", "")
    return isinstance(error, (errors.HTTPClientError, errors.ConnectionError))
