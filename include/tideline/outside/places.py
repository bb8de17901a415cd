"""The place that a pipeline writes to, in a form that is the same however it is declared. Needs no library of a sink."""

import os.path
from urllib.parse import urlsplit

from tideline import environment
from tideline.declaration.delta import DeltaSink
from tideline.declaration.pipelines import Pipeline
from tideline.declaration.sections import FromEnvironment, may_be_secret
from tideline.errors import FatalError

_ENDPOINTS = ("aws_endpoint_url", "aws_endpoint", "endpoint_url", "endpoint")
"""The options of storage that name another object store than Amazon's."""


def storage_value(pipeline: Pipeline, key: str, value: str | FromEnvironment) -> str:
    """Return a value of a Delta sink, from the environment where the declaration names a variable.

    Raises:
        FatalError: The variable is not set.
    """
    if isinstance(value, str):
        return value
    return environment.secret(value.env, f"sink.{key} of pipeline {pipeline.name}", masked=may_be_secret(key))


def delta_address(pipeline: Pipeline, sink: DeltaSink) -> str:
    """Return the address of a Delta table as it is declared.

    Raises:
        FatalError: A variable is not set, or the path is relative.
    """
    uri = storage_value(pipeline, "path", sink.path)
    if not uri.startswith(("/", "s3://")):
        raise FatalError(
            f"pipeline {pipeline.name}, key sink.path: expected an absolute path or s3://bucket/path, found something else",
            next_step="correct the environment variable that the key names; what it holds is not shown",
            entry="environment",
        )
    return uri


def delta_place(pipeline: Pipeline, sink: DeltaSink) -> str:
    """Return the real path of a Delta table in a folder, or its address in an object store with the store's host, without user and password.

    Two links to one folder are one place, and so is a path with a slash at its end. One bucket name in two stores is two places.

    Raises:
        FatalError: A variable is not set, or the path is relative.
    """
    uri = delta_address(pipeline, sink)
    if not uri.startswith("s3://"):
        return os.path.realpath(uri)
    given = next((sink.storage[name] for name in _ENDPOINTS if name in sink.storage), None)
    endpoint = "" if given is None else storage_value(pipeline, "storage.endpoint", given)
    host = urlsplit(endpoint if "//" in endpoint else f"//{endpoint}").netloc.rpartition("@")[2].lower()
    return uri.rstrip("/") + (f" at {host}" if host else "")
