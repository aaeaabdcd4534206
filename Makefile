# parquetry: `make demo` shows it, `make test` proves it, `make help` lists the rest.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
TOOLS  := build/tools
DOCS   := build/docs
CACHE  ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/parquetry
export PYSPARK_PYTHON := $(abspath $(BIN)/python)
export PARQUETRY_CACHE := $(CACHE)

.DEFAULT_GOAL := help

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  %-10s %s\n", $$1, $$2}'

# Nothing is installed that is not in locks/, by version and hash; what has to be built is built by locked packages.
LOCKED := -m pip install --quiet --require-hashes --no-build-isolation --use-pep517

$(VENV)/.installed: pyproject.toml locks/build.txt locks/dev.txt
	@$(PYTHON) tools/check_python.py
	@$(PYTHON) tools/lock.py --check build dev
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python $(LOCKED) -r locks/build.txt
	PYTHONWARNINGS=ignore $(BIN)/python $(LOCKED) -r locks/dev.txt
	PYTHONWARNINGS=ignore $(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

$(TOOLS)/.installed: locks/tools.txt
	$(PYTHON) -m venv $(TOOLS)
	$(TOOLS)/bin/python $(LOCKED) -r locks/tools.txt
	@touch $@

$(DOCS)/.installed: locks/docs.txt
	$(PYTHON) -m venv $(DOCS)
	$(DOCS)/bin/python $(LOCKED) -r locks/docs.txt
	@touch $@

lock: $(TOOLS)/.installed ## write locks/ from pyproject.toml, what fits stays; UPGRADE=1 for the newest of all
	$(TOOLS)/bin/python tools/lock.py $(if $(UPGRADE),--upgrade)

audit: $(TOOLS)/.installed ## look the locked packages up in an advisory database, where one can be reached
	$(TOOLS)/bin/python tools/audit.py

venv: $(VENV)/.installed ## make the virtual environment .venv

java: ## look for Java 17 or newer; install Debian's package when run as root
	@$(PYTHON) tools/check_java.py --install

browser: ## look for Chromium, for tests of pages; install Debian's package when run as root
	@$(PYTHON) tools/chromium.py --install

setup: venv java

demo: setup ## the main job on real data: a year of flights, kept well-sized
	$(BIN)/python -m examples.flights.demo

test: setup browser interop-env ## all tests (the long suites in a subset)
	$(BIN)/python -m tools.run_tests

fast: venv ## unit and property tests, no JVM
	$(BIN)/python -m pytest -q -n 2 -m "not spark and not interop and not long"

spark: setup ## tests on real Spark
	$(BIN)/python -m pytest -q -m "spark and not interop and not long"

interop-env: venv
	$(BIN)/python -m tests.interop.environment

interop: setup browser interop-env ## real Apache Hudi 0.15.0 and 1.2.0 on Spark 3.5 against our tables
	$(BIN)/python -m pytest -q -m "interop and not long"

readers: setup interop-env ## every reader on every kind of table: docs/reference/readers.md
	$(BIN)/python -m tests.interop.readers.run

monitoring: venv ## the alert rules and the dashboard's queries, checked by promtool
	$(BIN)/python -m tools.check_monitoring

test-long: setup browser interop-env ## the long suites: more seeds, more histories, whole matrices (MINUTES=5 for some of them)
	$(BIN)/python -m tools.run_tests --long $(if $(MINUTES),--minutes $(MINUTES))

hooks: venv ## run the quick checks before each commit (pre-commit)
	$(BIN)/pre-commit install

format: venv ## format the code
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix --quiet . || true

lint: venv
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: venv
	@$(BIN)/python tools/link_packages.py
	$(BIN)/mypy

contracts: venv
	@$(BIN)/python tools/link_packages.py
	cd build/typing && $(abspath $(BIN)/lint-imports) --no-logo --config ../../pyproject.toml

subjects: venv ## the subjects of commits: at most 72 characters, imperative
	$(BIN)/python tools/check_commit_subjects.py

check: lint types contracts fast ## format, lint, mypy strict, import contracts, fast tests

docs: $(DOCS)/.installed ## the documentation site in build/site: every link and anchor is checked
	@$(PYTHON) tools/lock.py --check docs
	@$(PYTHON) tools/link_packages.py
	PATH=$(abspath $(DOCS)/bin):$$PATH NO_MKDOCS_2_WARNING=1 $(DOCS)/bin/mkdocs build --quiet --strict
	@echo "build/site/index.html"

dist: venv ## the wheel and the sdist of this version in dist/, built from its tag
	rm -rf build/release dist
	mkdir -p build/release
	version=$$($(BIN)/python -c 'import parquetry; print(parquetry.__version__)') \
	&& git archive --output build/release.tar "v$$version" \
	&& tar -xf build/release.tar -C build/release \
	&& $(BIN)/python -m build --no-isolation --outdir dist build/release \
	&& ls dist/parquetry-$$version-py3-none-any.whl dist/parquetry-$$version.tar.gz

bench: setup interop-env ## the comparisons of benchmarks/RESULTS.md (SCALE=0.1 for a short run)
	$(BIN)/python $(LOCKED) -r locks/bench.txt
	$(BIN)/python -m benchmarks.run
	$(BIN)/python -m benchmarks.session_experiment
	$(BIN)/python -m benchmarks.clustering_plans
	$(BIN)/python -m benchmarks.run_order
	$(BIN)/python -m benchmarks.plans
	$(BIN)/python -m benchmarks.requests
	$(BIN)/python -m benchmarks.reads
	$(BIN)/python -m benchmarks.shares
	$(BIN)/python -m benchmarks.publish

clean: ## remove what the targets made inside this folder
	rm -rf build dist target .mypy_cache .ruff_cache .pytest_cache *.egg-info

.PHONY: help venv java browser setup lock audit demo test fast spark interop-env interop readers test-long hooks format lint types contracts subjects check docs dist bench clean
