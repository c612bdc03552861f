# SPDX-License-Identifier: BSD-3-Clause
# Front door of the CMake build.  `make` alone lists the targets.
# No target calls make again, so the last lines printed are those of the last tool.

SHELL := /bin/bash
PREFIX ?= /usr/local
JOBS ?= $(shell nproc)
export DESTDIR

# Ninja is used if it is installed; a configured tree keeps its generator.  Only the first
# configuration prints its findings.
generator = $$(command -v ninja >/dev/null && echo Ninja || echo Unix Makefiles)
configure = if [ -f build/$(1)/CMakeCache.txt ]; then cmake --preset $(1) $(2) >/dev/null; \
	else cmake --preset $(1) -G "$(generator)" $(2); fi
build = cmake --build build/$(1) -j $(JOBS) $(if $(2),--target $(2))
ctest = ctest --test-dir build/$(1) -j 2 --output-on-failure --no-label-summary --no-tests=error

# This is cheap: tools/deps.sh is called only if something is missing.
have = for tool in $(1); do command -v $$tool >/dev/null || exit 1; done
probe = ( $(call have,cc c++ cmake python3 pkg-config); command -v ninja make >/dev/null || exit 1; \
	printf '3.25\n%s\n' "$$(cmake --version | sed -n '1s/.* //p')" | sort -V -C )

# Options of tools/campaign.
ARGS ?=

# The interpreter of the Python tests; without it, the one of tools/python-env.sh.
PYTHON ?=
export PYTHON

# Suites: contract litmus graph coll sanitizer examples triton torch bench; all of them without SUITE.
SUITE ?=

fabric_headers = /usr/include/infiniband/verbs.h /usr/include/rdma/fabric.h
have_headers = for file in $(1); do [ -e $$file ] || exit 1; done

.PHONY: help run test documents site test-python test-shmem wheel test-full test-slow test-gpu fuzz campaign deaths soak coverage check bench versus versus-gpu build install dist deb clean deps deps-test deps-python deps-torch deps-shmem deps-vm deps-check deps-deb deps-bench build-release

help:
	@echo 'make run         build tools and examples, then 8 ranks put, signal, wait and pass barriers'
	@echo 'make test        build and test, then the contract suite and some collectives under ThreadSanitizer'
	@echo 'make documents   run the commands of the documents; compare output and quotations (at most 4 minutes)'
	@echo 'make site        the documents as a site with search, in build/site/index.html'
	@echo 'make test-python all tests of the Python package, also those with torch and Triton where they are'
	@echo 'make test-shmem  OpenSHMEM: its tests, an installed prefix, and shmem4py with its own tests'
	@echo 'make test-full   AddressSanitizer and UBSan, then long tests and virtual machines'
	@echo 'make test-slow   all rows of all tests in the release build, the rest under sanitizers, and 10,000 random programs'
	@echo 'make test-gpu    what needs a GPU; SUITE=contract|litmus|graph|coll|sanitizer|examples|triton|torch|bench selects one part'
	@echo 'make fuzz        libFuzzer on every parser of untrusted bytes, MINUTES=5 each, two at a time'
	@echo 'make campaign    random programs from seeds; ARGS="--seeds 1000 --from 1" passes options to tools/campaign'
	@echo 'make deaths      COUNT=1000 jobs from SEED=n, each with one rank killed, stopped or starved of memory'
	@echo 'make soak        full load on every transport for MINUTES=60; memory and descriptors must stay as they are'
	@echo 'make coverage    which lines of the library the tests run, per folder, and functions that never run'
	@echo 'make check       format, static checks, scripts, links and generated documents: tools/check.sh'
	@echo 'make bench       measure Oriel beside what the machine allows: bench/run.sh'
	@echo 'make versus      Oriel beside Open MPI and OpenSHMEM: table and plot, at most 10 minutes'
	@echo 'make versus-gpu  Oriel beside hand-written kernels, NVSHMEM and NCCL on a GPU'
	@echo 'make build       what is installed, without tests'
	@echo 'make wheel       dist/oriel-*.whl for this architecture, with library, tools and bitcode inside'
	@echo 'make install     install to PREFIX (now $(PREFIX)), below DESTDIR if it is set'
	@echo 'make dist        dist/oriel-VERSION.tar.gz, the sources of the last commit'
	@echo 'make deb         Debian packages in dist/, from the sources of the last commit'
	@echo 'make clean       remove build/'
	@echo 'Presets for cmake --preset: dev release asan tsan cuda coverage fuzz'

