# Each target makes what it needs by itself: an environment in .venv, and downloads in the user's cache directory.
# Nothing is installed into the system.

BIN := .venv/bin
STAMP := .venv/.made-here
PYTHON ?= python3 python3.13 python3.12 python3.11 python3.14

# Another project's modules and kernels must not get in.
unexport PYTHONPATH PYTHONHOME VIRTUAL_ENV
export JUPYTER_PREFER_ENV_PATH := 1

SHELL := /bin/sh
.SHELLFLAGS := -euc
.ONESHELL:
.NOTPARALLEL:
.PHONY: help demo test style types tests lab bench sample measure keep schema lock clean moved

help:  ## list what can be made
	@sed -n 's/^\([a-z]*\):.*## /  make \1\t/p' Makefile | expand -t 16

demo: $(STAMP)  ## measure MySQL 5.6 against 8.0 on this machine and render the page
	@$(BIN)/rqps run demo && result=0 || result=$$?
	sample=data/sample/study=mysql-history-timed  # the same steps, with intervals for other hours
	test $$result -gt 1 || $(BIN)/rqps report $$sample demo || true
	test $$result -gt 1 || $(BIN)/rqps report demo  # where some runs failed, the others are worth a page
	exit $$result

test: style types tests  ## check style and types, then run every test, on real servers and in a real browser

style: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP)
	$(BIN)/mypy

# What Python compiles is kept, also where the environment says not to: the tests start hundreds of its processes.
tests: $(STAMP)  # live tests wait more than they compute: hence three workers a core, and they come first
	env -u PYTHONDONTWRITEBYTECODE $(BIN)/pytest --numprocesses 6 --dist loadfile --no-loadscope-reorder

lab: $(STAMP)  ## open the notebooks in JupyterLab
	@$(BIN)/jupyter trust notebooks/*/*.ipynb >/dev/null  # or it leaves out the programs of flame graphs
	$(BIN)/jupyter lab --LabApp.expose_app_in_browser=True $(if $(filter 0,$(shell id -u)),--allow-root) notebooks

bench: $(STAMP)  ## rerun the benchmarks of rqps itself, see benchmarks/README.md
	@for benchmark in observation generator starting profiling inlining relating packing differing counting hosts scenario folding flame_page one_file refusing insert_benchmark rocksdb writes spinning wall_time; do $(BIN)/python benchmarks/$$benchmark.py; done; for observed in --waits --sampled; do $(BIN)/python benchmarks/profiling.py $$observed; done

SAMPLES := $(or $(STUDY),releases sysbench-releases point-lookups where-did-it-go ps-by-release ps-scenarios \
  ps-statements ps-statements-as-text ps-instruments ps-cost-insert ps-index-creation ps-index-creation-counts insert-releases-cpu insert-releases-io sysbench-releases-io rocksdb-io writes-of-inserts waits-of-updates \
  rocksdb-releases rocksdb-reads \
  rocksdb-variations rocksdb-history rocksdb-history-timed rocksdb-history-writes pg-releases pg-releases-since-16 pg-insert pg-insert-since-16 pg-lookups mysql-history mysql-history-timed pg-history \
  pg-compiler-builds pg-compiler-builds-insert pg-layouts)

sample: measure keep  ## measure the studies in data/sample again, or STUDY=NAME alone, and keep them there

measure: $(STAMP)
	for study in $(SAMPLES); do $(BIN)/rqps run $$study --make; done

keep: $(STAMP)  ## put these studies, or STUDY=NAME, from data/raw into data/sample, and show their numbers everywhere
	for study in $(SAMPLES); do
	  test -d data/raw/study=$$study || continue
	  rm -rf data/sample/study=$$study data/sample/study=$$study-[0-9]
	  $(BIN)/rqps pack $$study --out data/sample
	done
	$(BIN)/python tests/keep_outputs.py

schema: $(STAMP)  ## write runs.schema.json, by which editors complete runs.yaml
	$(BIN)/python -c 'from rqps.study.runs_file import schema_text; from rqps.workloads import PARAMETERS; print(schema_text(PARAMETERS), end="")' >runs.schema.json.new
	mv runs.schema.json.new runs.schema.json

lock:  ## resolve the dependencies anew, within the ranges of pyproject.toml (needs uv)
	uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes --extra hosts --group dev \
	  --custom-compile-command "make lock" --output-file requirements.lock pyproject.toml

clean:  ## remove the environment and rendered pages; measurements and downloads stay
	rm -rf .venv .mypy_cache .pytest_cache .ruff_cache lib/rqps.egg-info data/report
	find lib tests benchmarks notebooks \( -name __pycache__ -o -name .ipynb_checkpoints \) -prune -exec rm -rf {} +

# An environment holds its own absolute path, so a checkout that was moved or copied needs a new one.
ifneq ($(file <$(STAMP)),$(CURDIR))
$(STAMP): moved
endif

# The first interpreter that is new enough; where there is no uv it must also be able to make environments.
$(STAMP): requirements.lock pyproject.toml
	@uv=$$(command -v uv || true) python= old= bare=
	for candidate in $(PYTHON); do
	  version=$$($$candidate -c 'import platform; print(platform.python_version())' 2>/dev/null) || continue
	  if ! $$candidate -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
	    old="$$old ($$candidate is $$version)"
	  elif [ -z "$$uv" ] && ! $$candidate -c 'import ensurepip, venv' 2>/dev/null; then
	    bare=$${bare:-$$candidate}
	  else
	    python=$$candidate
	    break
	  fi
	done
	if [ -z "$$python" ] && [ -n "$$bare" ]; then
	  echo "rqps: $$bare can't make a virtual environment: it has no module ensurepip" >&2
	  echo "  what to do: apt-get install python3-venv (Debian, Ubuntu) or install uv, then make again" >&2
	  exit 1
	elif [ -z "$$python" ]; then
	  echo "rqps: no Python 3.11 or newer among: $(PYTHON)$$old" >&2
	  echo "  what to do: install one, or name yours: make demo PYTHON=/path/to/python3.12" >&2
	  exit 1
	fi
	echo "rqps: making .venv with $$python ($$version) and $${uv:-pip}, once; this can take a minute or two"
	if [ -n "$$uv" ]; then
	  uv venv --quiet --clear --python "$$python" .venv
	  uv pip install --quiet --python $(BIN)/python --require-hashes -r requirements.lock
	  uv pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation -e .
	else
	  "$$python" -m venv --clear .venv
	  pip="$(BIN)/python -m pip install --quiet --disable-pip-version-check"
	  $$pip --require-hashes -r requirements.lock
	  $$pip --no-deps --no-build-isolation -e .
	fi
	pwd -P >$(STAMP)
