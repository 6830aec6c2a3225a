"""The ``transformers`` engine: any causal model in Hugging Face format, on CUDA or CPU.

Its own decoding loop rather than ``generate``: every completion's draws come from its own seed, a
prompt is read once for all its samples, finished rows leave the batch, and log-probabilities are
those of the model before temperature.
"""

import gc
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import Any, Literal, TypeAlias

import numpy as np

from curate.engines.api import (
    Completion,
    EngineIdentity,
    OnBatch,
    Request,
    Sampling,
    sample_uniforms,
)
from curate.engines.batching import plan
from curate.engines.encode import encode
from curate.engines.models import ModelRef
from curate.engines.quiet import quiet
from curate.pipelines.errors import EngineError, UsageError

Device: TypeAlias = Literal["cpu", "cuda"]


def choose_device(device: str | None) -> Device:
    """``cuda`` where a driver and a CUDA build of torch are there, else ``cpu``.

    Raises:
        UsageError: the device asked for is not known or not there.
    """
    if device not in {None, "cpu", "cuda"}:
        raise UsageError(f"device {device!r} is not known; give cpu or cuda")
    if device == "cpu" or (device is None and not has_driver()):
        return "cpu"
    import torch

    if torch.cuda.is_available():
        return "cuda"
    if device == "cuda":
        raise UsageError("device cuda: this torch finds no CUDA device; see `curate doctor`")
    return "cpu"


class TransformersEngine:
    """Generates with a model held in this process.

    Args:
        model: what to load.
        device: where.
        batch_size: most completions at once; halved while memory runs out.
    """

    def __init__(self, model: ModelRef, device: Device, batch_size: int) -> None:
        self.model, self.device, self.batch_size = model, device, batch_size
        self._loaded: tuple[Any, Any] | None = None

    @property
    def identity(self) -> EngineIdentity:
        """Known without loading weights."""
        return EngineIdentity(
            backend="transformers",
            model=self.model.name,
            revision=self.model.revision,
            template=self.model.template,
            dtype="bfloat16" if self.device == "cuda" else "float32",
        )

    def generate(
        self,
        requests: Sequence[Request],
        sampling: Sampling,
        on_batch: OnBatch | None = None,
    ) -> list[list[Completion]]:
        """Answer every request; see ``Engine.generate``.

        Raises:
            EngineError: the model cannot be loaded, one completion does not fit the memory, or
                ``max_tokens`` not the context.
            PromptTooLong: prompts that leave no room for ``max_tokens``; nothing was generated.
            UsageError: completions are to be held to a form.
        """
        if sampling.structure is not None:
            raise UsageError(
                f"{self.model.name}: engine transformers cannot hold completions to a form; "
                "use engine vllm, or a server"
            )
        answers: list[list[Completion]] = [[] for _ in requests]
        prompts = self._encode(requests, sampling)
        for batch in plan(requests, self.batch_size):
            rows = [
                (index, requests[index].first_sample + i)
                for index in batch
                for i in range(requests[index].n)
            ]
            made: list[Completion] = []
            for start in range(0, len(rows), self.batch_size):
                part = rows[start : start + self.batch_size]
                made += self._fitting(requests, prompts, part, sampling)
            for (index, _), completion in zip(rows, made, strict=True):
                answers[index].append(completion)
            if on_batch:
                on_batch(batch, [answers[index] for index in batch])
        return answers

    def close(self) -> None:
        """Free the model."""
        if self._loaded is not None:
            self._loaded = None
            gc.collect()

    def _load(self) -> tuple[Any, Any]:
        if self._loaded is None:
            self._loaded = _load(self.model.name, self.model.folder, self.device)
        return self._loaded

    def _encode(self, requests: Sequence[Request], sampling: Sampling) -> list[list[int]]:
        model, tokenizer = self._load()
        context = getattr(model.config, "max_position_embeddings", None)
        return encode(self.model.name, tokenizer, context, requests, sampling)

    def _fitting(
        self,
        requests: Sequence[Request],
        prompts: list[list[int]],
        rows: list[tuple[int, int]],
        sampling: Sampling,
    ) -> list[Completion]:
        import torch

        try:
            return self._batch(requests, prompts, rows, sampling)
        except torch.OutOfMemoryError as error:
            if len(rows) == 1:
                key = requests[rows[0][0]].key
                raise EngineError(
                    f"{self.model.name}: out of memory on one completion of prompt {key}; "
                    "lower max_tokens or use a smaller model"
                ) from error
        # Outside the handler: the exception holds the failed batch's tensors alive.
        gc.collect()
        torch.cuda.empty_cache()
        half = (len(rows) + 1) // 2
        return [
            completion
            for part in (rows[:half], rows[half:])
            for completion in self._fitting(requests, prompts, part, sampling)
        ]

    def _batch(
        self,
        requests: Sequence[Request],
        prompts: list[list[int]],
        rows: list[tuple[int, int]],
        sampling: Sampling,
    ) -> list[Completion]:
        from curate.engines.decode import decode

        model, tokenizer = self._load()
        started = perf_counter()
        draws = np.stack(
            [
                sample_uniforms(sampling.seed, requests[index].key, sample, sampling.max_tokens)
                for index, sample in rows
            ]
        )
        made = decode(
            model, tokenizer, [prompts[index] for index, _ in rows], draws, sampling, self.device
        )
        seconds = (perf_counter() - started) / len(rows)
        return [
            replace(completion, sample=sample, seconds=seconds)
            for (_, sample), completion in zip(rows, made, strict=True)
        ]


def has_driver() -> bool:
    """Asked before torch is imported: on a machine without a driver that import is not needed."""
    return Path("/dev/nvidiactl").exists() or Path("/dev/dxg").exists()


def _load(name: str, folder: Path, device: Device) -> tuple[Any, Any]:
    import torch
    from safetensors import SafetensorError
    from transformers import AutoModelForCausalLM, AutoTokenizer

    dtype = torch.bfloat16 if device == "cuda" else torch.float32
    try:
        with quiet():
            tokenizer = AutoTokenizer.from_pretrained(folder, padding_side="left")
            model = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype)
    except (OSError, ValueError, KeyError, ImportError, RuntimeError, SafetensorError) as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else repr(error)
        raise EngineError(f"policy {name!r}: {folder}: cannot be loaded: {reason}") from error
    return model.to(device).eval(), tokenizer
