# Each target makes and reuses .venv by itself; Python 3.11 or newer and make are all a machine needs.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
# Python keeps the bytecode of what it imports; without it every start compiles all of JAX from source again
unexport PYTHONDONTWRITEBYTECODE

# what `browser` asks apt-get for: a browser, and a font so that pictures of pages have letters
CHROMIUM := chromium fonts-dejavu-core

.PHONY: demo test tests lint format browser postgres debian bench bench-data crosscheck docs figures results theory tutorial report-picture

demo: $(READY)  ## train GPC-SAC on a maze from logged data alone, and draw what it learnt
	$(BIN)/gridcount train maze2d-umaze-v1 --preset fast --seeds 2

test:  ## everything CI runs; what can be done side by side is
	$(MAKE) --jobs 2 --no-print-directory $(READY) debian
	$(MAKE) --jobs 2 --no-print-directory lint tests

tests: $(READY)
	$(BIN)/pytest -n auto --dist loadfile --no-loadscope-reorder

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

browser:  ## a Chromium to test the report page in, where it is missing and may be installed; tests say what they miss without one
	@for name in chromium chromium-browser google-chrome; do command -v $$name >/dev/null && exit 0; done; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		apt-get -q -o Acquire::Retries=3 update && \
		DEBIAN_FRONTEND=noninteractive apt-get -q -o Acquire::Retries=3 install -y --no-install-recommends $(CHROMIUM) || \
		echo "Chromium could not be installed: the report page's browser tests will fail"; \
	else echo "no Chromium here, and no right to install one: the report page's browser tests will be skipped"; fi

postgres:  ## a PostgreSQL server that a test starts, where it is missing and may be installed; the test is skipped without one
	@if ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || command -v initdb >/dev/null; then exit 0; fi; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		apt-get -q -o Acquire::Retries=3 update && \
		DEBIAN_FRONTEND=noninteractive apt-get -q -o Acquire::Retries=3 install -y --no-install-recommends postgresql || \
		echo "PostgreSQL could not be installed: the test of its import will fail"; \
	else echo "no PostgreSQL here, and no right to install one: the test of its import will be skipped"; fi

debian:  ## one after the other, because apt-get runs alone
	$(MAKE) --no-print-directory browser
	$(MAKE) --no-print-directory postgres

bench: $(READY)  ## how close each algorithm's update comes to the machine's matrix-multiply rate; BENCH=--keep for the docs
	$(BIN)/python benchmarks/update.py $(BENCH)

bench-data: $(READY)  ## loading, checking and describing a million transitions; training from disk beside training from memory
	$(BIN)/python benchmarks/data_room.py
	$(BIN)/python benchmarks/on_disk.py

crosscheck:  ## losses of CQL, IQL and TD3+BC beside d3rlpy's, in a virtual environment of its own (it wants PyTorch and an old Gymnasium)
	test -x .venv-crosscheck/bin/python || $(PYTHON) -m venv .venv-crosscheck
	.venv-crosscheck/bin/python -m pip install --quiet --disable-pip-version-check --editable . pytest d3rlpy 'torch==2.13.0'
	.venv-crosscheck/bin/python -m pytest -q --rootdir crosscheck -c /dev/null crosscheck

docs: $(READY)  ## the documentation site in build/site: open its index.html; it needs no network. A broken link fails
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

figures: $(READY)  ## render the docs' tables and curves from results/
	$(BIN)/gridcount plot results/umaze-gpc-sac results/umaze-sac --out docs/images/umaze-curves.png
	$(BIN)/python docs/render.py

# those that docs/results.md shows: a suite's curves, and for the paper's tables what holds over datasets
FIGURES = $$(cd build/results/figures && ls | grep -E '^(paper|ablation|recollected).*-curves.png|^paper.*-aggregates.png')

results: $(READY)  ## render docs/results.md from the measurements kept in results/
	$(BIN)/gridcount report results/*.parquet --out build/results
	for figure in $(FIGURES); do cp build/results/figures/$$figure docs/images/; done
	$(BIN)/python docs/render.py

theory: $(READY)  ## check the paper's theorems on problems whose truth is known, and render docs/theory.md
	$(BIN)/gridcount theory --out docs/images
	mv docs/images/theory.json results/theory.json
	$(BIN)/python docs/render.py

tutorial: $(READY)  ## play docs/tutorial.md from a clean virtual environment, and measure its truth over seeds; half an hour
	rm -rf build/tutorial
	$(BIN)/python benchmarks/tutorial.py build/tutorial/page --clean --keep
	$(BIN)/python benchmarks/tutorial_truth.py build/tutorial/truth
	$(BIN)/python benchmarks/tutorial_truth.py --draw
	$(BIN)/python docs/render.py

report-picture: $(READY)  ## the README's picture of a report, of the runs kept in results/
	$(BIN)/gridcount report results --out build/report --no-figures
	$(BIN)/python docs/screenshot.py build/report/report.html docs/images/report.png

$(READY): pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --no-compile --disable-pip-version-check --editable '.[dev]'
	$(BIN)/python -c 'import gridcount.commands.train'
	touch $(READY)
