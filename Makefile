# Tideline. Prerequisites: Python 3.11+, Java 17+, make. Everything else is installed under .local/.
PYTHON ?= python3
ENV := .local/env/bin

.DEFAULT_GOAL := help
.PHONY: help setup up demo tour down check style audit test test-cluster compatibility explore soak soak-load bench screenshots format lock

help:  ## Show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-13s %s\n", $$1, $$2}'

setup:  ## Install packages and jars under .local/ (slow only the first time)
	@command -v $(PYTHON) >/dev/null || { echo "no $(PYTHON) on the PATH; install Python 3.11+, or name one: make setup PYTHON=..."; exit 1; }
	@$(PYTHON) include/tideline_stack/setup.py

up: setup  ## Start Postgres, Kafka, a schema registry and Airflow, and print their addresses
	@$(ENV)/python -m tideline_stack up

demo: setup  ## Start the stack, and play it in two minutes: a load, a failure, a backfill, a replay, and where each record is
	@$(ENV)/python -m tideline_demo

tour: setup  ## Start the stack, and play the other pipelines; each is complete by itself (PARTS='topics lake offers changes sessions anomalies')
	@$(ENV)/python -m tideline_demo.tour $(PARTS)

down:  ## Stop what `make up` has started, also after a crash; the data stays
	@test ! -x $(ENV)/python || $(ENV)/python -m tideline_stack down

check: setup style  ## Check format, lint and types, and run the fast tests; run it before each commit
	@$(ENV)/python -m pytest -q -n auto --dist worksteal tests/unit tests/dags include/pipelines

style:
	@$(ENV)/ruff format --check --quiet . || { echo "not formatted: run make format"; exit 1; }
	@$(ENV)/ruff check --quiet .
	@$(ENV)/mypy

# --strict: a package that the list cannot be asked about is no package without vulnerabilities.
audit:  ## Look up the packages of requirements.txt in PyPI's list of known vulnerabilities (ARGS='-s osv' for another list)
	@$(ENV)/pip-audit --requirement requirements.txt --no-deps --disable-pip --strict --progress-spinner off $(ARGS)

test: setup  ## Run check, the tests on real Postgres, Kafka, Spark and Airflow, and the fault tests with fixed schedules
	@$(ENV)/python tests/suites.py $(SUITES)

test-cluster: setup  ## Load on a Spark cluster that is killed and in pods, while Postgres and Kafka fail over, and with more cores than connections
	@$(ENV)/python -m pytest -q --soak $(addprefix tests/faults/jobs/,test_cluster.py test_lost_executors.py test_failover.py test_asynchronous_standby.py test_broker_cluster.py test_connections.py test_kubernetes.py test_operator_on_cluster.py)

compatibility: setup  ## Run the tests of e2e and of each sink with the oldest and the newest versions of Airflow, Spark, Postgres and Kafka (ARGS='oldest')
	@PYTHONPATH=tests:tests/integration $(ENV)/python -m compatibility $(ARGS)

explore: setup  ## Play new schedules of faults for ten minutes; print and keep the seed of a failure (ARGS='--minutes 60')
	@PYTHONPATH=tests:tests/integration $(ENV)/python -m faults.explore $(ARGS)

soak: setup  ## Run for a night: kill, freeze and disconnect everything at random, and check every record
	@$(ENV)/python -m pytest -q tests -m hypothesis --hypothesis-profile 'new examples'
	@$(ENV)/python -m pytest -q tests/faults --soak

soak-load: setup  ## Load 10 million records while a process is killed each minute; report throughput, its variation and memory (ARGS=--help)
	@PYTHONPATH=tests:tests/integration $(ENV)/python -m faults.jobs.load $(ARGS)

bench: setup  ## Measure speed and memory, compare alternatives, and write docs/performance.md (about half an hour; ARGS='--table rejects' for one table)
	@PYTHONPATH=tests:tests/integration $(ENV)/python -m benchmarks $(ARGS)

screenshots: setup  ## Take the screenshots of docs/page.md from a real Airflow, in a real Chromium
	@PYTHONPATH=tests:tests/integration:tests/page $(ENV)/python tests/page/screenshots.py

format:  ## Format the code
	@$(ENV)/ruff format --quiet .
	@$(ENV)/ruff check --quiet --fix .

lock:  ## Resolve requirements.in into requirements.txt
	@$(ENV)/uv pip compile --quiet --no-header --python-version 3.11 requirements.in -o requirements.txt
