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
WORKERS ?= 2

.PHONY: help venv demo test slow long lint format bench docs nodes clean
help: ## this list
	@sed -nE 's/^([a-z]+):[^#]*## (.*)/  \1\t\2/p' Makefile | expand -t 12

venv: $(VENV)/.done ## environment in .venv, with every tool in .venv/bin
$(VENV)/.done: pyproject.toml Makefile
	@test -n "$(PYTHON)" || { echo "no Python that other accounts can reach; install python3 and python3-venv, or pass PYTHON="; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q --disable-pip-version-check --upgrade pip
	if [ "$(INSTALL)" = wheel ]; then \
	  $(BIN)/python -m pip install -q --disable-pip-version-check build && rm -rf dist && $(BIN)/python -m build -q --wheel --outdir dist . && \
	  $(BIN)/python -m pip install -q --disable-pip-version-check "$$(ls dist/*.whl)[dev]"; \
	else $(BIN)/python -m pip install -q --disable-pip-version-check -e '.[dev]'; fi
	-$(BIN)/python -m compileall -q pool protocol daemons minipool # other accounts run this code, and cannot store it compiled
	touch $@

demo: venv ## a personal pool runs a parameter sweep, shows it live, and stops
	$(BIN)/python deploy/examples/demo.py

test: venv ## every test that finishes in minutes
	$(PYTEST) -q -m 'not slow and not long and not nodes' -n $(WORKERS) --dist loadfile $(ARGS)

slow: venv ## fault storms and scale
	$(PYTEST) -q -m slow $(ARGS)

long: venv ## half an hour of differential runs and mangled text
	$(PYTEST) -q -m long $(ARGS)

lint: venv ## ruff and mypy --strict
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: venv ## let ruff rewrite what it can
	$(BIN)/ruff check --fix . ; $(BIN)/ruff format .

bench: venv ## every figure of docs/performance.md, as JSON
	$(BIN)/python -m benchmarks $(ARGS)

docs: venv ## write the pages that are made from tables
	$(BIN)/python -m docs.generate

nodes: venv ## a pool of containers loses a node and finishes its jobs
	deploy/containers/engine check
	$(PYTEST) -q -m nodes tests/nodes $(ARGS)

clean: ## remove what make made
	rm -rf $(VENV) dist build .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
