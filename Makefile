# Tideline. Prerequisites: Python 3.11+, Java 17+, make. Everything else goes under .local/.
PYTHON ?= python3
ENV := .local/env/bin

.DEFAULT_GOAL := help
.PHONY: help setup up demo down check test test-stacks test-schedules soak soak-load bench format lock

help:  ## Show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-10s %s\n", $$1, $$2}'

setup:  ## Install packages and jars under .local/ (once; quick to repeat)
	@command -v $(PYTHON) >/dev/null || { echo "no $(PYTHON) on the PATH; install Python 3.11+, or name one: make setup PYTHON=..."; exit 1; }
	@$(PYTHON) include/tideline/local/setup.py

up: setup  ## Start Postgres, Kafka and Airflow, and say where they are
	@$(ENV)/python -m tideline.local up

demo: setup  ## Start the stack, load 200,000 impressions through Airflow and show that they add up
	@$(ENV)/python -m tideline.local up
	@$(ENV)/python -m tideline.local.demo

down:  ## Stop them, also after a crash; data stays
	@test ! -x $(ENV)/python || $(ENV)/python -m tideline.local down

check: setup  ## Format, lint, types and the fast tests; what to run before each commit
	@$(ENV)/ruff format --check --quiet . || { echo "not formatted: run make format"; exit 1; }
	@$(ENV)/ruff check --quiet .
	@$(ENV)/mypy
	@$(ENV)/python -m pytest -q tests/unit tests/dags

test: check  ## Everything: check, then the tests on real Postgres, Kafka, Spark and Airflow, and the faults
	@mkdir -p .local/log
	@$(MAKE) --no-print-directory --keep-going -j2 test-stacks test-schedules

# The schedules of faults that wait for nobody fill what the stacks leave of the processors; what they say comes at their end.
test-stacks:
	@$(ENV)/python -m pytest -q tests/integration
	@$(ENV)/python -m pytest -q tests/faults/jobs
	@$(ENV)/python -m pytest -q tests/faults/stack
	@$(ENV)/python -m pytest -q tests/e2e

test-schedules: rooms = checker memory bad_input mutants processes simulation
test-schedules:
	@nice -n 19 $(ENV)/python -m pytest -q --side-by-side 1 $(rooms:%=tests/faults/%) >.local/log/schedules.log 2>&1 || { cat .local/log/schedules.log; exit 1; }
	@echo "faults by schedule: $$(tail -1 .local/log/schedules.log)"

soak: setup  ## Kill, freeze and cut off everything at random for a night, and check every record
	@$(ENV)/python -m pytest -q tests/faults --soak

soak-load: setup  ## Load 10 million records while something is killed each minute; say how fast, how steady and what memory (ARGS=--help)
	@PYTHONPATH=tests:tests/integration $(ENV)/python -m faults.jobs.load $(ARGS)

bench: setup  ## Measure speed and memory, side by side, and write docs/performance.md (about half an hour)
	@PYTHONPATH=tests:. $(ENV)/python -m tests.benchmarks

format:  ## Format the code
	@$(ENV)/ruff format --quiet .
	@$(ENV)/ruff check --quiet --fix .

lock:  ## Turn requirements.in into requirements.txt
	@$(ENV)/uv pip compile --quiet --no-header --python-version 3.11 requirements.in -o requirements.txt
