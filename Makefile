# convoy: the commands that a person needs. Each installs what it needs; see scripts/install.sh.
.DEFAULT_GOAL := help
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
CARGO ?= cargo
CONVOY := $(or $(CARGO_TARGET_DIR),target)/release/convoy
# DPDK's devices come with a program that is built where DPDK is; install.sh has tried to get it by
# then.
DPDK = $(shell pkg-config --atleast-version=22.11 libdpdk 2>/dev/null && echo dpdk)
# `card` is the engine that needs Verilator; `make demo FEATURES=` goes without.
FEATURES ?= card $(DPDK)
# Tests, lints and documentation are of everything at once, the card included: with one set of
# features, nothing is compiled twice.
EVERYTHING = --workspace --locked --features convoy/card$(DPDK:%=,convoy/%)
MSRV := $(shell sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)

.PHONY: help charon card-driver card-engine card-coverage card-formal card-formal-quick card-fpga card-test card-quick demo demo-card demo-hdtv demo-hdtv-card demo-net \
  packages wheel test test-cluster test-systemd test-iptfs lint check doc docs docs-check plot msrv bench bench-instructions bench-cycles bench-hdtv profile-hdtv bench-compare bench-baseline bench-sim bench-peers bench-iptfs bench-windows bench-waits bench-xdp bench-secgw bench-accelerators bench-outside bench-cluster fuzz install-build install-test install-instructions install-sampling

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

$(CONVOY): install-build
	@[[ ! " $(FEATURES) " =~ " card " ]] || scripts/card-venv.sh build
	$(CARGO) build --release --locked -p convoy --features "$(FEATURES)"

demo: $(CONVOY) ## two gateways in one process protect real traffic; IP-TFS beside tunnel mode (no root)
	$(CONVOY) demo

demo-net: $(CONVOY) ## two gateways in network namespaces: ping, iperf3, tshark, IP-TFS beside tunnel mode (root)
	@scripts/install.sh test
	demo/net.sh $(CONVOY)

demo-card: $(CONVOY) ## two gateways whose cryptography is the simulated card, inline and lookaside; scapy decrypts the outside (root)
	@scripts/install.sh test
	demo/card.sh $(CONVOY)

demo-hdtv-card: $(CONVOY) ## frames of that HDTV through two simulated cards, bit for bit, for HDTV_SECONDS (20) with each algorithm; a card's cycles for a frame (root)
	@scripts/install.sh test
	demo/hdtv-card.sh $(CONVOY) $${HDTV_SECONDS:-20}

demo-hdtv: $(CONVOY) ## uncompressed HDTV through two gateways for HDTV_SECONDS (60): rate, loss, CPU by function, pictures (root)
	@scripts/install.sh hdtv
	demo/hdtv.sh $(CONVOY) $${HDTV_SECONDS:-60}

bench-hdtv: $(CONVOY) ## the highest rate of HDTV without loss for MTUs from 1500 to 9000, plain and protected, window 1 and 32 (root)
	@scripts/install.sh hdtv
	demo/hdtv.sh $(CONVOY) sweep

profile-hdtv: $(CONVOY) ## where processor time goes with HDTV and with iperf3 through two gateways, on two cores and on one; memory (root)
	@scripts/install.sh hdtv
	demo/hdtv.sh $(CONVOY) profile

charon: ## strongSwan's plugin, for the strongSwan that is installed
	@scripts/install.sh charon
	$(MAKE) -C charon OUT=$(abspath target/charon)

packages: install-build charon ## .deb, .rpm, tarball and OCI image of the gateway, and charon's plugin as .deb, in target/packages
	@scripts/install.sh packages
	$(CARGO) build --release --locked -p convoy --features "$(DPDK)"
	scripts/packages.sh $(CONVOY) target/charon/libstrongswan-convoy.so target/packages image

wheel: install-build ## the wheel of the simulator's Python module for every CPython from 3.10 on, in target/wheels
	@scripts/install.sh wheel
	scripts/wheel.sh target/wheels

