PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
CASES ?= 100000
EXTRAS ?= dev,load,postgres,trace
STAMP := $(VENV)/.installed-$(EXTRAS)

.PHONY: serve test fuzz stress stress-durable gpu-test load lint bench help

help: ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 16

serve: $(STAMP) ## play: open the address it prints (ARGS="--port 9000" for options)
	$(BIN)/worldline serve $(ARGS)

test: $(STAMP) ## all tests that fit in a quarter of an hour
	$(BIN)/python -m pytest -m "not slow and not gpu"

stress-durable: $(STAMP) ## kill -9 at 100 moments, 500 reconnects, 200 chunks replayed (half an hour)
	$(BIN)/python -m pytest -m slow tests/stress/test_killed_servers.py tests/stress/test_reconnect_races.py tests/sessions/test_replay.py

stress: $(STAMP) ## the long runs: evictions, cancellations, 10,000 chunks (a quarter of an hour)
	$(BIN)/python -m pytest -m slow tests/stress --ignore-glob='*_servers.py' --ignore-glob='*_races.py'

fuzz: $(STAMP) ## 100,000 messages and calls, valid and not, against a pattern server (CASES=N)
	CASES=$(CASES) $(BIN)/python -m pytest -s -m slow tests/fuzz

gpu-test: $(STAMP) ## what only a CUDA device can show (EXTRAS=dev,lingbot,gpu installs what it needs)
	$(BIN)/python -m tests.gpu

load: $(STAMP) ## walkers and managers against a pattern server (USERS=20 RATE=5 TIME=60s; ARGS="--chunks 40")
	$(BIN)/python -m tests.load $(ARGS)

lint: $(STAMP) ## style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(STAMP) ## every figure, one JSON line each
	$(BIN)/python -m tests.bench

$(STAMP): pyproject.toml
	@echo "installing into $(VENV): a few minutes the first time"
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --editable ".[$(EXTRAS)]"
	@touch $(STAMP)
