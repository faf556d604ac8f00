# The commands of everyday work. Each does its own set-up; `make demo` installs nothing.

CARGO ?= cargo

.PHONY: demo deb test soak ublk-test lint bench bench-live bench-plan fuzz

# Builds, compares every scheme on the embedded sample trace for a volume of 8 TB, prints the table and writes report.html.
demo:
	@command -v $(CARGO) >/dev/null || { echo "make demo: Rust is missing. Install it with one line, then run make demo again:" && \
	  echo "  curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh -s -- -y && . ~/.cargo/env" && exit 1; } >&2
	$(CARGO) run --release --locked --quiet --package bimetal -- compare --capacity 8TB --report report.html

# Packs the program, its manual pages, completions and systemd's units: target/bimetal_VERSION_ARCH.deb.
deb:
	$(CARGO) build --release --locked --package bimetal
	scripts/deb target/release/bimetal target

# Runs every test; installs the packages that they need, or says what to type. BIMETAL_REQUIRE_ALL=1: no skips.
test:
	CARGO="$(CARGO)" scripts/test

# Draws ten times as many cases of every property, measures the models of drives of all sizes, trains
# the planner's regression anew, kills the server twenty times under each file system, runs 20,000
# seeds of every scheme from a random start (printed first), and runs 100,000 mutants of the sample
# traces through the commands that read one.
soak:
	BIMETAL_SOAK=20 PROPTEST_CASES=2560 $(CARGO) test --workspace --lib --locked
	BIMETAL_PAPERS=trained $(CARGO) test --package bimetal-papers --test page --locked
	BIMETAL_SOAK=20 $(CARGO) test --package bimetal --test power_cuts --locked -- --nocapture
	$(CARGO) run --release --locked --package bimetal -- fault --from random --seeds 20000
	$(CARGO) build --release --locked --package bimetal
	$(CARGO) run --release --locked --package bimetal --example mutants -- target/release/bimetal 100000

# Serves a volume by ublk in a kernel that has it, booted in qemu: KERNEL_DEB=linux-image-6.12….deb
ublk-test:
	CARGO="$(CARGO)" scripts/ublk-test

# What a change must pass besides the tests: format, clippy, documentation.
lint:
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	$(CARGO) fmt --manifest-path python/Cargo.toml --check
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --locked

# Tables of speed and memory, each figure beside what it is to reach: the program, and the flash model alone.
bench:
	$(CARGO) bench --package bimetal --bench speed --locked
	$(CARGO) bench --package bimetal-models --bench flash --locked

# Speed of serving beside qemu-nbd and nbdkit (packages qemu-utils, nbdkit, fio), on equal files below BENCH_DIR; how soon
# a full cache is back after a crash; live response times over emulated drives beside simulated ones.
bench-live:
	$(CARGO) bench --package bimetal-serve --bench serve --locked
	$(CARGO) bench --package bimetal-volumes --bench restart --locked
	$(CARGO) build --release --package bimetal --locked
	scripts/bench-live-replay

# The planner on real traces: against an exhaustive search (an hour and more), and against MixCP where TRACES are given.
bench-plan:
	$(CARGO) build --release --package bimetal --locked
	scripts/bench-plan

# Fuzzes every parser for FUZZ_SECONDS each.
FUZZ_SECONDS ?= 60
fuzz:
	CARGO="$(CARGO)" scripts/fuzz $(FUZZ_SECONDS)
