"""Questions to the misbehaving server, and what good answers to them are."""

from misbehaving import Server

from curate.engines.api import Completion, Message, Request, Sampling, sample_seed
from curate.engines.openai_engine import OpenAIEngine, Patience
from curate.engines.server import resolve_server

SAMPLING = Sampling(max_tokens=8)
QUICK = Patience(timeout_s=5.0, attempts=4, backoff_s=0.001, longest_wait_s=0.2)


def ask(n: int = 2, prompts: int = 3, first_sample: int = 0) -> list[Request]:
    return [Request(f"k{i}", (Message("user", f"q{i}"),), n, first_sample) for i in range(prompts)]


def engine(server: Server, concurrency: int = 4, **given) -> OpenAIEngine:
    ref = resolve_server(server.url, None, given.get("api_key"))
    return OpenAIEngine(ref, concurrency, **{"patience": QUICK, **given})


def check(made: list[list[Completion]], requests: list[Request]) -> None:
    """Every sample is there, and is the answer to its own prompt and seed."""
    for request, completions in zip(requests, made, strict=True):
        samples = range(request.first_sample, request.first_sample + request.n)
        assert [c.sample for c in completions] == list(samples)
        for c in completions:
            seed = sample_seed(0, request.key, c.sample) & 0x7FFFFFFF
            assert c.text == f"{request.messages[-1].content}|{seed}"
            assert (c.finish_reason, c.prompt_tokens, c.tokens) == ("stop", 7, 3)
