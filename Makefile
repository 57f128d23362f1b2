# Every way to run Berth. `make` alone lists them.
SHELL := /bin/bash
PYTHON ?= python3
BIN := .venv/bin
# A stamp names the hash of what it installed, so that nothing is installed twice and nothing stale is kept.
RUN_STAMP := .venv/.run-$(shell cat requirements.txt | cksum | tr ' ' -)
DEV_STAMP := .venv/.dev-$(shell cat requirements.txt requirements-dev.txt | cksum | tr ' ' -)

.DEFAULT_GOAL := help
.PHONY: help setup demo demo-reset check lint test smoke bench field-cases messages

help: ## list these commands
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 14

setup: $(DEV_STAMP) ## create .venv and install everything, tools included

demo: $(RUN_STAMP) ## start Berth with three simulated nodes; Ctrl-C stops it, its data stays
	@exec $(BIN)/python -m portal.demo

demo-reset: $(RUN_STAMP) ## forget the demo's data
	@exec $(BIN)/python -m portal.demo --reset

check: lint ## linters, types, import contracts, unit tests: before each commit
	@$(BIN)/python -m pytest -q tests/unit

test: ## everything: installs what it needs (as root on Debian), then linters and all tests
	@$(MAKE) --no-print-directory --jobs=2 system setup
	@$(MAKE) --no-print-directory lint
	@exec tests/run_all.sh

smoke: $(DEV_STAMP) ## walk the straight path as a client would, on a running Berth or one of its own
	@exec $(BIN)/python -m tests.smoke

bench: $(DEV_STAMP) ## measure what has a target, quickly; ends with what is met and what is short, and fails if any is
	@exec $(BIN)/python -m tests.bench all

field-cases: $(DEV_STAMP) ## run the tests that prove a case from the field and write docs/field_cases.md
	@exec $(BIN)/python -m pytest -q -p tests.field_cases --write-field-cases tests

messages: $(DEV_STAMP) ## renew and compile the translations, and name what lacks one
	@exec $(BIN)/python -m tests.messages

# The types take as long as all the others together.
lint: $(DEV_STAMP)
	@$(MAKE) --no-print-directory --jobs=2 --output-sync lint-types lint-rest

.PHONY: system lint-types lint-rest
lint-types:
	@$(BIN)/mypy portal scheduler agents

lint-rest:
	@$(BIN)/ruff check .
	@$(BIN)/lint-imports --no-logo
	@$(BIN)/python -W ignore::RuntimeWarning manage.py makemigrations --check --dry-run
	@$(BIN)/djlint templates --lint --quiet

system:
	@tests/setup_system.sh

.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  echo "Berth needs Python 3.11 or newer, and $(PYTHON) is $$($(PYTHON) --version 2>&1 || true). Name another: make PYTHON=python3.12 ..." >&2; exit 1; }
	@echo "Creating .venv with $$($(PYTHON) --version) ..."
	@if command -v uv >/dev/null; then uv venv --quiet --allow-existing --python "$$(command -v $(PYTHON))" .venv; \
	  else $(PYTHON) -m venv .venv || { echo "Python's venv module is missing; on Debian: apt-get install python3-venv" >&2; rm -rf .venv; exit 1; }; fi

define install
	@echo "Installing $(1) ..."
	@if command -v uv >/dev/null; then uv pip install --quiet --python $(BIN)/python -r $(1); \
	  else $(BIN)/python -m pip install --quiet --disable-pip-version-check -r $(1); fi
endef

$(RUN_STAMP): | .venv/bin/python
	$(call install,requirements.txt)
	@rm -f .venv/.run-*; touch $@

$(DEV_STAMP): | .venv/bin/python
	$(call install,requirements-dev.txt)
	@rm -f .venv/.run-* .venv/.dev-*; touch $(RUN_STAMP) $@
