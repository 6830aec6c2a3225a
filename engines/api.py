"""The Engine contract: prompts in, completions out.

An engine is opened cheaply and loads its weights on the first ``generate``, so a build whose
completions are all cached never loads a model. Identity is known before loading, because step
digests and cache keys are made of it.
"""

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Literal, Protocol, TypeAlias, runtime_checkable

import numpy as np

FinishReason: TypeAlias = Literal["stop", "length"]


@dataclass(frozen=True, slots=True)
class Message:
    """One chat turn."""

    role: str
    content: str


@dataclass(frozen=True, slots=True)
class Request:
    """``n`` completions asked of one prompt.

    Args:
        key: the prompt's id; each sample's randomness derives from it, never from its neighbours.
        messages: chat turns, before any template.
        n: how many completions.
        first_sample: index of the first one, so that samples can be added to those already there.
    """

    key: str
    messages: tuple[Message, ...]
    n: int = 1
    first_sample: int = 0


@dataclass(frozen=True, slots=True)
class Structure:
    """The form a completion must have: exactly one of these.

    Args:
        json_schema: text of a JSON Schema object the completion must be valid under.
        regex: pattern the whole completion must match.
        choice: texts, one of which the completion must be.

    Raises:
        ValueError: none or several are given, or the schema is no JSON object.
    """

    json_schema: str | None = None
    regex: str | None = None
    choice: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        given = [value for value in (self.json_schema, self.regex, self.choice) if value]
        if len(given) != 1:
            raise ValueError(f"give exactly one of json_schema, regex, choice; got {len(given)}")
        if self.json_schema is not None and not isinstance(json.loads(self.json_schema), dict):
            raise ValueError("json_schema must be the text of a JSON object")


@dataclass(frozen=True, slots=True)
class Sampling:
    """How completions are drawn. ``temperature`` 0 means greedy.

    Args:
        temperature: softmax temperature, ≥ 0.
        top_p: nucleus mass in (0, 1].
        max_tokens: completion length limit in tokens; reaching it is ``finish_reason`` "length".
        stop: strings that end a completion and are not part of it.
        seed: base seed; the seed of one completion is ``sample_seed(seed, key, sample)``.
        structure: form the completion is held to while it is generated; not every engine can.
    """

    temperature: float = 1.0
    top_p: float = 1.0
    max_tokens: int = 256
    stop: tuple[str, ...] = ()
    seed: int = 0
    structure: Structure | None = None

    def __post_init__(self) -> None:
        if self.temperature < 0 or not 0 < self.top_p <= 1 or self.max_tokens < 1:
            raise ValueError(
                "temperature must be ≥ 0, top_p in (0, 1], max_tokens ≥ 1; "
                f"got {self.temperature}, {self.top_p}, {self.max_tokens}"
            )


@dataclass(frozen=True, slots=True)
class Completion:
    """One completion.

    Args:
        sample: index within its prompt.
        text: generated text, special tokens and the stop string removed.
        finish_reason: "stop" or "length" (truncated, not the same as wrong).
        prompt_tokens: tokens of the rendered prompt.
        tokens: tokens generated, the end-of-sequence token included.
        logprob_sum: sum of the chosen tokens' log-probabilities under the sampled distribution
            before temperature and top-p, or None when the engine cannot tell.
        seconds: this completion's share of its batch's wall time.
    """

    sample: int
    text: str
    finish_reason: FinishReason
    prompt_tokens: int
    tokens: int
    logprob_sum: float | None
    seconds: float


@dataclass(frozen=True, slots=True)
class EngineIdentity:
    """Everything about an engine that can change what it answers."""

    backend: str  # transformers | vllm | openai
    model: str  # name as given: hub id, path, URL or built-in name
    revision: str  # commit, or digest of the files
    template: str  # digest of the chat template, or "plain"
    dtype: str

    @property
    def key(self) -> str:
        """16 hex digits that change when anything here changes."""
        text = json.dumps(asdict(self), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


#: Called with what is done as soon as it is done: indices into the requests, and for each of them
#: completions. An engine whose samples finish one by one calls it with some of a request's samples
#: at a time; over all calls of one ``generate`` every sample is told exactly once.
OnBatch: TypeAlias = Callable[[list[int], list[list[Completion]]], None]


@runtime_checkable
class Engine(Protocol):
    """What generates.

    ``generate`` returns one list per request, in the order of the requests, each with exactly
    ``request.n`` completions whose ``sample`` runs from ``first_sample``.
    """

    @property
    def identity(self) -> EngineIdentity:
        """Known without loading weights."""
        ...

    def generate(
        self,
        requests: Sequence[Request],
        sampling: Sampling,
        on_batch: OnBatch | None = None,
    ) -> list[list[Completion]]:
        """Answer every request.

        Raises:
            EngineError: the model cannot be loaded or does not answer.
            PromptTooLong: prompts that do not fit its context; raised before anything is generated
                where the engine counts tokens itself, and by engines that ask a server once
                everything else is generated and told to ``on_batch``.
            UsageError: the engine cannot do what ``sampling`` asks, such as ``structure``.
        """
        ...

    def close(self) -> None:
        """Free the model."""
        ...


def sample_seed(seed: int, key: str, sample: int) -> int:
    """63-bit seed of one completion: it depends on nothing but these three.

    >>> sample_seed(0, "a", 0) != sample_seed(0, "a", 1)
    True
    """
    digest = hashlib.sha256(f"{seed}\x1f{key}\x1f{sample}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


def sample_uniforms(seed: int, key: str, sample: int, n: int) -> np.ndarray:
    """The ``n`` uniforms in [0, 1) that draw one completion's tokens, float64."""
    return np.random.default_rng(sample_seed(seed, key, sample)).random(n)
