# parquetry: `make demo` shows it, `make test` proves it, `make help` lists the rest.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
CACHE  ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/parquetry
export PYSPARK_PYTHON := $(abspath $(BIN)/python)
export PARQUETRY_CACHE := $(CACHE)

.DEFAULT_GOAL := help

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  %-10s %s\n", $$1, $$2}'

$(VENV)/.installed: pyproject.toml
	@$(PYTHON) tools/check_python.py
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	PYTHONWARNINGS=ignore $(BIN)/python -m pip install --quiet --editable . --group dev
	@touch $@

venv: $(VENV)/.installed ## make the virtual environment .venv

java: ## look for Java 17 or newer; install Debian's package when run as root
	@$(PYTHON) tools/check_java.py --install

setup: venv java

demo: setup ## the main job on real data: a year of flights, kept well-sized
	$(BIN)/python -m examples.flights.demo

test: setup interop-env ## all tests (the long suites in a subset)
	$(BIN)/python tools/run_tests.py

fast: venv ## unit and property tests, no JVM
	$(BIN)/python -m pytest -q -n 2 -m "not spark and not interop and not soak"

spark: setup ## tests on real Spark
	$(BIN)/python -m pytest -q -m "spark and not interop and not soak"

interop-env: venv
	$(BIN)/python -m tests.interop.environment

interop: setup interop-env ## real Apache Hudi 0.15.0 and 1.2.0 on Spark 3.5 against our tables
	$(BIN)/python -m pytest -q -m "interop and not soak"

soak: test ## everything: all tests, then the long suites in full
	$(BIN)/python tools/run_tests.py --long

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

check: lint types contracts fast ## format, lint, mypy strict, import contracts, fast tests

bench: setup interop-env ## the comparisons of benchmarks/RESULTS.md (SCALE=0.1 for a short run)
	$(BIN)/python -m pip install --quiet tpchgen-cli
	$(BIN)/python -m benchmarks.run
	$(BIN)/python -m benchmarks.session_experiment
	$(BIN)/python -m benchmarks.clustering_plans
	$(BIN)/python -m benchmarks.plans

clean: ## remove what the targets made inside this folder
	rm -rf build dist target .mypy_cache .ruff_cache .pytest_cache *.egg-info

.PHONY: help venv java setup demo test fast spark interop-env interop soak format lint types contracts check bench clean
