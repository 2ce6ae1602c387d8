PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
PEERS := bench-env
PEERS_INSTALLED := $(PEERS)/.installed
TOOLS := lock-env
TOOLS_INSTALLED := $(TOOLS)/.installed
DATA ?= ../shared/data
DEVICE ?= cpu

.DEFAULT_GOAL := help
.PHONY: help demo test test-extras slow soak fuzz lint bench bench-full bench-env bench-latency bench-loading bench-online bench-scores \
	bench-faults bench-offline scores lock audit docs install clean

help: ## list these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(INSTALLED) ## train and evaluate a policy from an embedded dataset, write a report (under five minutes)
	$(BIN)/rl-training demo

# Two workers on two cores: each gets one thread, or they fight over the cores. A test that hangs fails, and shows where.
test: lint ## lint, then run every test but the slow ones
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist loadscope -m "not slow" \
		-o faulthandler_timeout=400 -o faulthandler_exit_on_timeout=true

# What `make test` leaves out for want of them: the report's page and the site in a browser, films, MuJoCo's tasks.
test-extras: $(INSTALLED) ## run the tests that need the extras browser, video and mujoco, and the system's Chromium
	$(BIN)/python -m pip install -q --disable-pip-version-check -c constraints.txt -e '.[browser,video,mujoco]'
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m "not slow" -rs tests/cli/test_report_in_browser.py tests/test_website.py \
		tests/cli/test_evaluate_command.py tests/data/test_collection.py

slow: $(INSTALLED) ## run the slow tests (compilation, learning)
	$(BIN)/python -m pytest -m slow

soak: $(INSTALLED) ## a million tiny updates: memory, files and threads must stay flat (five to ten minutes)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m slow tests/runtime/test_soak.py

fuzz: $(INSTALLED) ## thousands of damaged configurations, datasets, checkpoints and observations (minutes)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest tests/fuzz

lint: $(INSTALLED) ## check style, formatting and types
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

bench: $(INSTALLED) $(PEERS_INSTALLED) ## speed and memory beside other programs (under ten minutes; DEVICE=cuda)
	$(BIN)/python benchmarks/bench.py --quick --device $(DEVICE) --peer $(PEERS)/bin/python

bench-full: $(INSTALLED) $(PEERS_INSTALLED) ## the same for every engine and size (an hour or two)
	$(BIN)/python benchmarks/bench.py --device $(DEVICE) --peer $(PEERS)/bin/python

bench-online: $(INSTALLED) ## learning curves of the online algorithms, with and without prior data (half an hour)
	$(BIN)/python benchmarks/online_curves.py

scores: $(INSTALLED) ## train the packaged configurations with five seeds and score them
	$(BIN)/python benchmarks/scores.py

bench-scores: $(INSTALLED) $(PEERS_INSTALLED) ## learning on real data beside d3rlpy (hours on a CPU; DATA=folder of the datasets)
	$(BIN)/python -m pip install -q --disable-pip-version-check -c constraints.txt -e '.[mujoco]'
	$(BIN)/python benchmarks/offline_scores.py --data $(DATA)
	$(PEERS)/bin/python benchmarks/d3rlpy_scores.py --data $(DATA)
	$(BIN)/python benchmarks/d3rlpy_agreement.py --data $(DATA) --peer $(PEERS)/bin/python
	$(BIN)/python benchmarks/online_curves.py
	$(BIN)/python benchmarks/score_tables.py

bench-offline: $(INSTALLED) ## estimates without a simulator beside the truth (quarter of an hour; DATA=folder of the datasets)
	$(BIN)/python benchmarks/offline_evaluation.py --data $(DATA)

bench-loading: $(INSTALLED) $(PEERS_INSTALLED) ## loading a million rows beside d3rlpy, training from disk beside memory
	$(BIN)/python benchmarks/loading.py --peer $(PEERS)/bin/python

bench-latency: $(INSTALLED) $(PEERS_INSTALLED) ## the time one action takes: predict, exported files, d3rlpy, Stable-Baselines3
	$(BIN)/python benchmarks/latency.py --peer $(PEERS)/bin/python

bench-faults: $(INSTALLED) $(PEERS_INSTALLED) ## break runs, files and settings on purpose, beside other programs (ten minutes)
	$(BIN)/python benchmarks/faults.py --peer $(PEERS)/bin/python

bench-env: $(PEERS_INSTALLED) ## create the environment of the programs that ours is measured beside

# Peers live apart: their pins are not ours.
$(PEERS_INSTALLED):
	$(PYTHON) -m venv $(PEERS)
	$(PEERS)/bin/python -m pip install -q --disable-pip-version-check torch==2.13.0
	$(PEERS)/bin/python -m pip install -q --disable-pip-version-check \
		torch==2.13.0 d3rlpy==2.8.1 stable-baselines3==2.9.2
	@touch $@

# The package itself, torch (see the lock's first lines) and setuptools are not in it.
lock: $(TOOLS_INSTALLED) ## renew requirements/tested.lock from pyproject.toml and constraints.txt (minutes)
	$(TOOLS)/bin/pip-compile -q --generate-hashes --strip-extras --no-header --no-annotate --no-emit-index-url \
		--no-emit-find-links --no-emit-trusted-host --all-extras -c constraints.txt \
		--unsafe-package rl-training --unsafe-package torch --unsafe-package setuptools \
		-o $(TOOLS)/tested.lock pyproject.toml
	sed '/^# WARNING/,$$d' $(TOOLS)/tested.lock | cat requirements/header.txt - > requirements/tested.lock

audit: $(TOOLS_INSTALLED) ## known vulnerabilities of the tested set (needs the network; exit code 1 found, 3 not checked)
	$(TOOLS)/bin/python requirements/audit.py

$(TOOLS_INSTALLED):
	$(PYTHON) -m venv $(TOOLS)
	$(TOOLS)/bin/python -m pip install -q --disable-pip-version-check pip-tools==7.6.2 pip-audit==2.10.1
	@touch $@

docs: $(INSTALLED) ## build the documentation as a site: site/index.html
	$(BIN)/python docs/build.py

install: $(INSTALLED) ## create .venv with everything the other targets need
	@echo "ready: $(BIN)/rl-training, or rl-training alone after: source $(BIN)/activate"

$(INSTALLED): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "Python 3.11 or later is needed: make PYTHON=python3.11 ..." >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

clean: ## remove .venv, caches and build outputs (runs/ stays)
	rm -rf $(VENV) build dist site .pytest_cache .mypy_cache .ruff_cache
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +
