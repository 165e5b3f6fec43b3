FTL := target/release/ftl
DEMO := target/demo
# Real programs that the tests of the live device run. A test names what is missing, and leaves that part out.
PROGRAMS := fio libnbd-bin python3-libnbd qemu-utils e2fsprogs mount util-linux rocksdb-tools f2fs-tools fuse3

# What a virtual machine with F2FS needs, beside its kernel.
MACHINE := qemu-system-x86 busybox-static cpio xz-utils f2fs-tools fio
GUEST := target/guest

# The Python package is tested in a virtual environment of its own.
VENV := target/venv

.PHONY: demo test setup compiler compiled guest lint bench fuzz docs python python-lint python-lint-now python-tests python-tests-now wheel

# Names the Debian packages of $(1) that are missing, then installs them with apt. SETUP=no installs nothing: tests that want
# a program name it and leave that part out.
define install
	@command -v dpkg >/dev/null || exit 0; missing=; \
	for package in $(1); do dpkg -s $$package >/dev/null 2>&1 || missing="$$missing $$package"; done; \
	if [ -z "$$missing" ]; then exit 0; fi; \
	echo "== $(2) these Debian packages, which are missing:$$missing"; \
	if [ "$(SETUP)" = no ]; then echo "   SETUP=no: they are not installed"; exit 0; fi; \
	echo "   Installing them with apt-get. To install nothing: make $(MAKECMDGOALS) SETUP=no"; \
	(apt-get update -qq && apt-get install -y -qq --no-install-recommends $$missing) >/dev/null \
		|| echo "   Some could not be installed. What needs them says so."
endef

# What builds `ftl`: Rust, and a C compiler (some decompressors are C).
compiler:
	@command -v cargo >/dev/null || { echo "Rust is missing: install it with rustup, then run make again" >&2; exit 1; }
	$(if $(shell command -v cc),,$(call install,build-essential,Building needs))

# Everything that the two commands of the README want beside Rust; both call it for what they need.
setup: compiler
	$(call install,$(PROGRAMS),The tests of the live device run)

# All that tests run, of Rust and of Python, compiled side by side.
compiled: compiler
	cargo build --locked --workspace --lib --tests

# Every test, after the format and lint gates. Tests that want the real traces look in the folder FTL_TRACES.
test: setup
	$(MAKE) --no-print-directory -j2 python-lint lint
	$(MAKE) --no-print-directory compiled
	cargo test --workspace --locked
	$(MAKE) --no-print-directory python-tests

# The Python package: format, lint, types, and its tests. The module holds the same compiled code as the tests of Rust.
python: python-lint python-tests

WITHOUT_PYTHON = [ "$(SETUP)" = no ] && [ ! -e $(VENV)/installed ]
python-lint python-tests:
	@if $(WITHOUT_PYTHON); then echo "SETUP=no, and there is no $(VENV): $@ of the Python package is left out"; \
	else $(MAKE) --no-print-directory $@-now; fi

python-lint-now: $(VENV)/installed
	$(VENV)/bin/ruff format --check
	$(VENV)/bin/ruff check
	$(VENV)/bin/mypy

python-tests-now: compiled $(VENV)/installed
	cp target/debug/lib_ftlkit.so python/ftlkit/_ftlkit.abi3.so
	$(VENV)/bin/python -m mypy.stubtest ftlkit._ftlkit --mypy-config-file pyproject.toml
	$(VENV)/bin/python -m pytest
	$(MAKE) --no-print-directory docs

$(VENV)/installed: python/requirements.txt
	@command -v python3 >/dev/null && python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "The Python package needs Python 3.11 or newer: install it, then run make again" >&2; exit 1; }
	$(call install,python3-venv,The tests of the Python package run in a virtual environment and need)
	@echo "== Installing from PyPI into $(VENV) what python/requirements.txt pins: NumPy, Arrow, Polars, pandas, Matplotlib,"
	@echo "   Plotly, Dask, Jupyter, Sphinx, pytest, mypy, ruff, maturin. Nothing outside of that folder changes."
	python3 -m venv --clear $(VENV)
	$(VENV)/bin/pip install --quiet --disable-pip-version-check --requirement $<
	echo $(CURDIR)/python > "$$($(VENV)/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/ftlkit.pth"
	@touch $@

