"""The ``vllm`` engine: a model in Hugging Face format under vLLM's offline engine, CUDA or CPU.

Every sample is a request of its own with its own seed, so that a sample's draws depend on no other
and samples added later differ from the first; the prompt's blocks are computed once for all of them
by prefix caching. Finished samples are told as they finish.

The scheduler runs in this process and the model in one process of its own, which ends when this one
does, however it does: left to itself vLLM puts the scheduler in a process too, one that outlives a
killed parent and holds the model's memory for ever.
"""

import gc
import json
import logging
import os
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from importlib.util import find_spec
from time import perf_counter
from typing import Any, Literal

from curate.engines.api import (
    Completion,
    EngineIdentity,
    FinishReason,
    OnBatch,
    Request,
    Sampling,
    Structure,
    sample_seed,
)
from curate.engines.encode import encode
from curate.engines.models import ModelRef
from curate.engines.quiet import quiet
from curate.pipelines.errors import EngineError, UsageError

_INSTALL = (
    "pip install 'curate-rlvr[vllm]' (CUDA), or .ci/vllm FOLDER in a clone (CPUs with AVX-512), "
    "in an environment of its own"
)

#: vLLM's own default on CPUs is nearly all memory of the machine.
_CPU_CACHE_BYTES = 4 << 30
_CPU_BATCHED_TOKENS = 16384
_CUDA_SHARE = 0.9
#: Set while vLLM is imported and started, unless the user has set them.
_SETTINGS = {
    "VLLM_LOGGING_LEVEL": "ERROR",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",  # no process for the scheduler
}
#: With free whitespace between JSON's tokens, a weak model fills its whole length with it.
_FORMS = {"backend": "xgrammar", "disable_any_whitespace": True}
#: What vLLM raises for parameters it cannot use; the second came later and is no ValueError.
_REFUSALS = frozenset({"ValueError", "VLLMValidationError"})
#: What it says to those who wait for a process that is gone.
_ENDED = "cancelled"
_FINISH: Mapping[str | None, FinishReason] = {"stop": "stop", "length": "length"}


def check_installed() -> None:
    """Ask for vLLM before anything is begun with it; importing it takes many seconds.

    Raises:
        EngineError: it is not installed.
    """
    if find_spec("vllm") is None:
        raise EngineError(f"engine vllm: vllm is not installed: {_INSTALL}")


