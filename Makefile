# Two commands matter: `make run` starts a server, `make test` proves the checkout.
# Everything else is set up by them, into .venv, from the lock files in requirements/.

PYTHON ?= python3
UV_VERSION := 0.13.7
VENV := .venv
BIN := $(VENV)/bin
UV := VIRTUAL_ENV=$(CURDIR)/$(VENV) $(BIN)/uv
KERNEL_SOURCES := $(shell find kernels -name target -prune -o -type f -print)
PYTEST_WORKERS ?= 2

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: run
run: $(VENV)/.run-ready ## set everything up and start `tsdb standalone start`
	$(BIN)/tsdb standalone start $(ARGS)

.PHONY: test
test: $(VENV)/.dev-ready ## set everything up and run all tests
	$(BIN)/pytest -n $(PYTEST_WORKERS) $(ARGS)

.PHONY: clients
clients: $(VENV)/.dev-ready ## install other projects' agents and drivers and run them against a server
	tests/clients/install
	TSDB_CLIENTS_REQUIRED=1 $(BIN)/pytest tests/clients $(ARGS)

.PHONY: soak
soak: $(VENV)/.dev-ready ## model checker, kills under all protocols for an hour (TSDB_SOAK_MINUTES), data out of shape
	TSDB_MODEL_EXAMPLES=2000 $(BIN)/pytest tests/engine/test_model.py $(ARGS)
	TSDB_SERIES_AGGREGATE_EXAMPLES=5000 $(BIN)/pytest tests/query/series_aggregate $(ARGS)
	TSDB_DUCKDB_EXAMPLES=$${TSDB_DUCKDB_EXAMPLES:-20000} $(BIN)/pytest tests/differential/test_duckdb.py $(ARGS)
	TSDB_SOAK_MINUTES=$${TSDB_SOAK_MINUTES:-60} $(BIN)/pytest -s tests/soak $(ARGS)

.PHONY: fuzz
fuzz: $(VENV)/.dev-ready ## send bytes out of shape to every port of a server (TSDB_FUZZ_SECONDS for each, 120)
	TSDB_FUZZ_SECONDS=$${TSDB_FUZZ_SECONDS:-120} $(BIN)/pytest -s tests/fuzz $(ARGS)

.PHONY: differential
differential: $(VENV)/.dev-ready ## compare PromQL with an installed Prometheus, on thousands of queries
	TSDB_CLIENTS_REQUIRED=1 $(BIN)/pytest -m differential tests/differential $(ARGS)

.PHONY: lint
lint: $(VENV)/.dev-ready ## check format, style, types and the Rust crate
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	cd kernels && cargo fmt --check && cargo clippy --release --locked -- -D warnings

.PHONY: format
format: $(VENV)/.dev-ready ## rewrite the sources in the house format
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix-only .
	cd kernels && cargo fmt

.PHONY: bench
bench: $(VENV)/.dev-ready ## run the project's own benchmarks
	$(BIN)/python -m benchmarks

.PHONY: generate
generate: $(VENV)/.dev-ready ## rewrite the files that come from the configuration models and the messages of gRPC
	$(BIN)/python -m tsdb.config.generate
	$(BIN)/python -m tsdb.servers.grpc.proto.generate

.PHONY: lock
lock: $(VENV)/.uv-ready ## resolve the dependencies anew
	$(UV) pip compile pyproject.toml --universal --python-version 3.11 --generate-hashes \
	  --no-emit-index-url --no-header -q -U -o requirements/run.lock
	$(UV) pip compile pyproject.toml --group dev --universal --python-version 3.11 --generate-hashes \
	  --no-emit-index-url --no-header -q -U -c requirements/run.lock -o requirements/dev.lock
	echo 'maturin>=1.9,<2' | $(UV) pip compile - --universal --python-version 3.11 --generate-hashes \
	  --no-emit-index-url --no-header -q -U -c requirements/dev.lock -o requirements/build.lock

.PHONY: clean
clean: ## remove everything the targets above made
	rm -rf $(VENV) kernels/target dist .mypy_cache .ruff_cache .pytest_cache .hypothesis benchmarks/results
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
	rm -f tsdb/_kernels*.so

# Set-up in steps, each with a stamp in .venv: the tools, what `make run` needs, what everything else needs on top.

$(VENV)/.uv-ready:
	@command -v cargo >/dev/null || { echo "cargo is needed to build the kernels: install Rust 1.88 or newer" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "Python 3.11 or newer is needed; name one with make PYTHON=..." >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check uv==$(UV_VERSION)
	touch $@

$(VENV)/.run-deps: $(VENV)/.uv-ready requirements/run.lock requirements/build.lock
	$(UV) pip install --quiet --compile-bytecode --require-hashes -r requirements/run.lock -r requirements/build.lock
	touch $@

$(VENV)/.run-ready: $(VENV)/.run-deps pyproject.toml $(KERNEL_SOURCES)
	@echo "building the kernels; the first time takes about a minute"
	$(UV) pip install --quiet --no-deps --no-build-isolation --editable .
	touch $@

$(VENV)/.dev-ready: $(VENV)/.run-ready requirements/dev.lock
	$(UV) pip install --quiet --compile-bytecode --require-hashes -r requirements/dev.lock
	touch $@
