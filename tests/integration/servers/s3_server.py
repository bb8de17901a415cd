"""An object store with the interface of S3, for tests: moto's server in a process of its own, or one that runs already.

    python s3_server.py PORT [overwrites]

With TIDELINE_TEST_S3=http://host:port the tests use that server, with the access of AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY
and AWS_REGION; each test has a bucket of its own, and removes it.

moto keeps objects in memory. It checks a condition of a PUT and stores the object in two steps, so two requests could both
find nothing and both store. So it answers one request after the other here; `test_s3_server.py` races them. With `overwrites`
it ignores conditions, as older stores do.
"""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen
from uuid import uuid4

import boto3
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import run_simple

from tideline.deployment import secret
from tideline_stack import ports

GIVEN = "TIDELINE_TEST_S3"
_ACCESS = {
    "aws_access_key_id": "AKIAEXAMPLE",
    "aws_secret_access_key": secret.marked("example"),
    "aws_region": "us-east-1",
}


@dataclass(frozen=True, slots=True)
class Store:
    """A bucket of one test session."""

    address: str
    access: Mapping[str, str]
    bucket: str

    @property
    def options(self) -> dict[str, str]:
        """Return how to reach it, as `sink.storage` has it."""
        plain = {"aws_allow_http": "true"} if self.address.startswith("http:") else {}
        return {**self.access, **plain, "aws_endpoint_url": self.address}

    def client(self) -> Any:
        """Return a client that knows nothing of Delta."""
        key, secret, region = (self.access[name] for name in _ACCESS)
        return boto3.client(
            "s3", endpoint_url=self.address, aws_access_key_id=key, aws_secret_access_key=secret, region_name=region
        )

    def remove(self) -> None:
        """Delete the bucket and what is in it."""
        client = self.client()
        for page in client.get_paginator("list_objects_v2").paginate(Bucket=self.bucket):
            for found in page.get("Contents", []):
                client.delete_object(Bucket=self.bucket, Key=found["Key"])
        client.delete_bucket(Bucket=self.bucket)


def given() -> str | None:
    """Return the address of the server that the tests shall use; None for moto's."""
    return os.environ.get(GIVEN)


def at(address: str, access: Mapping[str, str] = _ACCESS) -> Store:
    """Return a bucket that does not exist yet."""
    return Store(address, access, f"tideline-{uuid4().hex}")


@contextmanager
def running(log: Path, *, overwrites: bool = False) -> Iterator[Store]:
    """Yield a new bucket, of the server that is given or of one that is started. With `overwrites` it is always moto's."""
    if overwrites or not (address := given()):
        with _moto(log, overwrites=overwrites) as started, _bucket(at(started)) as store:
            yield store
    else:
        access = {name: os.environ.get(name.upper(), default) for name, default in _ACCESS.items()}
        with _bucket(at(address, access)) as store:
            yield store


@contextmanager
def _bucket(store: Store) -> Iterator[Store]:
    region = store.access["aws_region"]
    elsewhere = {"CreateBucketConfiguration": {"LocationConstraint": region}} if region != "us-east-1" else {}
    store.client().create_bucket(Bucket=store.bucket, **elsewhere)
    try:
        yield store
    finally:
        store.remove()


@contextmanager
def _moto(log: Path, *, overwrites: bool) -> Iterator[str]:
    port = ports.choose()
    with log.open("wb") as out:
        server = subprocess.Popen(
            [sys.executable, __file__, str(port), *(["overwrites"] if overwrites else [])], stdout=out, stderr=out
        )
        try:
            address = f"http://127.0.0.1:{port}"
            _wait(server, address)
            yield address
        finally:
            server.kill()
            server.wait()


def _wait(server: "subprocess.Popen[bytes]", address: str) -> None:
    while server.poll() is None:
        try:
            urlopen(address, timeout=30).close()
        except HTTPError:
            raise
        except OSError:
            continue  # it does not listen yet
        return
    raise RuntimeError(f"the server has ended with {server.returncode}")


def _one_at_a_time(application: Any) -> Any:
    turn = threading.Lock()

    def answer(environ: dict[str, Any], start: Any) -> Any:
        with turn:
            return application(environ, start)

    return answer


def _without_conditions(application: Any) -> Any:
    def answer(environ: dict[str, Any], start: Any) -> Any:
        environ.pop("HTTP_IF_NONE_MATCH", None)
        return application(environ, start)

    return answer


if __name__ == "__main__":
    server = _one_at_a_time(DomainDispatcherApplication(create_backend_app))
    # With threads: a client may keep a connection that it does not use, and the others must not wait for it.
    run_simple("127.0.0.1", int(sys.argv[1]), _without_conditions(server) if sys.argv[2:] else server, threaded=True)
