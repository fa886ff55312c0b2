# ordeval: make run (the synthetic study), make test, make ui, make screenshots, make venv, make check, make docs
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.ready
export DO_NOT_TRACK ?= true
export MLFLOW_DISABLE_TELEMETRY ?= true
export PREFECT_SERVER_ANALYTICS_ENABLED ?= false

.PHONY: run test venv ui screenshots lint types docs check clean

run: $(STAMP)
	$(BIN)/ordeval run conf/synthetic.yaml

test: $(STAMP)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses auto --maxprocesses 4 --dist loadfile --no-loadscope-reorder $(PYTEST_ARGS)

venv: $(STAMP)

ui: $(STAMP)
	@exec $(BIN)/ordeval ui

screenshots: $(STAMP)
	$(BIN)/python -m tests.screenshots

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP)
	$(BIN)/mypy

docs: $(STAMP)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet --site-dir build/site

check: test lint types docs

# torch goes first and from the constraints, by pip: a resolver that picks its own takes gigabytes of CUDA.
$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "ordeval needs Python 3.11 or newer")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet -c constraints.txt torch
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[dev,peers]'
	touch $(STAMP)

clean:
	rm -rf $(VENV) build *.egg-info
