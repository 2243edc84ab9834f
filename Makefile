# Two commands for a newcomer: `make demo` and `make test`. Each sets itself up from nothing.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

.PHONY: help demo test test-oldest test-newest bench paper nightly stress pictures docs dist check format clean
help:
	@echo "make demo    explain a dozen nodes of BA-Shapes with ten methods (no download)"
	@echo "make test    linters, types and tests (a quarter of an hour on two cores; asks before it installs a browser)"
	@echo "make test-oldest  tests of every room with the oldest versions that pyproject.toml allows (a quarter of an hour)"
	@echo "make docs    the site, into site/: open site/index.html"
	@echo "make bench   time every method and its peers (15 to 20 minutes; graphfaith bench --quick takes two)"
	@echo "make paper   every table and figure of the paper (about an hour on two cores; goes on where it was stopped)"
	@echo "make nightly the same with the long forms of tests, and 500 examples for every property instead of 25 to 50"
	@echo "make stress  threads, kills, full disks, fuzzed graphs, damaged files, bad requests, batch runs: a quarter of an hour or more, and a table"
	@echo "make pictures  the pictures of the README and the docs, the page's taken in a browser"
	@echo "make test-newest  tests with the newest versions of everything, in an environment of their own"
	@echo "make dist    the wheel and the source archive, into dist/"
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

$(VENV)/.docs: pyproject.toml constraints.txt | $(BIN)/python
	$(INSTALL) -e '.[docs]'
	@touch $@ $(VENV)/.run

demo: $(VENV)/.run
	$(BIN)/graphfaith demo --out demo

check: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# The tests of pages need a real browser; a machine that has none is offered Debian's.
$(VENV)/.browser: tests/install_browser.sh | $(BIN)/python
	sh tests/install_browser.sh
	@touch $@

# One process more than there are processors, because a third of the time a test waits for processes of its own.
TESTS := $(BIN)/pytest -n $(shell expr $$(getconf _NPROCESSORS_ONLN) + 1) --maxprocesses 8 --dist worksteal

test: check $(VENV)/.browser
	$(TESTS)

# The oldest versions have an environment of their own. Each room that computes is run by the files that touch other
# packages most (PyG's layers and explainers, numba, safetensors, matplotlib, typer), and the first of them is the whole of
# it on an emulated device. Batch runs are left out: pyarrow wants a newer numpy.
OLDEST := .venv-oldest
OLDEST_TESTS := model/test_home _base/test_core graph/test_graph graph/test_computation_graph sampling/test_neighborhood \
	surrogate/test_walks surrogate/test_solve metric/test_unfaithfulness facade/test_prediction model/test_layers \
	model/test_joint model/test_adapter explanation/test_archive explanation/test_explanation explainers/test_kec \
	explainers/test_typed_explainers explainers/test_attributes explainers/test_typed_attributes \
	explainers/test_explainers explainers/test_anchored_kec
$(OLDEST)/.test: pyproject.toml constraints-oldest.txt
	$(PYTHON) -m venv $(OLDEST)
	$(OLDEST)/bin/python -m pip install --quiet --disable-pip-version-check -c constraints-oldest.txt \
		-e . captum pytest hypothesis pandas
	@touch $@

test-oldest: $(OLDEST)/.test
	$(OLDEST)/bin/python -m pytest $(OLDEST_TESTS:%=tests/%.py) tests/view/test_view.py

# What pip chooses today for somebody who installs the library. Only torch is that of constraints.txt: another spelling
# of it would bring gigabytes for graphics cards, and what is tested here is everything else.
NEWEST := .venv-newest
TORCH = $(shell grep '^torch==' constraints.txt)
test-newest:
	$(PYTHON) -m venv $(NEWEST)
	$(NEWEST)/bin/python -m pip install --quiet --disable-pip-version-check '$(TORCH)' -e '.[test,docs]'
	$(NEWEST)/bin/pytest --ignore tests/view --ignore tests/docs

docs: $(VENV)/.docs
	$(BIN)/python -m mkdocs build --quiet --strict

dist: $(VENV)/.test
	$(BIN)/python -m build --no-isolation --outdir dist

bench: $(VENV)/.test
	@mkdir -p results
	$(BIN)/graphfaith bench --all --json results/bench.json --figure results/growth.png

paper: $(VENV)/.run
	$(BIN)/graphfaith reproduce --all

nightly: check $(VENV)/.browser
	HYPOTHESIS_PROFILE=nightly $(TESTS) -m ""

stress: $(VENV)/.test
	$(BIN)/python stress/run.py

pictures: $(VENV)/.test $(VENV)/.browser
	$(BIN)/python docs/pictures.py

format: $(VENV)/.test
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) $(OLDEST) $(NEWEST) demo site dist results/bench.json results/growth.png .pytest_cache .mypy_cache .ruff_cache .hypothesis
