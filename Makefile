# Two commands for a newcomer: `make demo` and `make test`. Each sets itself up from nothing.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

.PHONY: help demo test bench paper nightly check format clean
help:
	@echo "make demo    explain a dozen nodes of BA-Shapes with ten methods (no download)"
	@echo "make test    linters, types and tests"
	@echo "make bench   time every method and its peers (15 minutes; graphfaith bench --quick takes two)"
	@echo "make paper   every table and figure of the paper (about an hour on two cores; goes on where it was stopped)"
	@echo "make nightly the same with 500 examples for every property instead of 25 to 50"
	@echo "make check   linters and types only"
	@echo "make format  let ruff rewrite the sources"
	@echo "make clean   remove the environment and everything made by these commands"

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

# The stamps make a second run install nothing; they go stale when the requirements change.
$(VENV)/.run: pyproject.toml constraints.txt | $(BIN)/python
	$(INSTALL) -e .
	@touch $@

$(VENV)/.test: pyproject.toml constraints.txt | $(BIN)/python
	$(INSTALL) -e '.[test]'
	@touch $@ $(VENV)/.run

demo: $(VENV)/.run
	$(BIN)/graphfaith demo --out demo

check: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

test: check
	$(BIN)/pytest

bench: $(VENV)/.test
	@mkdir -p results
	$(BIN)/graphfaith bench --json results/bench.json

paper: $(VENV)/.run
	$(BIN)/graphfaith reproduce --all

nightly: check
	HYPOTHESIS_PROFILE=nightly $(BIN)/pytest

format: $(VENV)/.test
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) demo results/bench.json .pytest_cache .mypy_cache .ruff_cache .hypothesis
