# Everything a newcomer or a machine needs.  Nothing but Python 3.11+ is expected.
PYTHON ?= $(shell for p in python3.13 python3.12 python3.11 python3; do command -v $$p >/dev/null 2>&1 && $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo $$p; break; }; done)
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.pvectl-installed
export PATH := $(abspath $(BIN)):$(PATH)

# The quick ones first: the whole takes half an hour without KVM.
KERNEL_TESTS = tests/realkernel_ovmf tests/realkernel/test_grouping.py tests/realkernel/test_host_run.py tests/realkernel/test_dead_man.py

.PHONY: demo fuzz test test-laws test-kernel kernel-image kernel-paths test-corpus lint docs bench lock clean

demo: $(STAMP)
	$(BIN)/python -m provision.cli.demo

test: $(STAMP)
	$(BIN)/python -m pytest -q -n 2 --dist worksteal -m "not corpus and not laws and not realkernel and not gpu and not wheel and not fuzz" $(ARGS)

test-laws: $(STAMP)
	$(BIN)/python -m pytest -q -n 2 --dist worksteal -m "laws or wheel" $(ARGS)

test-kernel: $(STAMP)
	$(BIN)/python -m pytest -q -n 0 -m realkernel $(KERNEL_TESTS) $(ARGS)

fuzz: $(STAMP)
	$(BIN)/python -m pytest -q -n 2 --dist worksteal -m fuzz tests/readers $(ARGS)

kernel-image: $(STAMP)
	$(BIN)/python tests/realkernel/rk_image.py

kernel-paths:
	@echo $(KERNEL_TESTS)

test-corpus: $(STAMP)
	@test -n "$$PVECTL_CORPUS" && test -d "$$PVECTL_CORPUS" || { echo "test-corpus: PVECTL_CORPUS must name the folder with the public files" >&2; exit 1; }
	$(BIN)/python -m pytest -q -m corpus $(ARGS)

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/codespell
	$(BIN)/python docs/generate.py --check

docs: $(STAMP)
	$(BIN)/python docs/generate.py
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs docs/_build/html
	@echo "docs/_build/html/index.html"

bench: $(STAMP)
	$(BIN)/python benchmarks/run.py

lock:
	$(BIN)/uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-emit-find-links --no-header --extra lab --extra report --group test --group lint --group docs --group build pyproject.toml -o requirements.lock

$(STAMP): requirements.lock pyproject.toml
	@test -n "$(PYTHON)" || { echo "pvectl needs Python 3.11 or newer; none was found on PATH" >&2; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || { echo "hint: on Debian: apt install python3-venv" >&2; exit 1; }
	@echo "installing the locked requirements into $(VENV) ..." >&2
	@$(BIN)/python -m pip install -q --disable-pip-version-check --require-hashes -r requirements.lock
	@$(BIN)/python -m pip install -q --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

clean:
	rm -rf $(VENV) docs/_build dist build .coverage .mypy_cache .ruff_cache
