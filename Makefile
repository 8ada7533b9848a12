# Every target shares one virtual environment, .venv, made on first use.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: install demo serve test bench fmt lint types imports unit lock clean

install: .venv/.installed

# The lock is complete, so nothing is resolved; what is never imported is never compiled.
.venv/.installed: requirements-dev.lock pyproject.toml
	@echo "Installing into .venv, once; it takes about a minute."
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-compile --require-hashes -r requirements-dev.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

demo: install
	$(BIN)/turngate demo

serve: install
	$(BIN)/turngate serve --print-token

test: install lint types imports unit

lint:
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types:
	$(BIN)/mypy

imports:
	$(BIN)/lint-imports

unit:
	$(BIN)/coverage erase
	$(BIN)/coverage run -m pytest
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage report --fail-under=95 --skip-covered --sort=cover
	$(BIN)/coverage report --fail-under=100 --skip-covered --include="app/policy/*,app/engine/*,app/trust/*"

bench: install
	$(BIN)/turngate bench

fmt: install
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

lock:
	uv pip compile pyproject.toml --python-version 3.11 --universal --generate-hashes --no-annotate --no-header -o requirements.lock
	uv pip compile pyproject.toml --group dev --python-version 3.11 --universal --generate-hashes --no-annotate --no-header -o requirements-dev.lock

clean:
	rm -rf .venv .turngate .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage*
