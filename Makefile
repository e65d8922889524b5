# Each target makes sure that .venv has what it needs; PYTHON=/path/to/python3.11 chooses the
# interpreter, ARGS="…" adds arguments to serve, demo, bench and the tests.

BIN := .venv/bin
SERVER := .venv/.stamp-server
TOOLS := .venv/.stamp-test
INPUTS := pyproject.toml constraints.txt scripts/install
PYTEST := $(BIN)/python -m pytest -q
# Which tests stay together: tests/conftest.py.
WORKERS := --dist loadgroup -n logical --maxprocesses 8
# What runs on Python 3.10 too.
CLIENT := $(wildcard src/conch/*.py src/conch/families/*.py $(addprefix src/conch/families/*/,__init__.py folder.py)) \
	src/conch/families/moonshine/weights.py \
	$(addprefix src/conch/,wire session client audio catalogue component scoring bench bulk cli gateway)
UNIT := -m "not server and not nightly"
# Each of the workers imports every file: those without such a test would take a third of that time.
SERVER_TESTS = $(sort $(shell grep -rl --include='test_*.py' 'mark\.server' \
	$(addprefix tests/,gateway integration launcher) | xargs grep -L '^pytestmark.*nightly'))
# int8 as on a processor without VNNI, by oneDNN: 16-bit sums saturate there. MKL=1 takes MKL instead,
# which is Intel's own choice, and some eight times slower on AMD.
OTHER_CPU := CT2_USE_MKL=$(or $(MKL),0) ONEDNN_MAX_CPU_ISA=AVX2 CT2_FORCE_CPU_ISA=GENERIC \
	ATEN_CPU_CAPABILITY=default
INT8_TESTS := $(addprefix tests/families/whisper/,test_decoder.py test_encoder.py) \
	$(addprefix tests/families/smollm2/,test_gguf_model.py test_rescorer.py) \
	tests/families/smollm2/test_model.py::test_int8_chooses_texts_as_float32_does
# A thread for each worker: more would wait for each other, at four times the price.
unit other-cpu coverage: export OMP_NUM_THREADS := 1
export PYTHON
# Where the caller forbids it, each of some hundred processes would compile Conch anew.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
# Tests have deadlines: `make -j test` runs one kind after the other, as without -j.
.NOTPARALLEL:
.PHONY: help demo serve bench test check docs unit other-cpu integration nightly clients flaky soak chaos \
	image-test coverage bulk-env bulk-test wheel clean

help: ## Show the targets
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/make \1|\2/' | \
		while IFS='|' read -r target what; do printf '  %-18s %s\n' "$$target" "$$what"; done

demo: $(SERVER) ## Transcribe real speech on a server of its own, rescoring off and on, and speak it
	@$(BIN)/conch demo $(ARGS)

serve: $(SERVER) ## Run the server and its page on http://127.0.0.1:9000 until Ctrl-C
	@$(BIN)/conch serve $(ARGS)

bench: $(TOOLS) ## The main benchmarks, into bench-results (`.venv/bin/python -m lab --help` has all)
	@mkdir -p bench-results
	@for what in "orchestration --runs 1 --rate 1 --plot bench-results" "offline" \
		"live --streams 4 --seconds 10"; do \
		$(BIN)/python -m lab $$what --manifest $(or $(MANIFEST),tests/data/manifest.tsv) $(ARGS) \
			--json bench-results/$${what%% *}.json --markdown bench-results/$${what%% *}.md || exit; \
	done

test: check unit other-cpu integration ## Lint, types, unit tests and server tests

# mypy keeps a cache for each Python, so that two runs may share the folder.
check: $(TOOLS) ## Lint, format, types, docs and deploy/kubernetes
	@echo "conch: lint, format and types"
	@$(BIN)/ruff check --quiet .
	@$(BIN)/ruff format --check --quiet . || \
		{ echo "conch: not formatted; run $(BIN)/ruff format ." >&2; exit 1; }
	@{ $(BIN)/mypy && scripts/check_models $(BIN)/mypy; } & types=$$!; \
		$(BIN)/mypy --python-version 3.10 --follow-imports=silent $(CLIENT) && \
		$(MAKE) --no-print-directory docs && $(BIN)/python scripts/check_kubernetes.py; others=$$?; \
		wait $$types && exit $$others

