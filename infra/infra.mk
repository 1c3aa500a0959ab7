# Targets of the infrastructure, included by the main Makefile. Its environments are its own.
INFRA_BIN := .venv-infra/bin
INFRA_PYTHON ?= $(if $(PYTHON),$(PYTHON),python3)
export PENSTOCK_TF_MIRROR ?= $(shell .ci/provider-mirror)
INFRA_OPTIONS := -c infra/pytest.ini --rootdir=. --confcutdir=tests/infra

.PHONY: infra-setup infra-test infra-test-slow infra-mutants infra-graph infra-cost infra-lint infra-golden infra-charts infra-mirror

infra-setup: .venv-infra/READY .venv-review/READY ## Make the infrastructure's two environments from their hashed locks

.venv-infra/READY: requirements/infra.lock
	@$(INFRA_PYTHON) -m venv .venv-infra && $(INFRA_BIN)/pip install --quiet --require-hashes -r $<
	@touch $@

.venv-review/READY: infra/review/requirements.lock
	@$(INFRA_PYTHON) -m venv .venv-review && .venv-review/bin/pip install --quiet --require-hashes -r $<
	@touch $@

infra-test: infra-setup ## Every proof of the infrastructure that needs no account (lint included)
	@$(MAKE) infra-lint
	@$(INFRA_BIN)/python -m tests.lanes --only infra $(INFRA_OPTIONS) tests/infra -m "not slow" --durations=10

infra-test-slow: infra-setup ## The apply of what moto can serve (minutes)
	@$(INFRA_BIN)/python -m pytest $(INFRA_OPTIONS) tests/infra -m slow

infra-mutants: infra-setup setup ## Mistakes in a copy of the tree, one by one, and which test notices each (half an hour)
	@$(INFRA_BIN)/python -m tests.infra.mutants

infra-lint: .venv-infra/READY ## ruff and strict mypy over infra/ and its tests
	@$(INFRA_BIN)/ruff check infra tests/infra && $(INFRA_BIN)/ruff format --check infra tests/infra
	@$(INFRA_BIN)/mypy --config-file infra/mypy.ini

infra-graph: .venv-infra/READY ## Redraw infra/docs from the captured graphs
	@$(INFRA_BIN)/python -m infra.picture

infra-cost: .venv-infra/READY ## Monthly estimate per stack (ENV=dev for another one); fails above the config's budget
	@$(INFRA_BIN)/python -m infra.estimate $(ENV)

infra-golden: .venv-infra/READY ## Rewrite the golden summaries after a reviewed change
	@$(INFRA_BIN)/python -m infra.capture

.venv-charts/READY: infra/rendered/requirements.lock
	@$(INFRA_PYTHON) -m venv .venv-charts && .venv-charts/bin/pip install --quiet --require-hashes -r $<
	@touch $@

infra-charts: .venv-infra/READY .venv-charts/READY ## Render the pinned charts in CHARTS=FOLDER with our values, and rewrite infra/rendered/facts
	@[ -d "$(CHARTS)" ] || { echo "infra-charts: name a folder of unpacked charts: make infra-charts CHARTS=FOLDER (helm pull SOURCE --version PIN --untar)"; exit 1; }
	@$(INFRA_BIN)/python -m infra.rendered .venv-charts/bin/python $(CHARTS)

infra-mirror: .venv-infra/READY ## Print the commands that copy every chart and image of ENV's pins into REGISTRY=HOST
	@[ -n "$(ENV)" ] && [ -n "$(REGISTRY)" ] || { echo "infra-mirror: name environment and registry: make infra-mirror ENV=dev REGISTRY=HOST"; exit 1; }
	@$(INFRA_BIN)/python -m infra.rendered.mirror $(ENV) $(REGISTRY)
