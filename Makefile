# Every target bootstraps .venv by itself; after that nothing here needs a network.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# Most tests wait for a program, a screen or a socket, so there is room for more than one to a processor.
WORKERS := $(shell expr 2 '*' $$(getconf _NPROCESSORS_ONLN))

.PHONY: help demo test screens check format bench bench-quick soak coverage clean

help:  ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/'

# The project is installed in place, with its dependencies pinned by constraints.txt, and
# byte-compiled: without .pyc files every start costs half a second more.
$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt hatchling editables
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --no-build-isolation --editable '.[dev]'
	$(BIN)/python -m compileall -q $(VENV)/lib gemcode
	@touch $@

install: $(STAMP)  ## create .venv with gemcode in it

demo: $(STAMP)  ## the whole tour on the built-in simulator: no key, no network
	$(BIN)/gemcode demo --play

test: $(STAMP)  ## all tests (several minutes)
	# A screen that came too late on a busy machine is looked at again; nothing else is.
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal --reruns 2 --only-rerun 'did not come|TimeoutExpired'

screens: $(STAMP)  ## make the pictures in docs/screens again, from the real program
	$(BIN)/python -m docs.make_screens

check: $(STAMP)  ## ruff and mypy --strict
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(STAMP)  ## ruff format and the safe fixes
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(STAMP)  ## measure against the budgets
	$(BIN)/python -m bench

bench-quick: $(STAMP)  ## the same in short, for information
	$(BIN)/python -m bench --quick

soak: $(STAMP)  ## the long races, crashes and fuzzing
	$(BIN)/python -m pytest -m soak --timeout 7200 --hypothesis-profile new
	$(BIN)/python -m bench listing_million

coverage: $(STAMP)  ## branch coverage of the rooms that must not fail
	$(BIN)/coverage erase
	$(BIN)/coverage run -m pytest -n $(WORKERS)
	-$(BIN)/coverage combine --quiet  # processes that tests kill leave data that can't be read
	$(BIN)/coverage report --include 'gemcode/tools/*,gemcode/workspace/*,gemcode/gemini/*' --fail-under 95

clean:  ## remove what the targets above made
	rm -rf $(VENV) .coverage* .hypothesis .mypy_cache .ruff_cache
