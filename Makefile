# Every task of this repository. `make help` lists them.
# A cargo target folder of its own goes in CARGO_TARGET_DIR, as usual.

CARGO ?= cargo
XTASK := $(CARGO) run --quiet --package xtask --
XTASK_RELEASE := $(CARGO) run --quiet --release --package xtask --
LAB := $(CARGO) run --quiet --package lab --
LAB_RELEASE := $(CARGO) run --quiet --release --package lab --
export CARGO_TERM_COLOR ?= auto

PREFIX ?= /usr/local
# The release build, as a shell expands it.
RELEASE = $${CARGO_TARGET_DIR:-target}/release/gannet
DEBS = $${CARGO_TARGET_DIR:-target}/debian

.PHONY: help run test check install deb test-deb bench load-accuracy load-agree lab-numa dax prove-irq bench-tls bench-grpc bench-graph bench-hub bench-gate replay soak torture policy fuzz loom asan miri valgrind docs

help: ## list the targets
	@grep -E '^[a-z-]+:.*## ' Makefile | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 18

run: ## build the release server and start it on its defaults; it says where it listens and how to try it
	$(CARGO) build --release --bin gannet
	@"$${CARGO_TARGET_DIR:-target}/release/gannet" serve

install: ## build and install below PREFIX (/usr/local), with man pages, completions and a systemd unit; DESTDIR is prepended
	$(CARGO) build --release --bin gannet
	@packaging/install.sh "$(RELEASE)" "$(DESTDIR)" "$(PREFIX)"

deb: ## build gannet_*.deb, and gannet-dbgsym_*.deb with the debug symbols, in target/debian
	$(CARGO) build --release --bin gannet
	@packaging/build-deb.sh "$(RELEASE)" "$(DEBS)"

test-deb: deb ## lintian; install, serve, upgrade, remove and purge the package in a chroot (as root)
	@packaging/test-deb.sh "$(DEBS)"

test: ## install what the tests need, then run every test; PARTS="soak gate" runs those parts alone
	$(XTASK) test $(PARTS)

check: ## format, lints as errors, tidy, unit tests
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --quiet -- -D warnings
	$(XTASK) tidy
	$(CARGO) test --workspace --quiet --lib --bins

bench: ## CPU a request and bytes an item beside a null server, Debian's memcached and Valkey, and what is aimed at
	$(CARGO) build --release --bin gannet
	$(XTASK_RELEASE) bench $(ARGS)

load-accuracy: ## the load generator's percentiles beside those that a fake server's known delays make
	$(LAB_RELEASE) load-accuracy $(ARGS)

load-agree: ## the load generator's closed-loop throughput beside redis-benchmark's and memcaslap's
	$(CARGO) build --release --bin gannet
	$(LAB_RELEASE) load-agree $(ARGS)

lab-numa: ## the reclaim lab in guests with two memory nodes (QEMU in software, Debian's kernels): what zone_reclaim_mode does
	$(CARGO) build --release --bin gannet
	$(LAB) lab-numa $(ARGS)

dax: ## servers killed, and machines cut off, with memory files on persistent memory (QEMU in software, ext4 with DAX)
	$(LAB) dax $(ARGS)

prove-irq: ## an interface's interrupts moved by `gannet doctor prove`, measured, taken back (QEMU in software)
	$(CARGO) build --release --bin gannet
	$(LAB) prove-irq $(ARGS)

bench-tls: ## CPU a request and a handshake with TLS, beside Debian's memcached and redis-server
	$(CARGO) build --release --bin gannet
	python3 lab/tls_figures.py $(ARGS) $${CARGO_TARGET_DIR:-target}/release/gannet

bench-grpc: ## CPU a gRPC call, beside a tonic server and a server of fixed frames; ARGS=--open-loop measures latencies
	$(CARGO) build --release --bin gannet
	$(CARGO) build --release --manifest-path lab/grpc_peers/Cargo.toml --target-dir $${CARGO_TARGET_DIR:-target}/grpc-peers
	python3 lab/grpc_figures.py $(ARGS) $${CARGO_TARGET_DIR:-target}/release/gannet $${CARGO_TARGET_DIR:-target}/grpc-peers/release

bench-graph: ## graph queries beside other stores; PYTHON=a Python with numpy and the stores' packages; ARGS=--open-loop
	$(CARGO) build --release --bin gannet
	$${PYTHON:-python3} lab/graph_figures.py $(ARGS) $${CARGO_TARGET_DIR:-target}/release/gannet

bench-hub: ## a node of 3 million edges: its queries, and GETs of a bystander behind them; ARGS="--edges 1000000"
	$(CARGO) build --release --bin gannet
	$${PYTHON:-python3} lab/graph_hub.py $(ARGS) $${CARGO_TARGET_DIR:-target}/release/gannet

bench-gate: ## instructions a request, and a step of long commands, beside those that are kept; ARGS=--with-peer counts memcached too
	$(CARGO) build --release --bin gannet
	$(XTASK_RELEASE) gate $(ARGS)

replay: ## 20 million requests drawn from production caches, on Gannet and on Debian's memcached
	$(CARGO) build --release --bin gannet
	$(LAB_RELEASE) replay $(ARGS)

soak: ## 300 million requests of every kind, every answer checked; ARGS=--short is part of `make test`
	$(CARGO) build --release --bin gannet
	$(LAB_RELEASE) soak $(ARGS)

torture: ## a thousand kills of servers in the midst of every kind of write, and every value asked for after each
	GANNET_KILLS=$(or $(KILLS),1000) $(CARGO) test -p gannet --test program -- --nocapture restart upgrade

policy: ## Misses beside LRU, SIEVE, S3-FIFO, W-TinyLFU and ARC (libCacheSim) at equal bytes, over twenty streams
	$(LAB_RELEASE) policy $(ARGS)

fuzz: ## each fuzz target for FUZZ_SECONDS seconds (60)
	$(XTASK) fuzz --seconds $(or $(FUZZ_SECONDS),60)

loom: ## the concurrency models: the store under shuttle, which draws schedules from a seed; memory orders under loom
	$(XTASK) loom

asan: ## tests of the crates with unsafe code, model and stress among them, under AddressSanitizer (nightly)
	$(XTASK) asan

miri: ## unit tests of the crates with unsafe code under Miri (nightly)
	$(XTASK) miri

valgrind: ## unit tests of the crates with unsafe code under valgrind
	$(XTASK) valgrind

# Links to private items are allowed, since these pages show them.
docs: ## the API documentation, warnings as errors
	RUSTDOCFLAGS='-D warnings -A rustdoc::private_intra_doc_links' $(CARGO) doc --workspace --no-deps --document-private-items