card-test: ## the card's modules: lint, then every cocotb test on Verilator
	@scripts/card-venv.sh
	card/lint.sh
	PATH="$(abspath target/card-venv/bin):$$PATH" pytest -q card/tests

card-driver: ## the card's drivers and port over its verilated model; prints the sliding window's gain in card cycles (root)
	@scripts/card-venv.sh
	$(CARGO) test --locked -p convoy-card --features verilated -- --nocapture
	$(CARGO) test --locked -p convoy-port --features card --lib --test card_interface card

card-engine: ## the suite of every engine, with the verilated card among them
	@scripts/card-venv.sh
	$(CARGO) test --locked -p convoy-engine --features card

card-fpga: ## synthesise, place and route the card's designs; writes the table of docs/results/card.md
	@scripts/card-venv.sh
	PATH="$(abspath target/card-venv/bin):$$PATH" python card/fpga.py route

card-coverage: ## what the card's tests cover: every cocotb test with counters; the table of docs/results/card.md
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

test: install-test ## every test: crates with the card, other implementations, namespaces (root for the last two)
	python3 -m unittest discover -s bench/instructions
	@scripts/card-venv.sh
	$(CARGO) test $(EVERYTHING)
	$(MAKE) card-quick
	$(MAKE) card-formal-quick
	$(MAKE) $(CONVOY) charon
	scripts/docs.py --convoy $(CONVOY)
	@scripts/install.sh charon-test iptfs routing cluster monitoring packages packages-test wheel
	tests/run.sh $(CONVOY) target/charon/libstrongswan-convoy.so

test-cluster: $(CONVOY) ## two gateways of a cluster over three members of etcd: what each failure does to traffic (root; in `make test`, too)
	@scripts/install.sh test cluster
	tests/own-run.sh tests/cluster.sh $(CONVOY)
	tests/own-run.sh tests/cluster-failures.sh $(CONVOY)
	tests/own-run.sh tests/cluster-groups.sh $(CONVOY)
	tests/own-run.sh tests/cluster-config.sh $(CONVOY)

test-systemd: $(CONVOY) charon ## the systemd units, under a systemd in user-mode-linux (root; in `make test`, too)
	@scripts/install.sh test charon-test
	tests/systemd.sh $(CONVOY) target/charon/libstrongswan-convoy.so

test-iptfs: $(CONVOY) ## IP-TFS against Linux' own in a guest of qemu, with static keys and charon (root; a part of it in `make test`, too)
	@scripts/install.sh test charon-test iptfs
	tests/iptfs.sh $(CONVOY)
	tests/charon/iptfs.sh $(CONVOY)

lint: install-test ## format, lints with warnings as errors, documentation and the book, licences, oldest Rust
	$(CARGO) fmt --all --check
	@scripts/card-venv.sh build
	$(CARGO) clippy $(EVERYTHING) --all-targets -- -D warnings
	scripts/docs.py
	scripts/comments.py
	card/functions.py check
	scripts/plot_peers.py --check
	scripts/plot_iptfs.py --check
	scripts/plot_schemes.py --check
	$(MAKE) doc
	scripts/deny.sh
	$(MAKE) msrv

check: ## what must hold before a commit: lints, tests, instructions per packet
	$(MAKE) lint
	$(MAKE) test
	$(MAKE) bench-compare

doc: ## the crates' documentation in target/doc; warnings are errors
	@scripts/card-venv.sh build
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc $(EVERYTHING) --no-deps

plot: ## the pictures of convoy beside its peers, of IP-TFS and of the IXP425 paper's figures as measured, from the data in docs
	scripts/plot_peers.py
	scripts/plot_iptfs.py
	scripts/plot_schemes.py

docs: docs-check ## the book, in target/book
	scripts/mdbook.sh build docs

docs-check: $(CONVOY) ## the book's links, code blocks and lists; its configurations by `convoy check`, its command line by the program
	scripts/docs.py --convoy $(CONVOY)

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

