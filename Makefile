# Everyday commands. `make` alone lists them.

CARGO  ?= cargo
TARGET := $(or $(CARGO_TARGET_DIR),target)
HARN   := $(TARGET)/release/harn
# Seconds per fuzz target.
S      ?= 60
ROUNDS ?= 5

# The interpreter is faster if each instruction ends with a separate jump to the next one. LLVM duplicates the jump only if its
# limits on code size, which save compile time, are raised. A compiler without these options builds without them.
DISPATCH := $(foreach limit,pred succ,-Cllvm-args=-tail-dup-$(limit)-size=1000)
# These symbol names include type parameters, so start.ld can name the instances that run at start-up.
NAMES    := -Csymbol-mangling-version=v0
FAST      = $(strip $(RUSTFLAGS) $(NAMES) $(shell rustc $(DISPATCH) --print target-cpus >/dev/null 2>&1 && echo $(DISPATCH)))

.DEFAULT_GOAL := help
.PHONY: help rustflags build dist run test test-every-case test-fast test-real-server python conformance kill kill-agents flips workers postgres replays check check-changed check-parts tools \
        fmt harn-fmt lint words lint-no-rust-prompt-prose rustdoc docs book bench bench-limit bench-picture bench-agents bench-runs bench-queues bench-sessions bench-frameworks soak bench-quick watchdog fuzz asan snap clean \
        lsp-test acp-test wire-types tree-sitter models

help: ## list these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-26s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## build the release binary, target/release/harn
	RUSTFLAGS="$(FAST)" $(CARGO) build --release --package harn-cli

rustflags: ## print the RUSTFLAGS of the release builds
	@echo $(FAST)

dist: ## build the release binary with link-time optimization, target/dist/harn: slightly faster, slow to build
	RUSTFLAGS="$(FAST)" $(CARGO) build --profile dist --package harn-cli

run: build ## review a directory with an agent, on recorded model replies
	$(HARN) run examples/review_folder.harn

# The tests include the conformance suite, the examples, the programs in the docs, a short fuzz run, and a check that
# the generated pages are up to date.
test: ## run all tests
	$(CARGO) test --workspace

test-every-case: ## run all tests; those that take a sample of their cases take all of them
	HARN_EVERY_CASE=1 $(CARGO) test --workspace

test-fast: ## run the unit tests only
	$(CARGO) test --workspace --lib

# Third-party model servers, installed in the target directory. Of the tests, only this target uses the network.
REAL_SERVERS := $(abspath $(TARGET))/real-servers

test-real-server: ## install third-party model and MCP servers, and call them
	test -x $(REAL_SERVERS)/venv/bin/litellm || { python3 -m venv $(REAL_SERVERS)/venv && \
	  $(REAL_SERVERS)/venv/bin/pip install --quiet 'litellm[proxy]==1.106.2'; }
	test -x $(REAL_SERVERS)/mcp/bin/python || { python3 -m venv $(REAL_SERVERS)/mcp && \
	  $(REAL_SERVERS)/mcp/bin/pip install --quiet 'mcp==2.3.0'; }
	test -x $(REAL_SERVERS)/npm/node_modules/.bin/mcp-server-everything || \
	  npm install --silent --no-audit --no-fund --prefix $(REAL_SERVERS)/npm @copilotkit/aimock@1.43.0 \
	    @modelcontextprotocol/sdk@1.32.2 @modelcontextprotocol/server-everything@2026.8.31
	HARN_REAL_SERVERS=$(REAL_SERVERS) $(CARGO) test --workspace --test it real_server -- --nocapture

replays: build ## run all conformance cases with a journal, replay them, both also with delays, and kill (20 times, N) and resume them
	$(HARN) test conformance --journal --kills $(or $(N),20) --timeout 300000

# Only the wheel needs Python: the crate is checked and tested without it. PROFILE=dev builds faster, for work on it.
PYTHON  ?= python3
PROFILE ?= release
VENV    ?= $(abspath $(TARGET))/tools/python