docs: $(TOOLS) ## Build the documentation into site/, and check its links
	@echo "conch: docs"
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict
	@$(BIN)/python scripts/check_links.py

# A worker more than cores: a fifth of the time, tests wait for a clock, a browser or a process.
unit: $(TOOLS) ## Tests that need no server
	@echo "conch: unit tests"
	@$(PYTEST) $(WORKERS) -n $$(($$(nproc) + 1)) $(UNIT) $(ARGS)

other-cpu: $(TOOLS) ## Unit tests of int8 again, as on a weaker processor (MKL=1: by Intel's library)
	@echo "conch: unit tests of int8, as on another processor"
	@$(OTHER_CPU) $(PYTEST) $(WORKERS) -m "not nightly" -k "not faster_whisper" $(INT8_TESTS)

# Four on two cores: tests wait for servers that start, and for audio as fast as it is spoken.
integration: $(TOOLS) ## Tests against a real tritonserver
	@echo "conch: server tests"
	@$(PYTEST) --dist loadgroup -n 4 -m "server and not nightly" $(or $(ARGS),$(SERVER_TESTS))

nightly: $(TOOLS) ## What takes longer: streams at random, hours of audio, GPU configs, every Python
	@$(PYTEST) -m nightly $(ARGS)

clients: $(TOOLS) ## The client and all of Conch in new environments of every Python found here
	@$(PYTEST) tests/integration/test_pythons.py tests/gateway/test_voice_agents.py $(ARGS)

flaky: $(TOOLS) ## Tests several times beside busy loops: which outcomes differ (ARGS="--help")
	@$(BIN)/python scripts/flaky.py $(ARGS)

soak: $(TOOLS) ## Streams at random for five minutes (SOAK_S=3600 for an hour)
	@SOAK_S=$(or $(SOAK_S),300) $(PYTEST) -s tests/integration/test_soak.py $(ARGS)

chaos: $(TOOLS) ## Attack a server: hostile requests, overload, kills (15 minutes; ARGS="--seed 7")
	@$(BIN)/python -m lab chaos $(ARGS)

image-test: ## Build the CPU image with buildah, run it, report size and start (root)
	@$(or $(PYTHON),python3) scripts/image_test.py $(ARGS)

coverage: $(TOOLS) ## Which lines the unit tests run, into htmlcov
	@$(PYTEST) $(WORKERS) $(UNIT) --cov=conch --cov-report=html --cov-report=term:skip-covered $(ARGS)

bulk-env: .venv-bulk/.stamp ## What conch bulk needs, into .venv-bulk: Ray, and no server

bulk-test: bulk-env ## conch bulk on a Ray cluster of three nodes, S3 and a real server, if .venv has one
	@.venv-bulk/bin/python -m pytest -q tests/bulk $(ARGS)

.venv-bulk/.stamp: pyproject.toml constraints-bulk.txt
	@$(or $(PYTHON),python3) -m venv .venv-bulk
	@.venv-bulk/bin/pip install -q -c constraints-bulk.txt -e '.[bulk]' 'moto[server]' pytest \
		pytest-timeout s3fs
	@.venv-bulk/bin/pip install -q --no-deps -c constraints-bulk.txt silero-vad
	@touch $@

wheel: ## Build the wheel, into dist
	@$(or $(PYTHON),python3) -m pip wheel -q --no-deps -w dist .

clean: ## Remove .venv, caches and build outputs
	@rm -rf .venv .venv-bulk .install.lock .mypy_cache .ruff_cache .pytest_cache .coverage htmlcov build dist site \
		tests/gateway/node/node_modules
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(SERVER): $(INPUTS)
	@scripts/install server

$(TOOLS): $(INPUTS) $(wildcard tests/gateway/node/package*.json) tests/gateway/openai-older.txt
	@scripts/install test
