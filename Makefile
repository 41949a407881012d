# `make train` and `make test` set themselves up in .venv. They need Python 3.11 or newer, with its venv module, and
# nothing else.
#
#   make train ARGS="--env llm_envs/Transform-v0"    arguments for examples/train_ppo.py
#   make test ARGS="tests/envs -k registration"      arguments for pytest
#   make train PYTHON=python3.12                     another interpreter for .venv
#   make train PIP_ARGS="--extra-index-url URL"      arguments for pip, see README.md about CPU builds of torch

PYTHON ?= python3
PIP_ARGS ?=
ARGS ?=

VENV := .venv
BIN := $(VENV)/bin
PIP_INSTALL = $(BIN)/python -m pip install --quiet --disable-pip-version-check $(PIP_ARGS) --constraint constraints.txt

.PHONY: help train test test-all lint
.DELETE_ON_ERROR:

help:
	@echo "make train      train a small model to repair Python functions (about ten minutes on two CPU cores)"
	@echo "make test       run the tests"
	@echo "make test-all   run the slow tests, too"
	@echo "make lint       ruff and mypy"

train: $(VENV)/.installed
	$(BIN)/python examples/train_ppo.py $(ARGS)

test: $(VENV)/.installed-dev
	$(BIN)/python -m pytest $(ARGS)

test-all: $(VENV)/.installed-dev
	$(BIN)/python -m pytest -m "slow or not slow" $(ARGS)

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

$(VENV)/.installed: pyproject.toml constraints.txt | $(BIN)/pip
	@echo "installing into $(VENV) (torch is large: this can take minutes)"
	$(PIP_INSTALL) --editable .
	@touch $@

$(VENV)/.installed-dev: pyproject.toml constraints.txt | $(BIN)/pip
	@echo "installing into $(VENV) (torch is large: this can take minutes)"
	$(PIP_INSTALL) --editable ".[dev]"
	@touch $(VENV)/.installed $@

$(BIN)/pip:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "llm-envs needs Python 3.11 or newer; $(PYTHON) is: $$($(PYTHON) --version 2>&1)." >&2; \
		echo "Name another interpreter: make $(MAKECMDGOALS) PYTHON=/path/to/python3.11" >&2; \
		exit 1; }
	$(PYTHON) -m venv $(VENV)
