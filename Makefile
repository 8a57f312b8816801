# convoy: the commands that a person needs. Each installs what it needs; see scripts/install.sh.
.DEFAULT_GOAL := help
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
CARGO ?= cargo
TARGET := $(or $(CARGO_TARGET_DIR),target)
# Folders of programs: what tests and demonstrations run, and what packages and benchmarks are made
# of. Cargo.toml has both profiles.
SYSTEM := $(TARGET)/system
RELEASE := $(TARGET)/release
PLUGIN := target/charon/libstrongswan-convoy.so
# DPDK's devices come with programs that are built where DPDK is; install.sh has tried to get it by
# then.
DPDK = $(shell pkg-config --atleast-version=22.11 libdpdk 2>/dev/null && echo dpdk)
# The laboratory's features: `card` is the simulated card with its first function, `all-functions` is
# all of it, and both need Verilator; `make demo FEATURES=` goes without.
FEATURES ?= all-functions $(DPDK)
# The demonstration needs one function of the card, or none of it, and no DPDK.
DEMO_FEATURES = $(if $(filter card all-functions,$(FEATURES)),card)
verilator = @$(if $(filter card all-functions,$(1)),scripts/card-venv.sh build,true)
# Lints, tests and the programs that system tests run are of one profile and one choice of crates and
# features, so that nothing is compiled twice; examples have the programs built with the features that
# tests add.
all_crates = --profile system --locked --workspace --features "$(addprefix convoy-lab/,$(1))$(2)"
CRATES = $(call all_crates,$(DPDK))
EVERYTHING = $(call all_crates,all-functions $(DPDK))
# Unit tests that need root, which `make quick` leaves out. Tests that start others which panic run
# those themselves.
AS_ROOT = --lib -- --ignored --skip panics_
# Crates with models of loom. Their own folder: RUSTFLAGS would have everything compiled again.
LOOM_CRATES = $(addprefix -p convoy-,packet ipsec engine port dataplane)
MIRI = nightly-2026-05-20
MIRI_CRATES = $(addprefix -p convoy-,packet reservation settings)
# `rustc` links without the compiler's own libraries by default, the sanitizers' among them; with a
# target they are not for build scripts. Devices of DPDK's stay open until the process ends, which
# would be reported as leaks.
SANITIZERS = -fsanitize=address,undefined
HOST = $(shell rustc --print host-tuple)
SHIMS = -p convoy-ipsec-mb $(if $(DPDK),-p convoy-dpdk --features convoy-dpdk/linked)
MSRV := $(shell sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)

.PHONY: help quick test test-all unit-tests all-unit-tests built system-tests loom miri sanitize nightly lint check programs release-programs charon \
  card-driver card-engine card-coverage card-formal card-formal-quick card-fpga card-test card-quick \
  demo demo-card demo-hdtv demo-hdtv-card demo-net packages wheel test-cluster test-systemd setups test-foreign test-iptfs doc docs docs-check pictures plot msrv bench bench-instructions bench-cycles bench-hdtv profile-hdtv bench-compare bench-baseline bench-sim bench-peers bench-kernel bench-iptfs bench-windows bench-waits bench-xdp bench-secgw bench-accelerators bench-outside bench-cluster fuzz install-build install-test install-instructions install-sampling

help: ## show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

install-build:
	@scripts/install.sh build

install-test:
	@scripts/install.sh build test

install-sampling:
	@scripts/install.sh build sampling

install-instructions:
	@scripts/install.sh build instructions

programs: install-build
	$(call verilator,$(FEATURES))
	$(CARGO) build $(call all_crates,$(FEATURES)) --bins --examples

release-programs: install-build
	$(call verilator,$(FEATURES))
	$(CARGO) build --release --locked -p convoy -p convoy-lab -p convoy-cluster-agent --features "$(FEATURES:%=convoy-lab/%)"

quick: ## format, lints and unit tests of the product: needs no root and installs nothing
	$(CARGO) fmt --all --check
	$(CARGO) clippy --locked --all-targets -- -D warnings
	$(CARGO) test --locked --lib --bins

