# make run: everything on this machine. make test: what CI runs. Both make .venv on first use.
#   make run PYTHON=/path/to/python3     make test PYTEST_ARGS='-k dev -x'
#   make test EXTRAS=dev,diffusers       with PyTorch, some gigabytes on most systems

ENOUGH := import sys; sys.exit(sys.version_info < (3, 11))
CANDIDATES := python3 python3.13 python3.12 python3.11
PYTHON ?= $(shell for p in $(CANDIDATES); do \
	$$p -c '$(ENOUGH)' >/dev/null 2>&1 && echo $$p && break; done)
BIN := .venv/bin
EXTRAS ?= dev
comma := ,
INSTALLED := .venv/installed-$(subst $(comma),-,$(EXTRAS))

.PHONY: run test clean

# exec: make waits for dev.py itself, and hands its signals on to it.
run: $(INSTALLED)
	@exec $(BIN)/python dev.py

test: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m pytest -n 2 --dist loadgroup $(PYTEST_ARGS)

# The stamp is written last, so that an installation that was cut short is done again.
$(INSTALLED): pyproject.toml constraints.txt constraints-diffusers.txt
	@'$(PYTHON)' -c '$(ENOUGH)' >/dev/null 2>&1 || { \
		echo "Darkroom needs Python 3.11 or newer: make $(MAKECMDGOALS) PYTHON=/path/to/python3" >&2; \
		exit 1; }
	@'$(PYTHON)' -c 'import ensurepip, venv' >/dev/null 2>&1 || { \
		echo "$(PYTHON) cannot make a virtual environment: install its venv package (python3-venv)" >&2; \
		exit 1; }
	@echo "installing into .venv, once"
	@'$(PYTHON)' -m venv .venv
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check \
		-c constraints.txt -c constraints-diffusers.txt -e '.[$(EXTRAS)]'
	@touch $@

clean:
	rm -rf .venv .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis build *.egg-info
	find . -name __pycache__ -type d -not -path './.git/*' -prune -exec rm -rf {} +
