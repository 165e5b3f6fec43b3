FTL := target/release/ftl
DEMO := target/demo
# Real programs that the tests of the live device run. A test names what is missing, and leaves that part out.
PROGRAMS := fio libnbd-bin python3-libnbd qemu-utils e2fsprogs mount util-linux rocksdb-tools f2fs-tools fuse3

# What a virtual machine with F2FS needs, beside its kernel.
MACHINE := qemu-system-x86 busybox-static cpio xz-utils f2fs-tools fio
GUEST := target/guest

.PHONY: demo test setup programs guest lint bench

# A C compiler is all that is needed beside Rust (some decompressors are C). Missing, it is installed on Debian.
setup:
	@command -v cargo >/dev/null || { echo "Rust is missing: install rustup, then run make again" >&2; exit 1; }
	@command -v cc >/dev/null || { echo "== installing a C compiler (build-essential)"; \
		apt-get update -qq && apt-get install -y -qq build-essential; }

# Every test, after the format and lint gates. Tests that want the real traces look in the folder FTL_TRACES.
test: setup programs lint
	cargo test --workspace

programs:
	@dpkg -s $(PROGRAMS) >/dev/null 2>&1 || { echo "== installing $(PROGRAMS)"; \
		(apt-get update -qq && apt-get install -y -qq --no-install-recommends $(PROGRAMS)) >/dev/null \
		|| echo "some could not be installed; the tests that need them say so"; }

# A virtual machine for F2FS: programs, and Debian's kernel, unpacked and not installed. Where FTL_GUEST names it, tests and
# `ftl paper lftl --live` use it.
guest:
	@dpkg -s $(MACHINE) >/dev/null 2>&1 || { echo "== installing $(MACHINE)"; \
		apt-get update -qq && apt-get install -y -qq --no-install-recommends $(MACHINE); }
	@test -d $(GUEST)/boot || { echo "== unpacking the kernel of linux-image-amd64 into $(GUEST)"; mkdir -p $(GUEST) && cd $(GUEST) && \
		apt-get download -qq $$(apt-cache depends linux-image-amd64 | sed -n 's/^ *Depends: //p' | head -n 1) && \
		for package in *.deb; do dpkg-deb -x "$$package" . && rm "$$package"; done; }
	@echo "export FTL_GUEST=$(CURDIR)/$(GUEST)"

lint: setup
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- -D warnings
	RUSTDOCFLAGS="-D warnings -A rustdoc::private-intra-doc-links" cargo doc --workspace --no-deps --quiet

# The simulator's own speed, beside the figures of issue and guide; takes a few minutes.
bench: setup
	cargo build --release --bin ftl
	$(FTL) bench

# Four schemes on one emulated SSD: first built-in jobs in steady state, then a small trace of our own making. Builds
# what it needs; takes a minute or two after that.
demo: setup
	cargo build --release --bin ftl
	@echo
	@echo "== Four schemes, 64 jobs of 4 KiB on a 32 GiB device in steady state =="
	$(FTL) compare examples/double-read.fio --schemes page,dftl,tpftl,learnedftl --device femu-32g --export 30GiB --cache 3% \
		--report $(DEMO)/double-read.html
	@echo
	@echo "== Three of them under a small trace (synthetic, after Financial1) =="
	$(FTL) compare --trace examples/oltp-sample.spc --device tpftl-512m --cache 3% \
		--report $(DEMO)/oltp-sample.html
	@echo
	@echo "The reports open in any browser, without a network:"
	@echo "  $(CURDIR)/$(DEMO)/double-read.html"
	@echo "  $(CURDIR)/$(DEMO)/oltp-sample.html"