test: install-test ## quick, all crates with DPDK, and the product's system tests (root for the last)
	$(CARGO) fmt --all --check
	$(CARGO) clippy $(CRATES) --all-targets -- -D warnings
	$(CARGO) test $(CRATES) --no-run
	$(MAKE) built FEATURES="$(DPDK)"
	scripts/docs.py --programs $(SYSTEM)
	@scripts/install.sh charon-test routing cluster monitoring browser
	UNIT_TESTS=unit-tests tests/run.sh product $(SYSTEM)

test-all: install-test ## test and the laboratory: the card and its proofs, HDTV, the wheel, guests of qemu, packages (root)
	python3 -m unittest discover -s bench/instructions
	@scripts/card-venv.sh
	$(CARGO) test $(EVERYTHING) --no-run
	$(MAKE) built
	scripts/docs.py --programs $(SYSTEM)
	@scripts/install.sh charon-test iptfs routing cluster monitoring browser packages packages-test wheel
	UNIT_TESTS=all-unit-tests tests/run.sh all $(SYSTEM)

# Unit tests compute while system tests wait, so run.sh runs them together.
unit-tests:
	$(CARGO) test $(CRATES)
	$(CARGO) test $(CRATES) $(AS_ROOT)

all-unit-tests:
	$(CARGO) test $(EVERYTHING)
	$(CARGO) test $(EVERYTHING) $(AS_ROOT)

built: programs
	$(MAKE) charon

lint: install-test ## format, lints with warnings as errors, shell, unused crates, documentation and the book
	$(CARGO) fmt --all --check
	@scripts/card-venv.sh build
	$(CARGO) clippy $(call all_crates,all-functions $(DPDK), convoy-fuzz/targets) --all-targets -- -D warnings
	scripts/machete.sh
	scripts/shellcheck.sh
	scripts/docs.py
	scripts/comments.py
	scripts/structure.py
	card/functions.py check
	scripts/plot_peers.py --check
	scripts/plot_iptfs.py --check
	scripts/plot_schemes.py --check
	$(MAKE) doc

check: ## what must hold before a commit: lints, every test, instructions per packet
	$(MAKE) lint
	$(MAKE) test-all
	$(MAKE) bench-compare

loom: install-build ## every order in which threads can meet in rings, queues, the directory of SAs and the fence, by loom
	RUSTFLAGS="--cfg convoy_loom" $(CARGO) test --profile system --locked --target-dir $(TARGET)/loom $(LOOM_CRATES) --lib models:: -- --test-threads=1

miri: install-build ## unit tests of pure crates in Miri, which finds undefined behaviour; installs a nightly compiler by rustup
	rustup toolchain install $(MIRI) --profile minimal --component miri,rust-src
	PROPTEST_CASES=2 MIRIFLAGS=-Zmiri-disable-isolation $(CARGO) +$(MIRI) miri test --locked --target-dir $(TARGET)/miri $(MIRI_CRATES) --lib

sanitize: install-build ## the C shims over Intel's library and DPDK under AddressSanitizer and UBSan; charon's plugin has them in `make fuzz`
	CFLAGS="$(SANITIZERS) -fno-sanitize-recover=undefined -fno-omit-frame-pointer" \
	  RUSTFLAGS="-Cdefault-linker-libraries=yes -Clink-arg=$(SANITIZERS)" \
	  ASAN_OPTIONS=detect_leaks=0 $(CARGO) test --locked --target $(HOST) --target-dir $(TARGET)/sanitize $(SHIMS)

nightly: ## what takes long and seldom fails: licences, the oldest Rust, instructions, models, sanitizers, each fuzz target for 60 s, mutants of the card's proofs
	scripts/deny.sh
	$(MAKE) msrv
	$(MAKE) bench-compare
	$(MAKE) loom
	$(MAKE) sanitize
	$(MAKE) fuzz FUZZ_SECONDS=60
	$(MAKE) card-formal