bench-baseline: install-instructions ## make bench/baseline, the account of docs/results/cycles.md and docs/results/instructions.csv anew
	CARGO="$(CARGO)" python3 bench/instructions baseline

bench-cycles: install-sampling ## where the cycles of a packet go, stage by stage, by perf's clock; JSON in target/bench
	CARGO="$(CARGO)" python3 bench/instructions cycles

bench-sim: $(CONVOY) ## the simulator beside the same queue in SimPy and SystemC: agreement, packets a second
	bench/simulator/run.sh "$(CONVOY) sim run"

bench-peers: $(CONVOY) ## convoy beside other userspace VPNs, in turns: throughput, CPU, memory, ping; JSON in target/bench (root)
	@scripts/install.sh peers
	bench/peers/install.sh target/peers
	python3 bench/peers/peers.py --bin target/peers --convoy $(CONVOY) --json target/bench/peers.json

bench-iptfs: $(CONVOY) ## what IP-TFS saves by path and by mix of traffic, beside tunnel mode and wireguard-go, over BENCH_ROUNDS (3); writes docs/results/iptfs.csv (root)
	@scripts/install.sh peers
	bench/peers/install.sh target/peers wireguard
	python3 bench/peers/iptfs.py --convoy $(CONVOY) --wireguard target/peers/bin/wireguard --rounds $${BENCH_ROUNDS:-3} --csv docs/results/iptfs.csv

bench-windows: $(CONVOY) ## what the window saves in system calls: packets a call and CPU, by 64-byte UDP, IMIX and TCP (root)
	@scripts/install.sh peers sampling
	python3 bench/peers/windows.py --convoy $(CONVOY)

bench-xdp: $(CONVOY) ## a gateway at AF_XDP ports on both sides beside a program that only moves frames: CPU a packet (root)
	@scripts/install.sh xdp
	python3 bench/xdp/xdp.py $(CONVOY) --rate 200000
	python3 bench/xdp/xdp.py $(CONVOY)

bench-waits: $(CONVOY) ## CPU a packet at 40,000 packets a second by the time for which packets are gathered, the latency that it costs, and the system calls (root)
	@scripts/install.sh peers
	python3 bench/peers/waits.py --convoy $(CONVOY)
	python3 bench/peers/calls.py --convoy $(CONVOY)

bench-secgw: install-build ## convoy's path beside DPDK's example ipsec-secgw, in turns: cycles per packet; JSON in target/bench
	@scripts/install.sh secgw
	bench/secgw/install.sh target/secgw
	CARGO="$(CARGO)" python3 bench/secgw/secgw.py --secgw target/secgw --json target/bench/secgw.json

bench-accelerators: install-build ## several real engines at once by convoy's policies and by DPDK's scheduler; writes the tables of docs/results/accelerators.md
	$(CARGO) bench --locked -p convoy-workbench --features dpdk --bench accelerators -- --page

bench-outside: $(CONVOY) ## convoy, strongSwan and WireGuard's userspace gateways by one tester: rates without loss, latency; JSON in target/bench (root); ENDS=af_packet or af_xdp has the tester be hosts behind them
	@scripts/install.sh peers
	bench/peers/install.sh target/peers
	python3 bench/outside/outside.py --bin target/peers --convoy $(CONVOY) --ends $${ENDS:-udp} --json target/bench/outside.json

bench-cluster: $(CONVOY) ## a cluster of two gateways: traffic when something fails, by lease and tunnels, cost, Linux as the peer; JSON in target/bench (root)
	@scripts/install.sh test cluster
	python3 bench/cluster/cluster.py --convoy $(CONVOY) --rounds $${BENCH_ROUNDS:-3} --json target/bench/cluster.json
	tests/own-run.sh bench/cluster/kernel.sh $(CONVOY)

fuzz: ## each fuzz target for FUZZ_SECONDS (600)
	fuzz/run.sh $${FUZZ_SECONDS:-600}
