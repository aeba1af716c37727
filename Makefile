# Every step a person runs has a name here; CI runs the same ones.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

.PHONY: help try test lint fmt purity crds docs explore sweep kubectl e2e e2e-parts bench bench-load

help: ## List the targets
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

try: ## See a good release and a bad one on a cluster in memory
	cargo run --release -- try

test: ## Run every test; needs no network once dependencies are fetched
	cargo test

lint: fmt purity ## Format, clippy with warnings as errors, purity of engine and providers
	cargo clippy --workspace --all-targets -- -D warnings

fmt:
	cargo fmt --all --check

purity: ## Fail when engine or providers gain a dependency they must not have
	tools/check-purity

crds: ## Write deploy/crds from the code
	UPDATE_CRDS=1 cargo test --package tidegate-tests --test crds

docs: ## Write docs/reference from the code
	UPDATE_DOCS=1 cargo test --package tidegate-tests --test docs

CASES ?= 2000
explore: ## Try other cases of every property than `cargo test` does; CASES=20000 for more, SEED=7 to repeat
	seed=$${SEED:-$$(date +%s)}; echo "SEED=$$seed CASES=$(CASES)"; \
	PROPTEST_RNG_SEED=$$seed PROPTEST_CASES=$(CASES) SIMULATED_STORIES=$(CASES) cargo test --workspace --exclude tidegate-e2e --lib --no-fail-fast

kubectl: ## Run kubectl against the sandbox; KUBECTL=path chooses one
	tests/kubectl/run

e2e: ## Run the suites on a real Kubernetes, Traefik, Prometheus, Graphite and InfluxDB; SUITES=operator chooses
	tests/e2e/run $(SUITES)

e2e-parts: ## Obtain the real programs that e2e runs; builds Kubernetes the first time
	tests/e2e/get

SWEEP ?= essential
sweep: ## Cut every rollout and every game story at every write; SWEEP=all over every road, SWEEP=3 every third cut
	SWEEP=$(SWEEP) cargo test --release --test sweep --test game -- --nocapture cut_at_any_write

bench: ## Measure engine and sandbox: rollouts a minute; start-up, writes, watches, memory
	cargo build --release --bin tidegate
	cargo bench --package tidegate-tests --bench engine --bench sandbox

bench-load: ## Compare the load generator with hey and wrk: requests a second per core, latency under a set rate
	tools/bench-load
