# Two commands matter: `make up` and `make test`. Both make .venv from the hashed lock first and reuse it afterwards.
# PYTHON names the interpreter to build it with; by default the newest of 3.13, 3.12, 3.11 that works (scripts/find-python).
PYTHON ?=
CONFIG ?= examples/01-quickstart
PYTEST_WORKERS ?= 2
ARGS ?=
BIN := .venv/bin
UV ?= uv

.DEFAULT_GOAL := help
.PHONY: help up down test lint format types contracts bench bench-deps lock clean venv venv-dev

help: ## this list
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

up: venv ## run the quickstart fleet under a control plane, in the foreground (CONFIG=folder for another)
	@PATH="$(CURDIR)/$(BIN):$$PATH" exec $(BIN)/fleetwarden up --config $(CONFIG)

down: venv ## end that control plane and the services that it started
	@exec $(BIN)/fleetwarden down --services --config $(CONFIG)

test: venv-dev ## everything this machine can run; pytest's summary comes last (ARGS="-k words" selects)
	@PYTEST_WORKERS=$(PYTEST_WORKERS) scripts/test $(ARGS)

lint: venv-dev ## ruff: rules and format
	@$(BIN)/ruff check --quiet .
	@$(BIN)/ruff format --check --quiet . || { echo "not formatted: run make format"; exit 1; }

format: venv-dev ## let ruff format and fix what it safely can
	@$(BIN)/ruff check --fix --quiet . ; $(BIN)/ruff format --quiet .

types: venv-dev ## mypy --strict
	@$(BIN)/mypy --no-error-summary

contracts: venv-dev ## the layers, as import contracts
	@$(BIN)/lint-imports --no-cache

bench: venv-dev ## benchmarks: ratios and tables, never a pass or fail by the clock
	@$(BIN)/python -m pytest benchmarks --benchmark-only $(ARGS)

bench-deps: venv-dev ## policy engines of others, to run beside ours in `make bench`; taken out again by `make clean`
	@$(BIN)/python -m pip --quiet --disable-pip-version-check install --require-hashes --requirement requirements-bench.lock

lock: ## resolve what pyproject.toml asks for (needs uv; LOCK=--upgrade for the newest): hashes, no addresses
	UV_PYTHON_DOWNLOADS=never $(UV) pip compile pyproject.toml --extra postgres --extra notify --group build --universal \
	  --python-version 3.11 --generate-hashes --annotation-style line $(LOCK) --custom-compile-command "make lock" \
	  --quiet --output-file requirements.lock
	UV_PYTHON_DOWNLOADS=never $(UV) pip compile pyproject.toml --extra dev --group build --universal \
	  --constraint requirements.lock --python-version 3.11 --generate-hashes --annotation-style line \
	  --custom-compile-command "make lock" --quiet --output-file requirements-dev.lock

clean: ## remove the environment, caches and builds; the quickstart's data stays
	rm -rf .venv .venv-* .venv.lock build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache .coverage*
	find . -name __pycache__ -type d -not -path './.git/*' -prune -exec rm -rf {} +

venv:
	@python=$$(PYTHON="$(PYTHON)" scripts/find-python) && exec $$python scripts/venv.py runtime

venv-dev:
	@python=$$(PYTHON="$(PYTHON)" scripts/find-python) && exec $$python scripts/venv.py dev
