"""Adds the page of Tideline to Airflow."""

from tideline.web.plugin import TidelinePlugin

__all__ = ["TidelinePlugin"]
