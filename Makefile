# Each target makes and reuses .venv by itself; Python 3.11 or newer and make are all a machine needs.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready

.PHONY: demo test lint format bench bench-data crosscheck figures theory

demo: $(READY)  ## train GPC-SAC on a maze from logged data alone, and draw what it learnt
	$(BIN)/gridcount train maze2d-umaze-v1 --preset fast --seeds 2

test: lint  ## everything CI runs
	$(BIN)/pytest

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(READY)  ## how close an update comes to the machine's matrix-multiply rate
	$(BIN)/python benchmarks/update.py

bench-data: $(READY)  ## loading, checking and describing a million transitions; training from disk beside training from memory
	$(BIN)/python benchmarks/data_room.py
	$(BIN)/python benchmarks/on_disk.py

crosscheck:  ## losses of CQL, IQL and TD3+BC beside d3rlpy's, in a virtual environment of its own (it wants PyTorch and an old Gymnasium)
	test -x .venv-crosscheck/bin/python || $(PYTHON) -m venv .venv-crosscheck
	.venv-crosscheck/bin/python -m pip install --quiet --disable-pip-version-check --editable . pytest d3rlpy 'torch==2.13.0'
	.venv-crosscheck/bin/python -m pytest -q --rootdir crosscheck -c /dev/null crosscheck

figures: $(READY)  ## render the docs' tables and curves from results/
	$(BIN)/gridcount plot results/umaze-gpc-sac results/umaze-sac --out docs/images/umaze-curves.png
	$(BIN)/python docs/render.py

theory: $(READY)  ## check the paper's theorems on problems whose truth is known, and render docs/theory.md
	$(BIN)/gridcount theory --out docs/images
	mv docs/images/theory.json results/theory.json
	$(BIN)/python docs/render.py

$(READY): pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	touch $(READY)
