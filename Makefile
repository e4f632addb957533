# Everything a fresh machine needs comes from here: Python 3.11+, Java 17+, make, and Maven or sbt.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
CACHE := .cache
JAR := python/rmq_ordered/jars/rmq-ordered-broker.jar
SCALA_SOURCES := $(shell find src/main conf project build.sbt -type f -not -path '*/target/*' 2>/dev/null)
SBT := scripts/sbt
# Processes that run Python's tests, each with brokers of its own; Scala's run beside them.
WORKERS ?= 2

# For pytest; paths and -k select Scala's tests too: make test ARGS="-k lease"
ARGS ?=
RUN_TESTS := WORKERS=$(WORKERS) $(BIN)/python -m tests.runner

.PHONY: help setup demo quick test proof mutations coverage verify check bench jar docs clean
.DEFAULT_GOAL := help

help: ## Show this list
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 10

setup: $(VENV)/.ready $(JAR) ## Virtual environment and broker jar

$(VENV)/.ready: pyproject.toml scripts/prerequisites
	@scripts/prerequisites python $(PYTHON)
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "Installing Python packages (PySpark is large, a few minutes on a slow line) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade pip
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@

jar: $(JAR) ## Build the broker and put its jar into the Python package

$(JAR): $(SCALA_SOURCES) scripts/sbt
	@scripts/prerequisites broker
	@echo "Building the broker ..."
	@$(SBT) package
	@mkdir -p $(dir $(JAR))
	@cp target/rmq-ordered-broker.jar $(JAR)

demo: setup ## An ordered pipeline on the embedded broker, killed and restarted, then audited
	@$(BIN)/python examples/ordered_pipeline_demo.py

# These need no Java to begin: what cannot run without it is named at the end.
quick: $(VENV)/.ready ## Tests that need no server, in under a minute
	@$(RUN_TESTS) quick $(ARGS)

test: $(VENV)/.ready ## A proof of every promise: Scala, Python, both brokers, Java clients, Spark
	@$(RUN_TESTS) test $(ARGS)

proof: $(VENV)/.ready ## The long tests: kills, waits by design, clusters, planted bugs
	@$(RUN_TESTS) proof $(ARGS)
	@test -n "$(ARGS)" || $(MAKE) --no-print-directory mutations

mutations: setup ## Plant bugs, one at a time, and expect the tests to catch each
	@$(BIN)/python -m tests.mutations

coverage: setup ## What the tests reach by line, branch and promise; about 40 minutes
	@$(BIN)/python -m tests.coverage $(ARGS)

verify: $(VENV)/.ready ## Have the last `make test` and `make proof` proved every promise?
	@$(BIN)/python -m tests.runner verify

check: setup ## Format, lint, types, layers
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(BIN)/python -m pytest -q tests/architecture
	@$(SBT) scalafmtCheckAll scalafmtSbtCheck

bench: setup ## Speed, as ratios measured side by side
	@$(BIN)/python benchmarks/codec.py
	@$(BIN)/python benchmarks/broker.py
	@$(BIN)/python benchmarks/producer.py
	@$(BIN)/python benchmarks/sink.py
	@$(BIN)/python benchmarks/pop.py
	@$(BIN)/python benchmarks/client.py --check # the last two: a goal that is missed ends the run
	@$(BIN)/python benchmarks/source.py --check

docs: setup ## Regenerate docs/options.md and docs/proofs.md
	@$(BIN)/python -c "from rmq_ordered.options import options_markdown; print(options_markdown(), end='')" > docs/options.md
	@$(BIN)/python -c "from tests.support import promises, paths; print(promises.proofs_page(paths.ROOT), end='')" > docs/proofs.md

clean: ## Remove everything that was built (not the caches)
	rm -rf $(VENV) target project/target project/project $(JAR) dist
