# The one list of commands: people, pre-commit and CI all call these.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

BIN := .venv/bin
LISTS := core kubernetes local worker-cpu dev
LOCKS := $(LISTS:%=requirements/%.lock)
# The locked CPU build of torch is a wheel for CPython 3.11, so the environment has to be 3.11 too.
PYTHON ?= $(firstword $(foreach p,python3.11 python3 python,$(shell \
	$(p) -c 'import sys; sys.version_info[:2] == (3, 11) and print("$(p)")' 2>/dev/null)))
PYTEST_ARGS ?=
ENGINE ?= docker
BASE ?=
WORKER_BASE ?=

.PHONY: help setup models promtool serve test drills coverage unit lint format types imports check bench-gateway bench-tls bench-admission bench-queue bench-routing clients images image-trees wheel lock clean

help: ## Print this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  \033[1m%-14s\033[0m %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: .venv/READY ## Make .venv from the hashed locks (once; again when a lock changes)

.venv/READY: $(LOCKS)
	@[ -n "$(PYTHON)" ] || { echo "setup: Python 3.11 is needed (the locked CPU build of torch is for it)." \
		"Install python3.11 with its venv module, or name it: make setup PYTHON=/path/to/python3.11"; exit 1; }
	@requirements/install $(PYTHON) $(LISTS)
	@touch $@

models: setup ## Fetch, convert and sign the demo models (once)
	@$(BIN)/penstock models prepare

serve: setup ## Start the whole platform here and ask it a first question
	@$(BIN)/penstock up

promtool: setup ## Fetch Prometheus's rule checker where the machine has none (once)
	@requirements/promtool

test: models promtool $(if $(wildcard infra/infra.mk),.venv-infra/READY) ## Every kind of test that needs no GPU, real engines included (ends within 45 minutes)
	@$(BIN)/pytest -m "not gpu and not drill" --session-timeout=2700 --durations=25 $(PYTEST_ARGS)

drills: models ## Further variants of the fault tests: other processes, other signals, other seeds
	@HISTORY_SEEDS="$${HISTORY_SEEDS:-1 2 3 4}" $(BIN)/pytest -m "drill" --durations=10 $(PYTEST_ARGS)

coverage: models ## Line and branch coverage of the tests that run in one process
	@$(BIN)/pytest -m "not gpu and not integration" --cov --cov-report=term $(PYTEST_ARGS)

unit: setup ## The quick tests: nothing slow, no real processes
	@$(BIN)/pytest -m "not gpu and not integration and not slow" $(PYTEST_ARGS)

lint: setup ## ruff: rules and format
	@echo "ruff check" && $(BIN)/ruff check .
	@echo "ruff format --check" && $(BIN)/ruff format --check .

format: setup ## Rewrite the code as lint wants it
	@$(BIN)/ruff check --fix . && $(BIN)/ruff format .

types: setup ## mypy, strict
	@echo "mypy" && $(BIN)/mypy

imports: setup ## The rooms: import contracts
	@$(BIN)/lint-imports --no-logo

# The infrastructure programs bring targets and an environment of their own.
-include infra/infra.mk

check: lint types imports $(if $(wildcard infra/infra.mk),infra-test) test ## All gates

bench-gateway: setup ## The gateway's CPU per request and per token, against a stub engine
	@$(BIN)/python -m loadtests.bench_gateway

bench-tls: setup ## What mutual TLS to the workers adds to a request and to a token, two gateways side by side
	@$(BIN)/python -m loadtests.bench_tls

bench-admission: setup ## What limits and ledger add to a request, in process and with Redis
	@$(BIN)/python -m loadtests.bench_admission

bench-queue: setup ## What waiting in fair order costs, by how many wait
	@$(BIN)/python -m loadtests.bench_queue

bench-routing: setup ## What a fleet's size costs: a pick, a new table, the controller's tick
	@$(BIN)/python -m loadtests.bench_routing

clients: models ## Other people's load generators against a started platform: guidellm, aiperf, vllm bench serve
	@$(BIN)/python -m loadtests.clients

images: setup ## Build the images (BASE and WORKER_BASE: docker.io/library/python by digest; ENGINE=podman for another engine)
	@[ -n "$(BASE)" ] && [ -n "$(WORKER_BASE)" ] || { echo "images: name both bases by digest:" \
		"make images BASE=python@sha256:… (3.11-slim) WORKER_BASE=python@sha256:… (3.11, with its C compiler)"; exit 1; }
	@$(MAKE) wheel
	@$(foreach image,gateway controller worker,$(ENGINE) build --file platform/images/Dockerfile --tag penstock/$(image) \
		--build-arg IMAGE=$(image) --build-arg BASE=$(if $(filter worker,$(image)),$(WORKER_BASE),$(BASE)) . &&) true

image-trees: setup wheel ## What the images of gateway and controller hold, as folders in build/images; no engine needed
	@for image in gateway controller; do \
		PYTHON=$(BIN)/python platform/images/install $$image dist/penstock-*.whl build/images/$$image; done

wheel: setup
	@rm -f dist/*.whl && $(BIN)/python -m hatchling build -t wheel -d dist

lock: setup ## Rebuild the locks from requirements/*.in (UPGRADE=--upgrade moves everything)
	@requirements/lock $(UPGRADE) && $(MAKE) setup && $(BIN)/python requirements/licenses.py

clean: ## Remove caches and builds; keep .venv and the data of the platform
	@rm -rf build dist reports htmlcov .coverage* .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	@find platform tests -name __pycache__ -type d -prune -exec rm -rf {} +
	@echo "clean"
