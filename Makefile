# The verbs. `make` alone prints them.
PYTHON ?= $(shell for p in python3.11 python3.12 python3.13 python3; do $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
BIN := .venv/bin
RECIPE ?= demo
# The lock file holds the versions this checkout was tested with, for the Python it was made on.
LOCK = $(shell $(BIN)/python -c 'import sys; print("-c requirements.lock" if sys.version_info[:2] == (3, 11) else "")')

.DEFAULT_GOAL := help
.PHONY: help run test lab bench lint clean

help: ## print this list
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 10

run: .venv/.run ## set up, run the demo recipe, write runs/demo/reports/index.html
	@$(BIN)/prep run $(RECIPE)

test: .venv/.dev ## set up, then ruff, mypy and pytest
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m pytest --numprocesses logical --maxprocesses 4 --dist loadscope --no-loadscope-reorder

lab: .venv/.run ## open JupyterLab in ./workspace
	@$(BIN)/prep lab

bench: .venv/.dev ## measure speed and memory against peers and limits
	$(BIN)/python tests/bench/main.py

lint: .venv/.dev ## format, and mend what ruff can mend
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean: ## remove the environment, runs and caches
	rm -rf .venv runs workspace .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

.venv/bin/python:
	@test -n "$(PYTHON)" || { echo "make: Python 3.11 or newer is needed; set PYTHON=/path/to/python3.11"; exit 1; }
	$(PYTHON) -m venv .venv

.venv/.run: .venv/bin/python pyproject.toml requirements.lock
	@echo "Installing into .venv. torch alone is about 200 MB as a CPU build and several GB as a CUDA build; which one pip"
	@echo "takes depends on its settings. For the small one stop here, install the CPU build of torch>=2.6,<2.14 into .venv"
	@echo "as pytorch.org describes under Get Started, and run make again."
	$(BIN)/python -m pip install --quiet --disable-pip-version-check $(LOCK) -e '.[fast]'
	@touch $@

.venv/.dev: .venv/.run
	$(BIN)/python -m pip install --quiet --disable-pip-version-check $(LOCK) -e '.[dev]'
	@touch $@
