# Two commands do all set-up: `make demo` runs the main job, `make test` the test suite.
PYTHON ?= python3.11
VENV   ?= .venv
BIN    := $(VENV)/bin
# A CPU build of torch where the index offers one under this version; on PyPI's own wheels
# (Linux) this pulls CUDA: see README, "A CPU build of torch".
TORCH  ?= torch==2.13.0
OUT    ?= builds/demo

VLLM_VENV ?= .venv-vllm

.PHONY: demo test test-server test-vllm clean

$(BIN)/.ready: pyproject.toml
	@command -v $(PYTHON) >/dev/null || { echo "needs $(PYTHON); set PYTHON=…"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet "$(TORCH)"
	$(BIN)/python -m pip install --quiet --editable ".[dev]"
	@touch $@

demo: $(BIN)/.ready  ## build a curriculum from the sample source with the built-in tiny policy
	$(BIN)/curate build --source examples/arithmetic.jsonl --policy tiny --recipe frontier --out $(OUT)

test: $(BIN)/.ready  ## lint, types and the whole default suite
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -n 2

test-server: $(BIN)/.ready  ## builds under a real Prefect server on loopback
	$(BIN)/python -m pytest -m server tests/flows

$(VLLM_VENV)/.ready: pyproject.toml .ci/vllm
	PYTHON="$(PYTHON)" TORCH="$(TORCH)" .ci/vllm $(VLLM_VENV)

test-vllm: $(VLLM_VENV)/.ready  ## the vLLM engine, offline and served, in a venv of its own
	$(VLLM_VENV)/bin/python -m pytest -m vllm tests/engines/test_vllm_engine.py

clean:
	rm -rf $(VENV) $(VLLM_VENV) builds build dist *.egg-info
