# Every target does its own set-up: it needs Python 3.11 or later and, for the native kernels, a C++ compiler.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/ready

.PHONY: demo test quick check docs bench campaign sanitize clean

demo: $(READY)
	$(BIN)/polybasis demo --out demo

# Two workers of one thread each: more threads than cores would only wait for one another.
test: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2

# Without the tests that take more than a few seconds.
quick: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 -m "not slow"

check: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

# The site, in docs/_build/html; warnings are errors. Tutorials that have not changed do not run again.
docs: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/python -m sphinx -b html -W --keep-going docs docs/_build/html

bench: $(READY)
	$(BIN)/polybasis bench

# Damages files and kills commands 23,000 times, in about an hour; an interrupted campaign resumes.
# For a part of it: make campaign CAMPAIGN="flips --cases 100".
campaign: $(READY)
	OMP_NUM_THREADS=1 PYTHONPATH=tests $(BIN)/python -m faults.campaign $(CAMPAIGN)

# Runs the kernel tests with AddressSanitizer and UBSan (needs GCC), but for those that start processes or measure memory.
# python -S keeps the editable install off sys.path.
SANITIZED := build/sanitized
sanitize: $(READY)
	$(BIN)/pip install --quiet --no-deps --upgrade --target $(SANITIZED) --config-settings=build-dir=build/sanitize \
	  --config-settings=cmake.define.POLYBASIS_SANITIZE=ON .
	LD_PRELOAD="$$($(CXX) -print-file-name=libasan.so) $$($(CXX) -print-file-name=libstdc++.so.6)" ASAN_OPTIONS=detect_leaks=0 OMP_NUM_THREADS=2 \
	  PYTHONPATH=$(SANITIZED):$$($(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))') \
	  $(BIN)/python -S -m pytest -q -p no:cacheprovider tests/krylov tests/test_graph.py tests/store/test_store.py \
	  -k "not interrupted and not memory_stays and not full_disk"

$(READY): pyproject.toml constraints.txt CMakeLists.txt src/polybasis/krylov/rank_tolerance.toml $(wildcard native/*.cpp native/*.hpp native/*.inl)
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --upgrade pip
	$(BIN)/pip install --quiet --constraint constraints.txt torch
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $@

clean:
	rm -rf .venv build demo docs/_build docs/auto_tutorials docs/auto_gallery docs/reference/api/generated