demo: install-build ## two gateways in one process protect real traffic; IP-TFS beside tunnel mode (no root)
	$(call verilator,$(DEMO_FEATURES))
	$(CARGO) build --profile system --locked -p convoy-demo --features "$(DEMO_FEATURES)"
	$(SYSTEM)/convoy-demo

demo-net: programs ## two gateways in network namespaces: ping, iperf3, tshark, IP-TFS beside tunnel mode (root)
	@scripts/install.sh test
	demo/net.sh $(SYSTEM)/convoy

demo-card: programs ## two gateways whose cryptography is the simulated card, inline and lookaside; scapy decrypts the outside (root)
	@scripts/install.sh test
	demo/card.sh $(SYSTEM)/convoy-lab

demo-hdtv-card: programs ## frames of that HDTV through two simulated cards, bit for bit, for HDTV_SECONDS (20) with each algorithm; a card's cycles for a frame (root)
	@scripts/install.sh test
	demo/hdtv-card.sh $(SYSTEM)/convoy-lab $${HDTV_SECONDS:-20}

demo-hdtv: release-programs ## uncompressed HDTV through two gateways for HDTV_SECONDS (60): rate, loss, CPU by function, pictures (root)
	@scripts/install.sh hdtv
	demo/hdtv.sh $(RELEASE)/convoy $${HDTV_SECONDS:-60}

bench-hdtv: release-programs ## the highest rate of HDTV without loss for MTUs from 1500 to 9000, plain and protected, window 1 and 32 (root)
	@scripts/install.sh hdtv
	demo/hdtv.sh $(RELEASE)/convoy sweep

profile-hdtv: release-programs ## where processor time goes with HDTV and with iperf3 through two gateways, on two cores and on one; memory (root)
	@scripts/install.sh hdtv
	demo/hdtv.sh $(RELEASE)/convoy profile

charon: ## strongSwan's plugin, for the strongSwan that is installed
	@scripts/install.sh charon
	$(MAKE) -C charon OUT=$(abspath target/charon)

packages: install-build charon ## .deb, .rpm, tarball and OCI image of the gateway, and packages of the laboratory and of charon's plugin, in target/packages
	@scripts/install.sh packages
	$(CARGO) build --release --locked -p convoy -p convoy-cluster-agent --features "$(DPDK:%=convoy/%)"
	$(CARGO) build --release --locked -p convoy-lab --features "$(DPDK)"
	scripts/packages.sh $(RELEASE) $(PLUGIN) target/packages image

wheel: install-build ## the wheel of the simulator's Python module for every CPython from 3.10 on, in target/wheels
	@scripts/install.sh wheel
	scripts/wheel.sh target/wheels

card-test: ## the card's modules: lint, then every cocotb test on Verilator
	@scripts/card-venv.sh
	card/lint.sh
	PATH="$(abspath target/card-venv/bin):$$PATH" pytest -q card/tests

card-driver: ## the card's drivers and port over its verilated model; prints the sliding window's gain in card cycles (root)
	@scripts/card-venv.sh
	$(CARGO) test --locked -p convoy-card --features verilated,all-functions -- --nocapture
	$(CARGO) test --locked -p convoy-devices --features all-functions card

card-engine: ## the suite of every engine, on the simulated ones
	@scripts/card-venv.sh
	$(CARGO) test --locked -p convoy-devices --features all-functions --test engines

card-fpga: ## synthesise, place and route the card's designs; writes the table of docs/lab/results/card.md
	@scripts/card-venv.sh
	PATH="$(abspath target/card-venv/bin):$$PATH" python card/fpga.py route

