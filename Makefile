# Every target creates .venv and installs what it needs by itself.
PYTHON ?= python3
PY := .venv/bin/python

.PHONY: help demo test slow lint coverage parity bench gpu-check site clean
help:
	@echo "make demo      the paper in five minutes: ReLU against CReLU on CIFAR-10, into runs/demo"
	@echo "make test      all tests but the slow ones"
	@echo "make slow      the tests that make test leaves out: GPU tests on a CPU, twice; sanitisers; notebooks; the site"
	@echo "make lint      ruff and mypy"
	@echo "make coverage  tests with line coverage of minicnn/"
	@echo "make parity    comparison with PyTorch (installs it)"
	@echo "make bench     speed against PyTorch, ONNX Runtime and OpenVINO (installs them), into runs/bench.json: about an hour"
	@echo "make gpu-check try everything on your GPU (installs CuPy with CUDA's libraries), into runs/gpu-check.txt: half an hour"
	@echo "make site      documents, notebooks, report, explorer and annotated source as pages, into build/site"
	@echo "make clean     remove .venv and caches"

.venv/runs: pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit("minicnn needs Python 3.11 or newer: make PYTHON=python3.12 ..." if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv .venv
	$(PY) -m pip install --quiet --disable-pip-version-check --editable '.[figures]'
	touch $@

.venv/installed: .venv/runs
	$(PY) -m pip install --quiet --disable-pip-version-check --editable '.[dev,figures]'
	touch $@

.venv/site: .venv/installed
	$(PY) -m pip install --quiet --disable-pip-version-check --editable '.[site]'
	touch $@

.venv/torch: .venv/installed
	$(PY) -m pip install --quiet --disable-pip-version-check torch==2.13.0
	touch $@

.venv/rivals: .venv/torch
	$(PY) -m pip install --quiet --disable-pip-version-check --editable '.[bench]'
	touch $@

demo: .venv/runs
	$(PY) -m experiments.demo

test: .venv/installed
	$(PY) -m pytest -n auto --dist loadfile --no-loadscope-reorder --durations 25 --ignore tests/torch_parity

slow: .venv/installed
	$(PY) -m pytest -q -n auto --slow -m slow

lint: .venv/installed
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy

coverage: .venv/installed
	$(PY) -m coverage run -m pytest -q --ignore tests/torch_parity
	$(PY) -m coverage report

parity: .venv/torch
	$(PY) -m pytest -q tests/torch_parity

bench: .venv/rivals
	mkdir -p runs
	$(PY) -m experiments.bench --json runs/bench.json

# For CUDA 13: make gpu-check CUPY='cupy-cuda13x[ctk]>=14'
CUPY ?= cupy-cuda12x[ctk]>=14
gpu-check: .venv/installed
	$(PY) -m pip install --quiet --disable-pip-version-check '$(CUPY)'
	$(PY) -m experiments.gpu_check

site: .venv/site
	$(PY) site/build.py build/site

clean:
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage *.egg-info build
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
