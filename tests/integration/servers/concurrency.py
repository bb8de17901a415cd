"""Concurrent calls."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any


def together(*calls: Callable[[], Any]) -> list[Any]:
    """Run all calls at once, each in a thread of its own; return their results in order, or raise the error of one."""
    start = threading.Barrier(len(calls))

    def wait_and(call: Callable[[], Any]) -> Any:
        start.wait(180)
        return call()

    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(wait_and, calls))


def beside(call: Callable[[], Any]) -> Callable[[], Any]:
    """Begin a call in a thread of its own; return a function that waits for its result."""
    pool = ThreadPoolExecutor(1)
    future = pool.submit(call)
    pool.shutdown(wait=False)
    return lambda: future.result(180)