card-coverage: ## what the card's tests cover: every cocotb test with counters; the table of docs/lab/results/card.md
	@scripts/card-venv.sh
	rm -f target/card-coverage/*/coverage.dat
	CARD_COVERAGE=1 PATH="$(abspath target/card-venv/bin):$$PATH" pytest -q card/tests
	python3 card/coverage.py table

card-formal: ## prove the card's switch, rings and queues, and show that each proof can fail
	@scripts/card-venv.sh
	PATH="$(abspath target/card-venv/bin):$$PATH" python card/formal/prove.py prove
	PATH="$(abspath target/card-venv/bin):$$PATH" python card/formal/prove.py mutants

card-formal-quick:
	@scripts/card-venv.sh
	PATH="$(abspath target/card-venv/bin):$$PATH" python card/formal/prove.py quick

card-quick:
	@scripts/card-venv.sh
	PATH="$(abspath target/card-venv/bin):$$PATH" pytest -q -m quick card/tests

system-tests: programs charon ## the system tests alone, by PATTERN if given (root)
	@scripts/install.sh test charon-test iptfs routing cluster monitoring browser packages packages-test wheel
	tests/run.sh all $(SYSTEM) $(PATTERN)

test-cluster: programs ## two gateways of a cluster over three members of etcd: what each failure does to traffic (root; in `make test`, too)
	@scripts/install.sh test cluster
	tests/run.sh all $(SYSTEM) cluster

test-systemd: programs charon ## the systemd units, under a systemd in user-mode-linux (root; in `make test-all`, too)
	@scripts/install.sh test charon-test
	tests/systemd.sh $(SYSTEM)/convoy $(PLUGIN)

setups: programs charon ## how much work each way of setting up is: the guides' commands in clean Debians under systemd, counted and timed (root)
	@scripts/install.sh packages packages-test
	tests/own-run.sh tests/setups.sh $(SYSTEM)/convoy $(PLUGIN)

test-foreign: programs charon ## scenarios of strongSwan's own test suite with convoy as the data plane; goes on where it was interrupted (root; an hour)
	@scripts/install.sh test charon-test iptfs
	tests/foreign/strongswan.sh $(SYSTEM)/convoy "$(PATTERN)"

test-iptfs: programs charon ## IP-TFS against Linux' own in a guest of qemu, with static keys and charon (root; a part of it in `make test-all`, too)
	@scripts/install.sh test charon-test iptfs
	tests/iptfs.sh $(SYSTEM)/convoy
	tests/charon/iptfs.sh $(SYSTEM)/convoy

doc: ## the crates' documentation in target/doc; warnings are errors
	@scripts/card-venv.sh build
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc $(EVERYTHING) --no-deps

pictures: programs ## the pictures of `convoy top` and `convoy explain` in README, from two gateways with traffic (root)
	@scripts/install.sh test
	scripts/pictures.sh $(SYSTEM)/convoy

plot: ## the pictures of convoy beside its peers, of IP-TFS and of the IXP425 paper's figures as measured, from the data in docs
	scripts/plot_peers.py
	scripts/plot_iptfs.py
	scripts/plot_schemes.py

docs: docs-check ## the book, in target/book
	scripts/mdbook.sh build docs

docs-check: programs ## the book's links, code blocks and lists; its configurations and command lines by the programs
	scripts/docs.py --programs $(SYSTEM)

msrv: install-build ## everything but the card compiles with the oldest Rust that Cargo.toml promises
	scripts/msrv.sh $(MSRV)

bench: install-build ## cycles and instructions per packet of each engine and of the whole path; the policies' throughput and latency
	$(CARGO) bench --workspace --locked --exclude convoy-workbench
	$(CARGO) bench --workspace --locked --bench throughput
	$(MAKE) bench-instructions
	$(MAKE) bench-cycles
	$(CARGO) bench --workspace --locked --bench policies
	$(MAKE) bench-sim

bench-instructions: install-instructions ## instructions per packet of the whole path, by callgrind; JSON in target/bench
	CARGO="$(CARGO)" python3 bench/instructions measure

bench-compare: install-instructions ## the same beside bench/baseline: fails where a packet takes over 3 % more
	CARGO="$(CARGO)" python3 bench/instructions compare

bench-baseline: install-instructions ## write bench/baseline, the account of docs/results/cycles.md and docs/results/instructions.csv
	CARGO="$(CARGO)" python3 bench/instructions baseline

bench-cycles: install-sampling ## where the cycles of a packet go, stage by stage, by perf's clock; JSON in target/bench
	CARGO="$(CARGO)" python3 bench/instructions cycles

bench-sim: release-programs ## the simulator beside the same queue in SimPy and SystemC: agreement, packets a second
	bench/simulator/run.sh "$(RELEASE)/convoy-lab sim run"

bench-peers: release-programs ## convoy beside other userspace VPNs, in turns: throughput, CPU, memory, ping; JSON in target/bench (root)
	@scripts/install.sh peers
	bench/peers/install.sh target/peers
	python3 bench/peers/peers.py --bin target/peers --convoy $(RELEASE)/convoy --json target/bench/peers.json

bench-kernel: release-programs ## instructions of a packet through convoy and through the kernel's own ESP and WireGuard, in a guest of qemu; writes docs/results/kernel.csv (root)
	@scripts/install.sh iptfs wireguard
	tests/iptfs/build.sh
	unshare --net python3 bench/kernel/kernel.py --convoy $(RELEASE)/convoy --csv docs/results/kernel.csv

bench-iptfs: release-programs ## what IP-TFS saves by path and by mix of traffic, beside tunnel mode and wireguard-go, over BENCH_ROUNDS (3); writes docs/results/iptfs.csv (root)
	@scripts/install.sh peers
	bench/peers/install.sh target/peers wireguard
	python3 bench/peers/iptfs.py --convoy $(RELEASE)/convoy --wireguard target/peers/bin/wireguard --rounds $${BENCH_ROUNDS:-3} --csv docs/results/iptfs.csv

bench-windows: release-programs ## what the window saves in system calls: packets a call and CPU, by 64-byte UDP, IMIX and TCP (root)
	@scripts/install.sh peers sampling
	python3 bench/peers/windows.py --convoy $(RELEASE)/convoy

bench-xdp: release-programs ## a gateway at AF_XDP ports on both sides beside a program that only moves frames: CPU a packet (root)
	@scripts/install.sh xdp
	python3 bench/xdp/xdp.py $(RELEASE)/convoy --rate 200000
	python3 bench/xdp/xdp.py $(RELEASE)/convoy

bench-waits: release-programs ## CPU a packet at 40,000 packets a second by the time for which packets are gathered, the latency that it costs, and the system calls (root)
	@scripts/install.sh peers
	python3 bench/peers/waits.py --convoy $(RELEASE)/convoy
	python3 bench/peers/calls.py --convoy $(RELEASE)/convoy

bench-secgw: install-build ## convoy's path beside DPDK's example ipsec-secgw, in turns: cycles per packet; JSON in target/bench
	@scripts/install.sh secgw
	bench/secgw/install.sh target/secgw
	CARGO="$(CARGO)" python3 bench/secgw/secgw.py --secgw target/secgw --json target/bench/secgw.json

bench-accelerators: install-build ## several real engines at once by convoy's policies and by DPDK's scheduler; writes the tables of docs/results/accelerators.md
	$(CARGO) bench --locked -p convoy-workbench --features dpdk --bench accelerators -- --page

bench-outside: release-programs ## convoy, strongSwan and WireGuard's userspace gateways by one tester: rates without loss, latency; JSON in target/bench (root); ENDS=af_packet or af_xdp has the tester be hosts behind them
	@scripts/install.sh peers
	bench/peers/install.sh target/peers
	python3 bench/outside/outside.py --bin target/peers --convoy $(RELEASE)/convoy --ends $${ENDS:-udp} --json target/bench/outside.json

bench-cluster: release-programs ## a cluster of two gateways: traffic when something fails, by lease and tunnels, cost, Linux as the peer; JSON in target/bench (root)
	@scripts/install.sh test cluster
	python3 bench/cluster/cluster.py --convoy $(RELEASE)/convoy --rounds $${BENCH_ROUNDS:-3} --json target/bench/cluster.json
	tests/own-run.sh bench/cluster/kernel.sh $(RELEASE)/convoy

fuzz: ## each fuzz target for FUZZ_SECONDS (600)
	fuzz/run.sh $${FUZZ_SECONDS:-600}