class VllmEngine:
    """Generates with ``vllm.LLM``.

    Args:
        model: what to load.
        device: where.
        seed: of the engine itself; completions have their own.
        cache_bytes: memory for attention keys and values on CPU; on CUDA vLLM takes what is left.
        memory_share: share of a GPU's memory to use, in (0, 1].
    """

    def __init__(
        self,
        model: ModelRef,
        device: Literal["cpu", "cuda"],
        *,
        seed: int = 0,
        cache_bytes: int = _CPU_CACHE_BYTES,
        memory_share: float = _CUDA_SHARE,
    ) -> None:
        self.model, self.device, self.seed = model, device, seed
        self.cache_bytes, self.memory_share = cache_bytes, memory_share
        self._loaded: tuple[Any, Any] | None = None
        self._asked = 0

    @property
    def identity(self) -> EngineIdentity:
        """Known without loading weights."""
        return EngineIdentity(
            backend="vllm",
            model=self.model.name,
            revision=self.model.revision,
            template=self.model.template,
            dtype="bfloat16",
        )

    def generate(
        self,
        requests: Sequence[Request],
        sampling: Sampling,
        on_batch: OnBatch | None = None,
    ) -> list[list[Completion]]:
        """Answer every request; see ``Engine.generate``.

        Raises:
            EngineError: vLLM is not installed, cannot load the model, or fails.
            PromptTooLong: prompts that leave no room for ``max_tokens``; nothing was generated.
            UsageError: vLLM cannot hold completions to the form asked for.
        """
        llm, tokenizer = self._load()
        context = llm.model_config.max_model_len
        prompts = encode(self.model.name, tokenizer, context, requests, sampling)
        answers: list[dict[int, Completion]] = [{} for _ in requests]
        with closing(self._stream(llm.llm_engine, requests, prompts, sampling)) as stream:
            for done in stream:
                for index, completion in done:
                    answers[index][completion.sample] = completion
                if on_batch:
                    on_batch([index for index, _ in done], [[made] for _, made in done])
        return [[made[sample] for sample in sorted(made)] for made in answers]

    def close(self) -> None:
        """Free the model: its process, where it has one."""
        if self._loaded is not None:
            llm, _ = self._loaded
            self._loaded = None
            llm.llm_engine.engine_core.shutdown()
            del llm
        gc.collect()

    def _stream(
        self,
        engine: Any,
        requests: Sequence[Request],
        prompts: list[list[int]],
        sampling: Sampling,
    ) -> Generator[list[tuple[int, Completion]]]:
        """What is done, after each of the engine's steps that finishes something."""
        places: dict[str, tuple[int, int]] = {}
        try:
            for index, request in enumerate(requests):
                for sample in range(request.first_sample, request.first_sample + request.n):
                    self._asked += 1
                    name = str(self._asked)
                    places[name] = index, sample
                    params = self._params(sampling, sample_seed(sampling.seed, request.key, sample))
                    engine.add_request(name, {"prompt_token_ids": prompts[index]}, params)
            yield from self._steps(engine, places)
        except Exception as error:  # vLLM raises builtin ones and its own
            failed = self._failed(error, sampling.structure)
            if not isinstance(failed, UsageError):
                self.close()  # the next call starts it anew
            raise failed from error
        finally:
            if places and self._loaded:
                engine.abort_request(list(places))

    def _steps(
        self, engine: Any, places: dict[str, tuple[int, int]]
    ) -> Iterator[list[tuple[int, Completion]]]:
        last = perf_counter()
        while places:
            outputs = [output for output in engine.step() if output.finished]
            if not outputs:
                continue
            now = perf_counter()
            seconds, last = (now - last) / len(outputs), now
            done = []
            for output in outputs:
                index, sample = places.pop(output.request_id)
                done.append((index, _completion(output, sample, seconds)))
            yield done

    def _params(self, sampling: Sampling, seed: int) -> Any:
        from vllm import SamplingParams

        return SamplingParams(
            temperature=sampling.temperature,
            top_p=sampling.top_p,
            max_tokens=sampling.max_tokens,
            stop=list(sampling.stop),
            seed=seed,
            logprobs=0,
            structured_outputs=_structured(sampling.structure),
        )

    def _failed(self, error: Exception, structure: Structure | None) -> EngineError | UsageError:
        reason = str(error).strip().partition("\n")[0] or repr(error)
        if structure and type(error).__name__ in _REFUSALS:
            return UsageError(f"vLLM cannot hold completions to {structure}: {reason}")
        if reason == _ENDED:
            reason = "the model's process has ended; was memory short?"
        return EngineError(f"policy {self.model.name!r}: vLLM failed: {reason}")

    def _load(self) -> tuple[Any, Any]:
        if self._loaded is None:
            self._loaded = self._start()
        return self._loaded

    def _start(self) -> tuple[Any, Any]:
        folder = str(self.model.folder)
        try:
            with _environment(_SETTINGS), _threads(), quiet():
                from transformers import AutoTokenizer
                from vllm import LLM

                tokenizer = AutoTokenizer.from_pretrained(folder)
                llm = LLM(
                    folder,
                    seed=self.seed,
                    dtype="bfloat16",
                    # Or the model's own defaults would change what is sampled.
                    generation_config="vllm",
                    enable_prefix_caching=True,
                    structured_outputs_config=_FORMS,
                    use_tqdm_on_load=False,
                    distributed_executor_backend="mp",
                    **self._placement(),
                )
                # What it was at when it failed: hundreds of kilobytes on standard error.
                logging.getLogger("vllm.logging_utils.dump_input").setLevel(logging.CRITICAL)
        except ImportError as error:
            raise EngineError(f"engine vllm: {error}: {_INSTALL}") from error
        except Exception as error:  # whatever a broken file makes its libraries raise
            reason = str(error).strip().partition("\n")[0] or repr(error)
            raise EngineError(
                f"policy {self.model.name!r}: {folder}: vLLM cannot load it: {reason}; "
                "VLLM_LOGGING_LEVEL=INFO shows more"
            ) from error
        return llm, tokenizer

    def _placement(self) -> dict[str, Any]:
        if self.device == "cuda":
            return {"gpu_memory_utilization": self.memory_share}
        config = json.loads((self.model.folder / "config.json").read_text(encoding="utf-8"))
        context = int(config.get("max_position_embeddings") or 0)
        return {
            # Compiling takes longer than it gains.
            "enforce_eager": True,
            "kv_cache_memory_bytes": self.cache_bytes,
            # A prefill in chunks winds seeded generators back, which those of CPUs cannot: the
            # engine would die. Unchunked, every prompt must fit one step.
            "enable_chunked_prefill": False,
            "max_num_batched_tokens": max(_CPU_BATCHED_TOKENS, context),
        }


def _completion(output: Any, sample: int, seconds: float) -> Completion:
    made = output.outputs[0]
    if made.finish_reason not in _FINISH:
        raise RuntimeError(f"a completion ended by {made.finish_reason!r}")
    return Completion(
        sample=sample,
        text=made.text,
        finish_reason=_FINISH[made.finish_reason],
        prompt_tokens=len(output.prompt_token_ids),
        tokens=len(made.token_ids),
        logprob_sum=made.cumulative_logprob,
        seconds=seconds,
    )


def _structured(structure: Structure | None) -> Any:
    if structure is None:
        return None
    from vllm.sampling_params import StructuredOutputsParams

    if structure.json_schema:
        return StructuredOutputsParams(json=structure.json_schema)
    if structure.regex:
        return StructuredOutputsParams(regex=structure.regex)
    return StructuredOutputsParams(choice=list(structure.choice or ()))


@contextmanager
def _environment(values: Mapping[str, str]) -> Iterator[None]:
    """Only from the environment do vLLM and its processes take these settings."""
    added = {name: value for name, value in values.items() if name not in os.environ}
    os.environ.update(added)
    try:
        yield
    finally:
        for name in added:
            os.environ.pop(name, None)


@contextmanager
def _threads() -> Iterator[None]:
    """VLLM's scheduler turns torch down to one thread here; other models share this process."""
    import torch

    threads = torch.get_num_threads()
    try:
        yield
    finally:
        torch.set_num_threads(threads)
