# Every target shares one virtual environment, .venv, made on first use.
PYTHON ?= python3
PORT ?= 8000
BIN := .venv/bin
# Where the environment forbids bytecode, every process would compile the whole service once more.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: install tools demo serve test postgres15 bench mutants faults audit fuzz fmt lint types imports unit lock clean

install: .venv/.installed

# The lock is complete, so nothing is resolved; what is never imported is never compiled. Twice
# quiet, pip tells errors and not what it passes over on the way.
.venv/.installed: requirements-dev.lock pyproject.toml
	@echo "Installing into .venv, once; it takes about a minute."
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install -qq --disable-pip-version-check --no-deps --no-compile --require-hashes -r requirements-dev.lock
	@$(BIN)/python -m pip install -qq --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

tools: .tools/.installed

# Programs that the tests run: client generators, a fuzzer, an auditor. Without npm the TypeScript
# client is not tested.
.tools/.installed: requirements-tools.lock tests/clients/package-lock.json
	@echo "Installing into .tools, once."
	@test -x .tools/bin/python || $(PYTHON) -m venv .tools
	@.tools/bin/python -m pip install -qq --disable-pip-version-check --no-deps --no-compile --require-hashes -r requirements-tools.lock
	@cp tests/clients/package.json tests/clients/package-lock.json .tools/
	@npm ci --prefix .tools --no-audit --no-fund --silent || echo "npm installs nothing here; the TypeScript client is not tested."
	@touch $@

demo: install
	$(BIN)/turngate demo

serve: install
	$(BIN)/turngate serve --print-token --port $(PORT)

test: install tools lint types imports unit audit

lint:
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types:
	$(BIN)/mypy

imports:
	$(BIN)/lint-imports

unit:
	$(BIN)/coverage erase
	$(BIN)/coverage run -m pytest -n auto --dist loadfile
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage report --fail-under=95 --skip-covered --sort=cover
	$(BIN)/coverage report --fail-under=100 --skip-covered --include="app/policy/*,app/engine/*,app/trust/*"

# Whole suites on the oldest Postgres that is promised, which Debian calls postgresql-15:
# make postgres15 SUITES="tests/store tests/service". What starts an embedded server stays away.
SUITES ?= tests/store tests/service/approvals tests/service/runs
postgres15: install
	$(BIN)/python -m pytest -q -n auto --dist loadfile --postgres=15 --ignore-glob='*/test_embedded*' $(SUITES)

bench: install
	$(BIN)/turngate bench

# Takes an hour or two on two cores, MODULES="app/trust/decision.py" minutes; says which conditions of the gate
# no test holds.
mutants: install tools
	$(BIN)/python -m bench.mutants $(MODULES)

# Breaks each rule of a turn on purpose, INVARIANTS="I9 I21" some of them; says which breach no
# machine notices. Takes minutes.
faults: install
	$(BIN)/python -m bench.faults $(INVARIANTS)

# Says so where the advisories cannot be reached; then nothing was audited, and nothing fails.
audit: install tools
	$(BIN)/python -m bench.advisories

# The API against its description for ten minutes, where `make test` takes less than one.
fuzz: install tools
	$(BIN)/python -m pytest tests/hostile/test_fuzzing.py --fuzz-seconds=600

fmt: install
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

lock:
	uv pip compile pyproject.toml --extra s3 --python-version 3.11 --universal --generate-hashes --no-annotate --no-header -o requirements.lock
	uv pip compile --group build --python-version 3.11 --universal --generate-hashes --no-annotate --no-header -o requirements-build.lock
	uv pip compile pyproject.toml --group dev --python-version 3.11 --universal --generate-hashes --no-annotate --no-header -o requirements-dev.lock
	uv pip compile --group tools --python-version 3.11 --universal --generate-hashes --no-annotate --no-header -o requirements-tools.lock
	cd tests/clients && npm install --package-lock-only --omit-lockfile-registry-resolved

clean:
	rm -rf .venv .tools .turngate .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis .coverage*
	find . -name __pycache__ -prune -exec rm -rf {} +
