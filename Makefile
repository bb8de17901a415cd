# Tideline. Prerequisites: Python 3.11+, Java 17+, make. Everything else goes under .local/.
PYTHON ?= python3
ENV := .local/env/bin

.DEFAULT_GOAL := help
.PHONY: help setup lock

help:  ## Show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-10s %s\n", $$1, $$2}'

setup:  ## Install packages and jars under .local/ (once; quick to repeat)
	@$(PYTHON) include/tideline/local/setup.py

lock:  ## Turn requirements.in into requirements.txt
	@$(ENV)/uv pip compile --quiet --no-header --python-version 3.11 requirements.in -o requirements.txt
