# Two commands for newcomers: `make demo` and `make test`. `make help` has the rest.

PYTHON ?= python3.11
BIN := .venv/bin
INSTALLED := .venv/.installed
# How many tests run at once. Most of them wait for other processes, each of which may have a
# ClickHouse, a log and two workers: three keep two cores busy, five made some wait in vain.
PROCESSES ?= 3
# Each has an environment of its own under .peers, since it must not change what Tally runs with.
PEERS := faust quix bytewax
STREAMS := benchmarks/race/kafka_streams

.DEFAULT_GOAL := help
.PHONY: help install demo test check lint types docs prove chaos bench bench-parts peers peers-lock kafka kafka-streams lock clean

help: ## Show what each target does
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

install: $(INSTALLED) ## Install Tally and its pinned dependencies into .venv

$(INSTALLED): requirements.lock pyproject.toml
	@command -v $(PYTHON) >/dev/null || { echo "$(PYTHON) not found: install Python 3.11 or newer, or set PYTHON=python3.12"; exit 1; }
	@echo "Making .venv with $$($(PYTHON) --version)"
	@$(PYTHON) -m venv .venv
	@echo "Installing the versions pinned in requirements.lock (about 470 MB, once)"
	@$(BIN)/pip install --disable-pip-version-check --progress-bar on -r requirements.lock
	@$(BIN)/pip install --disable-pip-version-check --quiet --no-deps -e .
	@$(BIN)/python -m pipeline.native
	@touch $@
	@echo "Installed. The command is $(BIN)/tally"

demo: install ## Run everything on this machine with a synthetic stream and a live table
	@$(BIN)/tally demo

# Some environments turn it off: hundreds of processes would then compile Tally for themselves.
test: export PYTHONDONTWRITEBYTECODE :=
test: install ## Run the tests: fast ones first, short forms of the long ones
	$(BIN)/pytest -n $(PROCESSES) tests/unit tests/property tests/simulation tests/fuzz
	$(BIN)/pytest -n $(PROCESSES) tests/integration tests/chaos

check: lint types docs test ## What CI runs: ruff, mypy, make docs, make test

lint: install
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: install
	$(BIN)/mypy

# Needs nothing from elsewhere. Material's remarks on the future of mkdocs are not about these pages.
docs: export NO_MKDOCS_2_WARNING := 1
docs: install ## Build the documentation as a site into site/; a page or link gone astray fails it
	@$(BIN)/python -m pipeline.reference || { echo "run: $(BIN)/python -m pipeline.reference --write"; exit 1; }
	$(BIN)/mkdocs build --strict
	@echo "Built: site/index.html; to search in it, too: $(BIN)/python -m http.server --bind 127.0.0.1 --directory site"

prove: install ## Run the long forms of the tests, by hand before a release
	$(BIN)/pytest -m prove -o faulthandler_timeout=10800 tests

chaos: install ## Break everything under load, then compare every number (MINUTES=1 SEED=… KAFKA=1)
	@$(BIN)/python -m tests.chaos --minutes $(or $(MINUTES),1) $(if $(SEED),--seed $(SEED)) $(if $(KAFKA),--kafka)

bench: install ## Race Tally against what people would use instead
	@$(BIN)/python -m benchmarks.race

bench-parts: install ## Measure the parts, each beside its peers
	@for part in $(filter-out benchmarks/soak.py,$(wildcard benchmarks/[a-z]*.py)); do echo "== $$part"; $(BIN)/python -m benchmarks.$$(basename $$part .py) || exit 1; done

peers: $(PEERS:%=.peers/%/.installed) ## Install whom Tally races, in environments of their own

.peers/%/.installed: benchmarks/race/peers/%.lock
	@echo "Installing the versions pinned in $<"
	@$(PYTHON) -m venv .peers/$*
	@.peers/$*/bin/pip install --disable-pip-version-check --quiet -r $<
	@touch $@

kafka: install ## Fetch a real Apache Kafka for the tests (needs Java 17 and Maven)
	@$(BIN)/python -m tests.kit.kafka fetch

kafka-streams: ## Build Kafka Streams as a contestant of the race (needs Java 17 and Maven)
	@command -v mvn >/dev/null || { echo "mvn not found: install Maven and Java 17"; exit 1; }
	mvn -q -f $(STREAMS) package

lock: ## Pin the newest versions that pyproject.toml allows into requirements.lock
	@$(PYTHON) -m venv .venv-lock
	@.venv-lock/bin/pip install --disable-pip-version-check --quiet -e '.[dev]'
	@{ echo "# Pinned by 'make lock': every dependency of Tally and of its tests."; .venv-lock/bin/pip freeze --exclude-editable --exclude tally-counters; } > requirements.lock
	@rm -rf .venv-lock
	@echo "requirements.lock: $$(grep -c == requirements.lock) packages"

peers-lock: ## Pin the newest versions of whom Tally races
	@for peer in $(PEERS); do \
		in=benchmarks/race/peers/$$peer.in; lock=benchmarks/race/peers/$$peer.lock; \
		$(PYTHON) -m venv .venv-lock && .venv-lock/bin/pip install --disable-pip-version-check --quiet -r $$in || exit 1; \
		{ echo "# Pinned by 'make peers-lock' out of $$peer.in; nothing of it is in Tally's environment."; .venv-lock/bin/pip freeze; } > $$lock; \
		rm -rf .venv-lock; \
	done

clean: ## Remove what make made, but not your data
	rm -rf .venv .peers .mypy_cache .ruff_cache .pytest_cache .hypothesis dist site $(STREAMS)/target
