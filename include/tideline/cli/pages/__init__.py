"""Builds the output of each command: a page of tables for people, and a JSON document for programs."""