# Without the headers of a fabric its engine is left out.  oriel-info says so; it is not a failure.
deps:
	@$(probe) || tools/deps.sh
	@( $(call have_headers,$(fabric_headers)) ) || tools/deps.sh fabric || [ "$$CI" != true ]

# Without these packages some tests are skipped, each with its reason.  Only in CI this is a
# failure.
deps-test:
	@( $(call have,mpirun mpicc fi_info ip gnuplot clang spin mandoc); $(call have_headers,/usr/include/infiniband/mlx5dv.h); \
		compgen -G '/usr/lib/*/pmix2/include/pmix.h' >/dev/null ) || \
		tools/deps.sh test || [ "$$CI" != true ]

# Without numpy the tests of the Python package are skipped.  Only in CI this is a failure.
deps-python:
	@tools/python-env.sh --print >/dev/null || tools/deps.sh python || [ "$$CI" != true ]

deps-torch:
	@tools/deps.sh torch || [ "$$CI" != true ]

# Without it the test with shmem4py is skipped.  Only in CI this is a failure.
deps-shmem:
	@tools/shmem-env.sh --print >/dev/null || tools/deps.sh shmem || [ "$$CI" != true ]

deps-vm:
	@( $(call have,cpio busybox); [ -f "$${XDG_CACHE_HOME:-$$HOME/.cache}/oriel/vm/complete" ] && \
		compgen -c qemu-system- >/dev/null ) || tools/deps.sh vm || [ "$$CI" != true ]

deps-check:
	@( $(call have,clang-format clang-tidy cppcheck) ) || tools/deps.sh check

# Without them make deb cannot work, and the test of the packages is skipped.
deps-deb:
	@( $(call have,dpkg-buildpackage dh dh_python3 mmdebstrap) ) || tools/deps.sh deb || [ "$$CI" != true ]

# Without these, peers of make versus are skipped, each with its package.
deps-bench:
	@( $(call have,mpirun mpicc oshcc gnuplot) ) || tools/deps.sh bench || true

build-release: deps
	@$(call configure,release)
	@$(call build,release)

# Tools and examples, without tests: the first command of a new user takes a third of the time.
run: deps
	@$(call configure,release)
	@$(call build,release,oriel-run oriel-perf oriel-info oriel-tune oriel-doctor oriel_examples)
	build/release/bin/oriel-run -n 8 build/release/bin/oriel-perf all --quick

# ThreadSanitizer does not see across processes, so its preset runs rows with thread ranks only.
test: deps-test deps-python build-release
	$(call ctest,release) -LE '^(long|shmem|documents)$$'
	@$(call configure,tsan)
	@$(call build,tsan,$(tsan_targets))
	$(call ctest,tsan) -R '$(order)|^coll.*[.]threads$$|^unit[.](packet|queue_threads|soft_place_copy|soft_threads)$$|^documents[.]fault_race$$'

# What of the contract suite is about memory order.  Under ThreadSanitizer the rest of it is in
# test-full, except tsan_later.
order = ^contract[.](order|put|barrier|signal)([.]mlx5)?$$
# In test-slow: what mostly waits for deadlines, or has no order that other themes do not have.
tsan_later = ^contract[.](atomic_typed|comms|failure|failure_lines|host_ops_refused|launch|memory|subset|who)$$
tsan_targets = contract_tests unit_packet unit_queue_threads unit_soft_place_copy unit_soft_threads coll_allgather coll_alltoallv coll_reduce \
	coll_team coll_team_mix coll_team_v coll_lines coll_litmus coll_cards coll_nodes coll_nodes_host faults_race

