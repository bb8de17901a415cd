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
_LONGEST = 1_000
"""So many bytes of a place the ledger takes: a constraint of it says the same, since its index has to hold the place twice."""


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
        FatalError: A variable is not set, the path is relative, or the place is longer than the ledger takes.
    """
    uri = delta_address(pipeline, sink)
    place = f"{uri.rstrip('/')}{_at_store(pipeline, sink)}" if uri.startswith("s3://") else os.path.realpath(uri)
    if (n_bytes := len(os.fsencode(place))) > _LONGEST:
        raise FatalError(
            f"pipeline {pipeline.name}, key sink.path: expected a real path, or an address with its store, of at most {_LONGEST} bytes, "
            f"found {n_bytes}: the ledger could not record who writes it",
            next_step="give the table a shorter path, on each host that loads it",
            entry="environment",
        )
    return place


def _at_store(pipeline: Pipeline, sink: DeltaSink) -> str:
    key = next((name for name in _ENDPOINTS if name in sink.storage), None)
    endpoint = "" if key is None else storage_value(pipeline, f"storage.{key}", sink.storage[key])
    host = urlsplit(endpoint if "//" in endpoint else f"//{endpoint}").netloc.rpartition("@")[2].lower()
    return f" at {host}" if host else ""
