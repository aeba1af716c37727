# Every step that a person runs has a name here; CI and the workflows run the same ones.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# Programs of crates.io that steps need: built once by tools/get-cargo-tool and kept in the cache.
CARGO_DENY := cargo-deny 0.20.2
CARGO_NEXTEST := cargo-nextest 0.9.151
CARGO_FUZZ := cargo-fuzz 0.13.2

.PHONY: help try test nextest doctest msrv lint fmt purity words cycles sizes deny advisories crds docs \
	explore sweep fuzz fuzz-replay kubectl e2e e2e-parts bench bench-load

help: ## List the targets
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

try: ## Play a good release and a bad one on a cluster in memory
	cargo run --release -- try

test: ## Run every test; needs no network once dependencies are fetched
	cargo test

nextest: ## Run every test but doctests with nextest: slow at 10 s, killed at 120 s; PROFILE=ci writes a report
	nextest=$$(tools/get-cargo-tool $(CARGO_NEXTEST)); \
	PATH="$$(dirname "$$nextest"):$$PATH" cargo nextest run --workspace --exclude tidegate-e2e --profile $${PROFILE:-default}

doctest: ## Run the examples in the documentation of the code
	cargo test --workspace --exclude tidegate-e2e --doc

# As Cargo.toml says it: the oldest compiler that has to work.
MSRV = $(shell sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
msrv: ## Compile everything with the oldest Rust that is supported
	toolchain=$$(rustup toolchain list | grep -oE '^$(MSRV)(\.[0-9]+)?' | head -1 || true); \
	[ -n "$$toolchain" ] || rustup toolchain install $(MSRV) --profile minimal; \
	cargo "+$${toolchain:-$(MSRV)}" check --workspace --all-targets --locked

lint: fmt purity words cycles sizes ## Format, purity, words, cycles, sizes, and clippy with warnings as errors
	cargo clippy --workspace --all-targets -- -D warnings

fmt:
	cargo fmt --all --check

purity: ## Fail when engine or providers gain a dependency that is not on their list
	tools/check-purity

# The scripts of the next three may be missing in an older checkout.
words: ## Fail when comments or pages are not in the words of Kubernetes (tools/check-words)
	[ ! -x tools/check-words ] || { tools/check-words --self-test && tools/check-words; }

cycles: ## Fail when files of a module import each other in a circle (tools/module-cycles)
	[ ! -x tools/module-cycles ] || { tools/module-cycles --self-test && tools/module-cycles; }

sizes: ## Fail when a file or a function is too long (tools/check-sizes)
	[ ! -x tools/check-sizes ] || { tools/check-sizes --self-test && tools/check-sizes; }

deny: ## Check licences, sources and duplicates of dependencies (deny.toml)
	deny=$$(tools/get-cargo-tool $(CARGO_DENY)); "$$deny" --locked check licenses bans sources

advisories: ## Check dependencies against known vulnerabilities; needs GitHub
	deny=$$(tools/get-cargo-tool $(CARGO_DENY)); "$$deny" --locked check advisories

crds: ## Write deploy/crds from the code
	UPDATE_CRDS=1 cargo test --package tidegate-tests --test crds

docs: ## Write docs/reference from the code
	UPDATE_DOCS=1 cargo test --package tidegate-tests --test docs

CASES ?= 2000
explore: ## Try other cases of every property and fuzz target; CASES=20000 for more, SEED=7 to repeat
	seed=$${SEED:-$$(date +%s)}; echo "SEED=$$seed CASES=$(CASES)"; \
	PROPTEST_RNG_SEED=$$seed PROPTEST_CASES=$(CASES) SIMULATED_STORIES=$(CASES) cargo test --workspace --exclude tidegate-e2e --lib --no-fail-fast; \
	FUZZ_SEED=$$seed FUZZ_ROUNDS=$(CASES) cargo test --workspace --test replay

fuzz-replay: ## Replay the corpus of every fuzz target, and edits of it; FUZZ_ROUNDS=1000 for more, FUZZ_SEED=7 for others
	cargo test --workspace --test replay

FUZZ_SECONDS ?= 60
fuzz: ## Fuzz with cargo-fuzz on nightly; TARGET=promql chooses one, FUZZ_SECONDS=600 is for each
	fuzz=$$(tools/get-cargo-tool $(CARGO_FUZZ)); export PATH="$$(dirname "$$fuzz"):$$PATH"; \
	cp Cargo.lock fuzz/Cargo.lock; \
	for target in $${TARGET:-$$(ls fuzz/corpus)}; do \
		mkdir -p "target/fuzz-corpus/$$target"; \
		cargo +nightly fuzz run "$$target" "target/fuzz-corpus/$$target" "fuzz/corpus/$$target" -- \
			-max_total_time=$(FUZZ_SECONDS) -timeout=10 -rss_limit_mb=2048 -max_len=16384; \
	done

kubectl: ## Run kubectl against the sandbox; KUBECTL=path chooses one
	tests/kubectl/run

e2e: ## Run the suites on a real Kubernetes, Traefik, Prometheus, Graphite and InfluxDB; SUITES=operator chooses
	tests/e2e/run $(SUITES)

e2e-parts: ## Obtain the real programs that e2e runs; builds Kubernetes the first time
	tests/e2e/get

SWEEP ?= essential
sweep: ## Cut every rollout of canaries and game workloads at every write; SWEEP=all for every router, SWEEP=3 for every third cut
	SWEEP=$(SWEEP) cargo test --release --test sweep --test game -- --nocapture cut_at_any_write

bench: ## Measure engine and sandbox: rollouts a minute; start-up, writes, watches, memory
	cargo build --release --bin tidegate
	cargo bench --package tidegate-tests --bench engine --bench sandbox

bench-load: ## Compare the load generator with hey and wrk: requests a second per core, latency under a set rate
	tools/bench-load
