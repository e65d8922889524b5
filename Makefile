# Each target makes sure that .venv has what it needs; PYTHON=/path/to/python3.11 chooses the
# interpreter, ARGS="…" adds arguments to serve, demo and bench.

BIN := .venv/bin
SERVER := .venv/.stamp-server
TOOLS := .venv/.stamp-test
INPUTS := pyproject.toml constraints.txt scripts/install
export PYTHON

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help demo serve bench test check docs unit integration slow soak clean

help: ## Show the targets
	@grep -E '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## (.*)/make \1|\2/' | \
		while IFS='|' read -r target what; do printf '  %-18s %s\n' "$$target" "$$what"; done

demo: $(SERVER) ## Transcribe real speech on a server of its own, rescoring off and on
	@$(BIN)/conch demo $(ARGS)

serve: $(SERVER) ## Run the server on 127.0.0.1:8000 until Ctrl-C
	@$(BIN)/conch serve $(ARGS)

bench: $(TOOLS) ## Measure everything, into bench-results (ARGS="suite --help" tells how)
	@$(BIN)/python -m lab $(or $(ARGS),suite --manifest tests/data/manifest.tsv --runs 1 --rate 1 \
		--streams 4 --seconds 10 --folder bench-results)

test: check unit integration ## Lint, types, unit tests and server tests

check: $(TOOLS) docs ## Lint, format, types and docs
	@echo "conch: lint, format and types"
	@$(BIN)/ruff check --quiet .
	@$(BIN)/ruff format --check --quiet . || \
		{ echo "conch: not formatted; run $(BIN)/ruff format ." >&2; exit 1; }
	@$(BIN)/mypy
	@scripts/check_models $(BIN)/mypy

docs: $(TOOLS) ## Build the documentation into site/, and check its links
	@echo "conch: docs"
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict
	@$(BIN)/python scripts/check_links.py

unit: $(TOOLS) ## Tests that need no server
	@echo "conch: unit tests"
	@$(BIN)/python -m pytest -q -m "not server and not slow" $(ARGS)

integration: $(TOOLS) ## Tests against a real tritonserver
	@echo "conch: server tests"
	@$(BIN)/python -m pytest -q -m "server and not slow" $(ARGS)

soak: $(TOOLS) ## Streams at random for five minutes (SOAK_S=3600 for an hour; not part of test)
	@SOAK_S=$(or $(SOAK_S),300) $(BIN)/python -m pytest -q -s tests/integration/test_soak.py $(ARGS)

slow: $(TOOLS) ## An hour of audio in one request, long benchmarks (not part of test)
	@$(BIN)/python -m pytest -q -m slow $(ARGS)

clean: ## Remove .venv, caches and build outputs
	@rm -rf .venv .install.lock .mypy_cache .ruff_cache .pytest_cache build dist site
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(SERVER): $(INPUTS)
	@scripts/install server

$(TOOLS): $(INPUTS)
	@scripts/install test
