# Needs only Python 3.11 or later with venv, and make. `make` lists the targets.
SHELL := /bin/bash
# Bytecode is written once and read by every process of the stack; without it each takes seconds longer to start.
unexport PYTHONDONTWRITEBYTECODE
PYTHON ?= python3
VENV := .venv
PY := $(VENV)/bin/python
READY := $(VENV)/.outhaul-ready
# What another version of the server could change; the rest is tested on one.
ON_EACH_SERVER := tests/migration $(addprefix tests/integration/queue/test_,admission.py dispatcher.py indexes.py jobs.py \
	pauses.py tenants.py waiting.py) $(addprefix tests/integration/data/test_,csv.py exactness.py export.py query.py session.py \
	types.py)
LOCK := uv pip compile pyproject.toml --all-extras --universal --python-version 3.11 --output-file requirements.lock

# Tests of the whole stack mostly wait for it, so the others run beside them; what they have said is shown at the end.
STACK_LOG := .pytest_cache/acceptance.log
define ALL_TESTS
mkdir -p $(dir $(STACK_LOG)); \
echo "tests/acceptance runs beside the rest and is shown after it; meanwhile: tail -f $(STACK_LOG)"; \
$(PY) -m pytest -m "not by_hand" tests/acceptance >$(STACK_LOG) 2>&1 & stack=$$!; failed=0; \
$(PY) -m pytest -m "not by_hand" --ignore tests/acceptance || failed=1; \
OUTHAUL_TEST_PG=18 $(PY) -m pytest $(ON_EACH_SERVER) || failed=1; \
wait $$stack || failed=1; cat $(STACK_LOG); exit $$failed
endef

.DEFAULT_GOAL := help
.PHONY: help setup demo up down test test-faults test-soak test-unit check bench fmt docs lock clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  \033[1m%-10s\033[0m %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(READY) ## Install Outhaul and its tools into .venv, exactly as locked

$(READY): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Python 3.11 or later is needed: make PYTHON=/path/to/python3.11 $(MAKECMDGOALS)" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' || \
		{ echo "Python's venv module is missing: apt-get install python3-venv" >&2; exit 1; }
	@test -x $(PY) && $(PY) -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear $(VENV)
	$(PY) -m pip install --quiet "$$(grep '^uv==' requirements.lock)"
	$(VENV)/bin/uv pip sync --quiet --python $(PY) requirements.lock
	$(VENV)/bin/uv pip install --quiet --python $(PY) --no-deps --editable .
	@touch $@

demo: setup ## Export a year of real flights through the whole stack and show the files
	$(VENV)/bin/outhaul demo

up: setup ## Start the stack and leave it running; safe to repeat
	$(VENV)/bin/outhaul up --detach

down: setup ## Stop the stack
	$(VENV)/bin/outhaul down

test: setup ## Run all tests, some also on PostgreSQL 18; ARGS="-k name" chooses
	$(if $(ARGS),$(PY) -m pytest -m "not by_hand" $(ARGS),@$(ALL_TESTS))

test-faults: setup ## Kill each part of the stack at four moments of an export, and write the table in docs/reliability.md
	OUTHAUL_RELIABILITY=docs/reliability.md $(PY) -m pytest -s tests/acceptance/test_fault_table.py

test-soak: setup ## Two hundred exports while something is killed every few seconds; takes ten minutes
	$(PY) -m pytest -s tests/acceptance/soak.py

test-unit: setup ## Run the tests that need no database and no server
	$(PY) -m pytest tests/unit $(ARGS)

check: setup ## Lint, types, layers and migrations
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports
	$(VENV)/bin/squawk sql/migrations/*.up.sql

bench: setup ## Measure the data path beside its peers; ARGS="--rows 300000 --runs 2" chooses
	$(PY) -m bench $(ARGS)

fmt: setup ## Format, and mend what the linter can
	$(VENV)/bin/ruff check --fix-only .
	$(VENV)/bin/ruff format .

docs: setup ## Write the pages of docs/ that the code determines
	$(PY) docs/make.py

lock: setup ## Resolve the dependencies of pyproject.toml anew
	$(VENV)/bin/$(LOCK) --upgrade --quiet --custom-compile-command "$(LOCK)"

clean: ## Remove what can be made again; the data in .outhaul stays
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis dist
