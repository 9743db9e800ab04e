# Two commands for newcomers: `make demo` and `make test`. Every target sets up .venv by itself; nothing is installed
# outside it. PYTHON=/path/to/python3 picks another interpreter for a new .venv.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Setuptools warns of every editable installation; nothing is wrong with one.
PIP := PYTHONWARNINGS=ignore $(BIN)/python -m pip install --quiet --disable-pip-version-check

# The extra that brings the CuPy for this machine's driver; empty without a GPU.
GPU = $(shell $(PYTHON) cudml/driver.py)
comma := ,
AND_GPU = $(if $(GPU),$(comma)$(GPU))

# Without a GPU the tests still compile every kernel, and CuPy brings the bindings of the compiler.
CUPY = $(or $(GPU),cuda13)

# More workers than this would only compete for one GPU's memory.
WORKERS := auto --maxprocesses=8

# C++ that is ours to format; what stands in kernels/ is laid out by hand.
EXECUTOR = $(foreach kind,h cpp cu cuh,$(wildcard tests/cuda_on_cpu/*/*.$(kind)))

.PHONY: help demo test test-emulated check bench docs clean
help:
	@echo "make demo    the four operators on a photograph, share prices and a terrain; writes demo.png"
	@echo "make test    all tests, on the GPU too where there is one"
	@echo "make test-emulated SEEDS=100   every kernel on the CPU under many schedules, with the race checker"
	@echo "make check   ruff, mypy, clang-format, and how long lines of kernels are"
	@echo "make bench   measures the kernels against a copy and other libraries (needs a GPU)"
	@echo "make docs    the reference of all functions, in build/docs"
	@echo "make clean   removes .venv and everything that was built"

demo: $(VENV)/demo.stamp
	$(BIN)/python -m cudml.demo

test: $(VENV)/test.stamp
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup

# Races under many schedules first, then the suite with every call under so many. 100 take some hours.
SEEDS := 10
test-emulated: $(VENV)/test.stamp
	$(BIN)/python -m pytest -n $(WORKERS) --seeds $(SEEDS) tests/test_races.py
	$(BIN)/python -m pytest -n $(WORKERS) --seeds $(SEEDS) --backend emulated --in-full

check: $(VENV)/check.stamp
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/clang-format --dry-run -Werror $(EXECUTOR)
	! grep --line-number --extended-regexp '.{121}' kernels/*

bench: $(VENV)/bench.stamp
	$(BIN)/python -m benchmarks.run
	$(BIN)/python -m benchmarks.chart
	$(BIN)/python -m pytest benchmarks

docs: $(VENV)/docs.stamp
	$(BIN)/pdoc cudml !cudml.demo --output-directory build/docs

clean:
	rm -rf $(VENV) build dist *.egg-info demo.png
	rm -rf .pytest_cache .mypy_cache .ruff_cache .hypothesis .benchmarks

$(VENV)/created.stamp:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || \
	    { echo "cudml needs Python 3.10 or newer; choose one with: make PYTHON=/path/to/python3"; exit 1; }
	@$(PYTHON) -m venv $(VENV) || \
	    { echo "'$(PYTHON) -m venv' failed; on Debian and Ubuntu it needs: apt install python3-venv"; exit 1; }
	$(PIP) --upgrade pip
	@touch $@

# A stamp per target, so that the demo does not wait for the tests' packages. All of them depend on setup.cfg.
$(VENV)/demo.stamp: EXTRAS = demo$(AND_GPU)
$(VENV)/test.stamp: EXTRAS = test,$(CUPY)
$(VENV)/check.stamp: EXTRAS = dev
$(VENV)/bench.stamp: EXTRAS = bench,$(CUPY)
$(VENV)/docs.stamp: EXTRAS = docs
$(VENV)/%.stamp: setup.cfg pyproject.toml | $(VENV)/created.stamp
	$(PIP) --editable '.[$(EXTRAS)]'
	@touch $@
