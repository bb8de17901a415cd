"""One Airflow with the page for all tests here, one Chromium, and one window for each test."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

import chromium
import conditions
import website
from servers.fixtures import broker, certificates, postgres
from website import Website

expect.set_options(timeout=60_000)  # the first page of an Airflow that has just started takes seconds
__all__ = ["broker", "certificates", "postgres"]


@pytest.fixture(scope="session")
def site(tmp_path_factory, postgres, broker) -> Iterator[Website]:
    """Start the page over pipelines in every condition."""
    with website.running(tmp_path_factory.mktemp("page"), postgres, broker, fill=conditions.declare_all) as running:
        yield running


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Start Chromium."""
    with chromium.browser() as started:
        yield started


@pytest.fixture
def open_as(browser, site) -> Iterator:
    """Yield a function that opens a window which is logged in with a role. A script that fails, fails the test."""
    contexts, failures = [], []

    def opened(role: str, path: str = "/tideline/", **options) -> Page:
        context = browser.new_context(
            base_url=site.url, locale="en-US", **{"viewport": {"width": 1280, "height": 900}} | options
        )
        context.set_default_timeout(60_000)
        contexts.append(context)
        context.add_cookies([{"name": "_token", "value": site.token(role), "url": site.url}])
        page = context.new_page()
        page.on("pageerror", lambda error: failures.append(str(error)))
        page.on("console", lambda said: failures.append(said.text) if "Content Security Policy" in said.text else None)
        page.goto(path)
        return page

    yield opened
    for context in contexts:
        context.close()
    assert failures == []