# What the documents say: their commands and output, quotations, programs with a fault.
documents: deps-test build-release
	$(call ctest,release) -L '^documents$$'

# mkdocs comes from PyPI, into an environment in the user's cache.
site:
	@tools/site.sh

# PYTHON chooses an interpreter that has torch already.
test-python: deps-torch build-release
	$(call ctest,release) -L '^python'

test-shmem: deps-shmem build-release
	$(call ctest,release) -L '^shmem'

# A wheel needs no compiler and no installed Oriel where it is used.
# It goes to other machines, so it has machine code for all GPUs.
wheel: deps deps-python
	@$(call configure,wheel)
	@$(call build,wheel,oriel_product)
	rm -rf build/wheel/prefix
	cmake --install build/wheel --prefix build/wheel/prefix --strip >/dev/null
	ORIEL_PREFIX=$(CURDIR)/build/wheel/prefix $(or $(PYTHON),$$(tools/python-env.sh --print)) -m pip wheel -q \
		--disable-pip-version-check --no-deps --no-build-isolation -w dist ./python
	@ls -1 dist/*.whl

# OpenSHMEM under ThreadSanitizer: the programs with threads, with the agent, and with cards.
shmem_tsan = active_threads amo_race cards coll_threads lock set_threads
empty :=
space := $(empty) $(empty)

# Under AddressSanitizer only in test-slow: tests that wait for deadlines or look for order, long ones
# of collectives and packets, the contract themes line, path, staged, launch, barrier and large, and
# rows of the contract suite on an unordered fabric, the fake driver and the stub of mlx5.  Their code
# runs in other tests too.  CTest ignores a pattern of ten parentheses or more.
asan_later = ^(contract[.](order|failure|failure_lines|subset|path|line|packet|large|staged|launch|barrier)([.].*)?|contract[.].*[.](fabric|cuda|mlx5)|coll[.](reduce_windows[.]harsh|scatter_windows.*|allgather|allgather_requests|alltoallv|alltoallv_random|alltoallv_errors|team|team_stuck.*|lines.*|reduce_errors[.].*)|unit[.]last_error|shmem[.]ends_.*|tools[.](run_mps|doctor|info)_test|fault[.](late_reports|late_memory|told_last)|tools[.]queued_test|(mutants|campaign|sim)[.](run|seeds))$$

# On aarch64 the search for leaks walks the whole address space of the sanitizer's heap: 4 s of
# processor time at the end of every process, also of an empty one, and some tests start hundreds.
# There only the unit tests look for them, in test-slow.  On x86-64 all tests do, except those that
# tests/CMakeLists.txt excludes.
aarch64 = $(filter aarch64,$(shell uname -m))
leaks = $(if $(aarch64),ASAN_OPTIONS=$${ASAN_OPTIONS:+$$ASAN_OPTIONS:}detect_leaks=0)

test-full: deps-test deps-vm build-release
	@$(call configure,tsan)
	@$(call build,tsan,$(tsan_targets) oriel-run $(addprefix shmem_,$(shmem_tsan)))
	$(call ctest,tsan) -L contract -E '$(order)|$(tsan_later)'
	$(call ctest,tsan) -R '^shmem[.]($(subst $(space),|,$(shmem_tsan)))$$'
	@$(call configure,asan)
	@$(call build,asan)
	$(leaks) $(call ctest,asan) -E '$(asan_later)'
	$(call ctest,release) -L 'vm|full'
	@if command -v clang >/dev/null; then $(call configure,fuzz) && $(call build,fuzz,fuzz_programs) && \
		$(call ctest,fuzz) -L '^fuzz$$'; else echo 'skipped: fuzzing needs clang'; fi

# 15 s per program in make test-full; here as long as asked for.
fuzz: MINUTES ?= 5
fuzz: deps
	@$(call configure,fuzz)
	@$(call build,fuzz,fuzz_programs)
	@tools/fuzz.sh build/fuzz $$(($(MINUTES) * 60))

test-slow: deps-test deps-vm deps-deb build-release
	$(call ctest,release)
	@$(call configure,asan)
	@$(call build,asan)
	$(leaks) $(call ctest,asan) -R '$(asan_later)'
	$(if $(aarch64),$(call ctest,asan) -R '^unit[.]')
	@$(call configure,tsan)
	@$(call build,tsan,contract_tests)
	$(call ctest,tsan) -R '$(tsan_later)'
	tools/campaign --seeds 10000 --seconds 3000
	@python=$(or $(PYTHON),$$(tools/python-env.sh --print || echo python3)); \
	if $$python -c 'import torch, expecttest' 2>/dev/null; then \
		export ORIEL_LIBRARY=$(CURDIR)/build/release/lib/liboriel.so.0; \
		$$python python/tests/torch_suite.py run --fresh && $$python python/tests/torch_suite.py check; \
	else \
		echo "skipped: all of PyTorch's own tests: $$python has no torch or no expecttest"; \
	fi

test-gpu:
	@JOBS=$(JOBS) tools/test-gpu.sh $(SUITE)

campaign: deps
	@$(call configure,release)
	@JOBS=$(JOBS) tools/campaign $(ARGS)

# A failing job prints the seed that runs it again with COUNT=1.
COUNT ?= 1000
SEED ?= $(shell date +%s)
deaths: deps
	@$(call configure,release)
	@$(call build,release,fault_deaths)
	DEATHS_COUNT=$(COUNT) DEATHS_SEED=$(SEED) build/release/bin/fault_deaths

# At least 10,000 windows and 1,000 comms, also if MINUTES is short.
soak: MINUTES ?= 60
soak: deps
	@$(call configure,release)
	@$(call build,release,soak oriel-run oriel-info)
	@tools/soak.sh build/release $$(($(MINUTES) * 60)) 10000 1000

# What only these run: traces, the doctor, the tuner, and typed operations of the host on a GPU.
coverage_more = ^(tools[.](trace|doctor|tune|info)_test|contract[.](word|atomic_typed|host_atomic)[.]cuda)$$

# The counts of earlier runs are dropped.  A test that fails is shown, and counts as far as it ran.
coverage: deps deps-test
	@$(call configure,coverage)
	@$(call build,coverage)
	@find build/coverage -name '*.gcda' -delete
	-$(call ctest,coverage) -L '^(unit|fault|coll|security|sim)$$' -LE '^(full|slow)$$' -E '[.](cuda_faults|harsh)$$'
	-$(call ctest,coverage) -L '^contract$$' -LE '^long$$'
	-$(call ctest,coverage) -R '$(coverage_more)'
	@tools/coverage.py build/coverage --functions

check: deps deps-check
	@$(call configure,release)
	@tools/check.sh build/release

bench: build-release
	@bench/run.sh build/release

# PUBLISH=1 writes the table and the plot into the documents, on an idle machine.
versus: deps deps-bench
	@$(call configure,release)
	@$(call build,release,versus_programs)
	@bench/versus.sh build/release $(if $(PUBLISH),--publish)

versus-gpu:
	@bench/versus-gpu.sh

build: deps
	@$(call configure,release)
	@$(call build,release,oriel_product)

# Printed for you to copy: a shell that knows the installed library, and the line of a compiler.
libdir = $(abspath $(PREFIX))/$$(sed -n 's/^CMAKE_INSTALL_LIBDIR:[A-Z]*=//p' build/release/CMakeCache.txt)
next_step = lib="$(libdir)"; \
	echo "Installed.  Next: export PATH=$(abspath $(PREFIX))/bin:\$$PATH PKG_CONFIG_PATH=$$lib/pkgconfig:\$$PKG_CONFIG_PATH"; \
	echo "Then: cc program.c -o program \$$(pkg-config --cflags --libs oriel) -Wl,-rpath,$$lib"

install: deps
	@$(call configure,release,-DCMAKE_INSTALL_PREFIX=$(PREFIX))
	@$(call build,release,oriel_product)
	cmake --install build/release --prefix $(PREFIX)
	@$(if $(DESTDIR),,$(next_step))

dist:
	@tools/dist.sh

deb: deps-deb
	@tools/deb.sh

clean:
	rm -rf build
