# One target per intent; people and CI call the same ones. `make help` lists them.
SHELL := /bin/bash
VENV ?= .venv
BIN := $(VENV)/bin
INSTALL ?= editable
# The first Python whose real path every account can traverse: jobs run as other users, with this interpreter's code.
PYTHON ?= $(shell for p in python3 /usr/bin/python3; do \
	real=$$($$p -c 'import os,sys; print(os.path.realpath(sys.executable))' 2>/dev/null) || continue; d=$$(dirname "$$real"); ok=1; \
	while [ "$$d" != / ]; do case $$(stat -c %A "$$d") in (*x|*t) ;; (*) ok=0;; esac; d=$$(dirname "$$d"); done; \
	[ $$ok = 1 ] && { command -v $$p; break; }; done)
PYTEST := $(BIN)/python -m pytest
# Tests wait for processes most of their time: six workers keep two cores busy.
WORKERS ?= 6
# Slow ones work more: as many as there are cores of a small machine.
SLOW_WORKERS ?= 2

.PHONY: help venv dev demo test slow long coverage lint format bench profile docs nodes arm64 release mutants clean
help: ## this list
	@sed -nE 's/^([a-z0-9]+):[^#]*## (.*)/  \1\t\2/p' Makefile | expand -t 12

PIP := $(BIN)/python -m pip --disable-pip-version-check

venv: $(VENV)/.done ## what it takes to run pools, in .venv, with every program in .venv/bin
$(VENV)/.done: pyproject.toml Makefile
	@test -n "$(PYTHON)" || { echo "no Python that other accounts can reach; install python3 and python3-venv, or pass PYTHON="; exit 1; }
	$(PYTHON) -m venv $(VENV)
	if [ "$(INSTALL)" = wheel ]; then rm -rf dist && $(PIP) wheel -q --no-deps --wheel-dir dist . && $(PIP) install -q dist/*.whl; \
	else $(PIP) install -q -e .; fi
	-$(BIN)/python -m compileall -q pool protocol daemons minipool # other accounts run this code, and cannot store it compiled
	touch $@

dev: $(VENV)/.dev ## the same with what it takes to test and change minipool
$(VENV)/.dev: $(VENV)/.done
	if [ "$(INSTALL)" = wheel ]; then $(PIP) install -q "$$(ls dist/*.whl)[dev]"; else $(PIP) install -q -e '.[dev]'; fi
	touch $@

demo: venv ## a personal pool runs a parameter sweep, shows it live, and stops
	$(BIN)/python deploy/examples/demo.py

test: export PYTHONDONTWRITEBYTECODE = # a worker uses what another has compiled
test: dev ## every test that finishes in minutes
	$(PYTEST) -q -m 'not slow and not long and not nodes' -n $(WORKERS) --dist loadfile --no-loadscope-reorder $(ARGS)

slow: dev ## fault storms and scale
	$(PYTEST) -q -m slow -n $(SLOW_WORKERS) --dist loadfile --no-loadscope-reorder $(ARGS)

long: dev ## half an hour of differential runs and mangled text
	$(PYTEST) -q -m long $(ARGS)

coverage: dev ## lines that the tests execute, by package, in daemons and tools too; ARGS names some tests
	$(BIN)/python -m tests.measure.coverage $(if $(ARGS),$(ARGS),-n $(WORKERS))

mutants: dev ## faults that no test notices; ARGS: [--count N] MODULE TEST_FILE...
	$(BIN)/python -m tests.measure.mutants $(ARGS)

lint: dev ## ruff and mypy --strict
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: dev ## let ruff rewrite what it can
	$(BIN)/ruff check --fix . ; $(BIN)/ruff format .

bench: dev ## every figure of docs/performance.md, as JSON
	$(BIN)/python -m compileall -q pool protocol daemons minipool # what each run compiles anew takes 10 MB more memory
	$(BIN)/python -m benchmarks $(ARGS)

profile: dev ## where the daemons' CPU goes while short jobs run; ARGS: [--jobs N] [DAEMON...]
	$(BIN)/python -m benchmarks.hot_spots $(ARGS)

docs: dev ## write the pages that are made from tables
	$(BIN)/python -m docs.generate

nodes: dev ## a pool of containers loses a node and finishes its jobs
	deploy/containers/engine check
	$(PYTEST) -q -m nodes tests/nodes $(ARGS)

arm64: dev ## most of an hour: an emulated host of aarch64 runs what may depend on that, and joins a pool
	tests/aarch64/machine tests $(ARGS)
	tests/aarch64/machine mixed

release: dev ## wheel and sdist in dist/, each tried in an environment of its own
	$(BIN)/python deploy/release.py

clean: ## remove what make made
	rm -rf $(VENV) dist build .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