# One wheel for Python 3.11 and newer; `pip install target/wheels/*.whl` needs no Rust.
wheel: compiler $(VENV)/installed
	$(VENV)/bin/maturin build --release --locked --out target/wheels

# The documentation as a site that opens from the disk: target/site/index.html. NOTEBOOKS=auto runs the notebooks for it.
docs: $(VENV)/installed
	$(VENV)/bin/sphinx-build -q -W --keep-going -b html docs target/site
	@echo "$(CURDIR)/target/site/index.html"

# A virtual machine for F2FS: programs, and Debian's kernel, unpacked and not installed. Where FTL_GUEST names it, tests and
# `ftl paper lftl --live` use it.
guest:
	$(call install,$(MACHINE),The virtual machine needs)
	@test -d $(GUEST)/boot || { echo "== unpacking the kernel of linux-image-amd64 into $(GUEST)"; mkdir -p $(GUEST) && cd $(GUEST) && \
		apt-get download -qq $$(apt-cache depends linux-image-amd64 | sed -n 's/^ *Depends: //p' | head -n 1) && \
		for package in *.deb; do dpkg-deb -x "$$package" . && rm "$$package"; done; }
	@echo "export FTL_GUEST=$(CURDIR)/$(GUEST)"

lint: compiler
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings
	cargo clippy -p ftlkit --no-default-features --locked -- -D warnings
	RUSTDOCFLAGS="-D warnings -A rustdoc::private-intra-doc-links" cargo doc --workspace --no-deps --locked --quiet

# The simulator's own speed, beside the figures of issue and guide; takes a few minutes.
bench: compiler
	cargo build --release --locked -p ftlkit --bin ftl
	$(FTL) bench

# cargo-fuzz over each target of crates/fuzz, or over one: make fuzz TARGET=trace TIME=600. What it finds to be new lies in
# target/fuzz/TARGET, what breaks a target in fuzz/artifacts/TARGET. Leaks are not looked for: what the C library holds for a
# thread that is just ending counts as one.
TIME := 600
TARGET := $(notdir $(wildcard fuzz/corpus/*))
fuzz: compiler
	@cargo +nightly fuzz --version >/dev/null 2>&1 || { echo "make fuzz needs nightly Rust and cargo-fuzz:" \
		"run rustup toolchain install nightly && cargo install cargo-fuzz --locked, then make again" >&2; exit 1; }
	@for target in $(TARGET); do mkdir -p target/fuzz/$$target && echo "== $$target: $(TIME) s" && \
		cargo +nightly fuzz run $$target target/fuzz/$$target fuzz/corpus/$$target -- -max_total_time=$(TIME) \
			-timeout=20 -malloc_limit_mb=512 -rss_limit_mb=2048 -max_len=65536 \
			-detect_leaks=0 || exit 1; done

# Four schemes on one emulated SSD: first built-in jobs in steady state, then a small trace of our own making. The tables come
# from a command that holds the simulator alone, as it compiles in half of the time; the whole command is built after them.
demo: compiler
	@echo "== Compiling the simulator: two to three minutes on two cores =="
	cargo build --release --locked -p ftlkit --bin ftl --no-default-features
	@mkdir -p $(DEMO)
	@echo
	@echo "== A first look: three schemes, short jobs on a small device =="
	$(FTL) compare
	@echo
	@echo "== Four schemes, 64 jobs of 4 KiB on a 32 GiB device in steady state =="
	$(FTL) compare examples/double-read.fio --schemes page,dftl,tpftl,learnedftl --device femu-32g --export 30GiB --cache 3% \
		--report $(DEMO)/double-read.html
	@echo
	@echo "== Three of them under a small trace (synthetic, after Financial1) =="
	$(FTL) compare --trace examples/oltp-sample.spc --device tpftl-512m --cache 3% \
		--report $(DEMO)/oltp-sample.html
	@echo
	@echo "== Compiling the rest of the command: live devices, the checker, the papers' experiments =="
	cargo build --release --locked -p ftlkit --bin ftl
	@echo
	@echo "The reports open in any browser, without a network:"
	@echo "  $(CURDIR)/$(DEMO)/double-read.html"
	@echo "  $(CURDIR)/$(DEMO)/oltp-sample.html"