python: ## build the Python package (a wheel in target/python/wheels) and run its tests
	test -x $(VENV)/bin/maturin -a -x $(VENV)/bin/pytest || { $(PYTHON) -m venv $(VENV) && \
	  $(VENV)/bin/pip install --quiet -r python/requirements-check.txt; }
	rm -rf $(abspath $(TARGET))/python/wheels
	cd python && VIRTUAL_ENV=$(VENV) CARGO_TARGET_DIR=$(abspath $(TARGET)) $(VENV)/bin/maturin build --profile $(PROFILE) \
	  --interpreter $(VENV)/bin/python --out $(abspath $(TARGET))/python/wheels
	$(VENV)/bin/pip install --quiet --force-reinstall --no-deps $(abspath $(TARGET))/python/wheels/*.whl
	cd $(abspath $(TARGET))/python && $(VENV)/bin/pytest -p no:cacheprovider -c $(CURDIR)/python/pyproject.toml $(CURDIR)/python/tests $(PYTEST)

lsp-test: build ## test the language server with pytest-lsp; MS=30 also limits the response times
	@HARN=$(abspath $(HARN)) LSP_MS=$(MS) .ci/check lsp

acp-test: build ## serve a program over ACP to the client of the official Python package
	@HARN=$(abspath $(HARN)) .ci/check acp

wire-types: ## validate all requests and replies of the tests with the official SDKs' types; N random histories per format
	@rm -rf $(abspath $(TARGET))/wire-log
	@$(if $(N),HARN_WIRE_HISTORIES=$(N)) .ci/check wire_types

# Without `--package`, so that nothing is compiled with other features than for the tests.
tree-sitter: ## generate, compile and test the tree-sitter grammar (needs node and a C compiler); UPDATE=1 writes the corpus
	$(CARGO) run --quiet --bin tree-sitter-harn-tool -- \
	  $(CURDIR) $(abspath $(TARGET))/tree-sitter $(if $(UPDATE),--update) $(FILES)

workers: ## share 1,000 runs (N) between two workers that are killed repeatedly, and stop one beyond its lease; on SQLite and, if installed, PostgreSQL
	HARN_RUNS=$(or $(N),1000) $(CARGO) test --package harn-cli --test it -- two_workers_share a_process_that_was_stopped \
	  --nocapture --test-threads 1

# Each test starts a separate server in a directory below /tmp; under root, as the user `postgres`.
postgres: ## install PostgreSQL from Debian's packages if it is missing, and run the tests of the store on it
	@ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || command -v initdb >/dev/null || \
	  { echo "installing PostgreSQL"; if [ "$$(id -u)" = 0 ]; then apt-get install --yes postgresql; else sudo apt-get install --yes postgresql; fi; }
	@.ci/check postgres

kill: ## kill programs and stop workers at any moment, 200 times (N) each, also inside streams and split bodies, and check that nothing acknowledged is lost
	HARN_KILLS=$(or $(N),200) $(CARGO) test --package harn-cli --test it -- --nocapture kill drain::

flips: ## flip a bit of a store 10,000 times (N): each resumed run is correct or ends with an error, and repeats no effect
	HARN_FLIPS=$(or $(N),10000) $(CARGO) test --package harn-cli --test it flipped -- --nocapture

kill-agents: ## kill an agent with parallel tools, sub-agents and an approval 1,000 times
	HARN_KILLS=1000 $(CARGO) test --package harn-cli --test it an_agent_with_everything -- --nocapture

conformance: build ## run the conformance suite; F=text selects cases
	$(HARN) test conformance $(if $(F),--filter '$(F)')

# `.ci/check` lists the parts; PARTS chooses some of them, as in `make check PARTS="clippy tests"`.
check: ## check every part of the project, as CI does, and print the parts that passed, failed or were skipped
	@.ci/check $(PARTS)

check-changed: ## check the parts that the changes since the last complete check (or BASE) can affect
	@.ci/check --changed $(BASE)

check-parts: ## break each part in a scratch copy and verify that `make check` fails
	@.ci/break-parts $(PARTS)

tools: ## build mdBook into the target directory, for the part `book`
	test -x $(TARGET)/tools/bin/mdbook || $(CARGO) install --quiet --locked --debug --no-default-features --features search --root $(TARGET)/tools mdbook@0.5.4

fmt: ## format the Rust code
	$(CARGO) fmt --all

harn-fmt: ## format the Harn code of the repository
	$(CARGO) run --quiet --package harn-cli -- fmt examples stdlib

lint: ## run clippy and the check of prose in Rust code
	@.ci/check prose clippy

words: ## count idioms that should be standard terms, in docs, comments and messages
	$(CARGO) test --workspace --quiet --test it -- words:: --nocapture

lint-no-rust-prompt-prose: ## fail if Rust code contains prose for a model
	@.ci/lint-prompt-prose

rustdoc: ## build the documentation of the Rust code, with warnings as errors
	@.ci/check docs

# The newest model list of LiteLLM (MIT), reduced by `harn models update`. This target uses the network.
MODELS := $(abspath $(TARGET))/models

models: build ## regenerate the table of models from the newest LiteLLM on PyPI
	rm -rf $(MODELS) && mkdir -p $(MODELS)
	$(PYTHON) -m pip download --quiet --no-deps --dest $(MODELS) litellm
	cd $(MODELS) && $(PYTHON) -m zipfile -e litellm-*.whl .
	$(HARN) models update $(MODELS)/litellm/model_prices_and_context_window_backup.json \
	  --origin "litellm $$(basename $(MODELS)/litellm-*.whl | cut -d- -f2)" --output crates/harn-llm/src/data/models.tsv

docs: ## write the generated pages of the book (the builtin reference)
	$(CARGO) run --quiet --package harn-cli -- explain --reference docs/reference

book: tools ## build the book as a site with search, target/book
	@.ci/check book

bench: build ## time the programs of benches/ against Lua 5.4 and CPython
	python3 benches/run.py --harn $(HARN) --rounds $(ROUNDS) --json benches/out/latest.json

bench-limit: build ## run `bench`, and fail if a ratio is worse than in benches/results.json
	python3 benches/run.py --harn $(HARN) --rounds $(ROUNDS) --against benches/results.json

bench-picture: ## draw the chart of the README from the results of `make bench`
	cp benches/out/latest.json benches/results.json
	python3 benches/chart.py benches/results.json docs/images/speed.svg

bench-agents: ## measure agent loops: CPU, memory, connections (G=turns, crowd, waiting, row, kept, daemons, children or stages for one group)
	RUSTFLAGS="$(FAST)" $(CARGO) bench --package harn-cli --bench agents -- $(G)

bench-runs: build ## measure durable runs: the journal per effect, agent turns, resuming; OTHERS=1 also LangGraph and DBOS, from PyPI
	python3 benches/runs/run.py --harn $(HARN) $(if $(OTHERS),--others)

bench-queues: build ## measure queues of short runs on PostgreSQL, Harn and DBOS in turn (N jobs): submission, completion, CPU, memory, size
	python3 benches/queues/run.py --harn $(HARN) --jobs $(or $(N),1000)

bench-sessions: build ## measure stored sessions: turns of a long one (N), its size, and 5,000 sessions
	python3 benches/sessions/run.py --harn $(HARN) --turns $(or $(N),10000)

soak: build ## run six processes side by side for 10 minutes (M), and print how memory, open files and disk grow
	python3 benches/soak/run.py --harn $(HARN) --minutes $(or $(M),10)

bench-frameworks: build ## measure one agent in Harn, LangGraph, Pydantic AI, OpenAI Agents SDK, AI SDK and rig (N rounds), from their registries
	$(PYTHON) benches/frameworks/run.py --harn $(HARN) $(if $(N),--rounds $(N)) --json benches/out/frameworks.json

bench-quick: build ## run `bench` with fewer measurements
	python3 benches/run.py --harn $(HARN) --quick

watchdog: build ## call all builtins and methods with large and hostile data; N=5
	HARN_TEST_BINARY=$(abspath $(HARN)) HARN_WATCHDOG=$(or $(N),5) \
	  $(CARGO) test --package harn-cli --package harn-runtime --test it -- --nocapture watchdog bulk_work

fuzz: ## fuzz all readers of untrusted input; S=seconds each, T=target for one of them
	$(CARGO) run --release --package harn-fuzz -- --seconds $(S) $(T)

asan: ## run conformance, random programs (COUNT) and the VM fuzzer (S seconds) under a memory checker
	@CARGO="$(CARGO)" .ci/asan

snap: ## accept changed snapshots: run the tests and overwrite them
	INSTA_UPDATE=always $(CARGO) test --workspace

clean: ## remove build output
	$(CARGO) clean
	rm -rf benches/out fuzz/artifacts
