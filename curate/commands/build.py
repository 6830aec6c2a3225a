"""``curate build``."""

import os
import re
from pathlib import Path
from typing import Annotated

import typer

from curate.commands.running import (
    AsJson,
    Settings,
    build_and_tell,
    cache_folder,
    check_and_tell,
    reported,
)


@reported
def build(
    source: Annotated[
        list[str] | None,
        typer.Option(
            help="File, folder or glob (.jsonl[.gz] .json .csv .parquet), - for stdin, or "
            "hf:owner/name[@rev][:config][:split]; may be repeated [default: the recipe's]."
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Build directory [default: builds/SOURCE-RECIPE].")
    ] = None,
    recipe: Annotated[str, typer.Option(help="Built-in recipe or a .yaml path.")] = "frontier",
    policy: Annotated[
        str | None,
        typer.Option(
            help="tiny, smollm2, a model folder, a hub id, http://HOST:PORT/v1[#MODEL] of an "
            "OpenAI-compatible server (key in OPENAI_API_KEY), or a policy of --import-rollouts "
            "[default: tiny]."
        ),
    ] = None,
    revision: Annotated[str | None, typer.Option(help="Model revision.")] = None,
    generator: Annotated[
        str | None, typer.Option(help="Model for the steps that write prompts; as --policy.")
    ] = None,
    imports: Annotated[
        list[str] | None,
        typer.Option(
            "--import-rollouts",
            help="Rollouts made elsewhere, each policy's measured too; may be repeated.",
        ),
    ] = None,
    question: Annotated[str | None, typer.Option(help="Column that holds the question.")] = None,
    answer: Annotated[str | None, typer.Option(help="Column that holds the gold answer.")] = None,
    kind: Annotated[
        str | None, typer.Option(help="Verifier for every row (math, choice, …), or its column.")
    ] = None,
    system: Annotated[
        str | None, typer.Option(help="System message for prompts that have none.")
    ] = None,
    rollouts: Annotated[int | None, typer.Option(min=1, help="Rollouts a prompt.")] = None,
    max_tokens: Annotated[int | None, typer.Option(min=1, help="Completion limit, tokens.")] = None,
    temperature: Annotated[float | None, typer.Option(min=0, help="Sampling temperature.")] = None,
    limit: Annotated[
        int | None, typer.Option(min=1, help="Read at most this many rows of each source.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of everything random.")] = 0,
    set_: Settings = None,
    engine: Annotated[
        str | None, typer.Option(help="transformers, vllm or openai [default: chosen].")
    ] = None,
    concurrency: Annotated[
        int | None, typer.Option(min=1, help="Requests to a server at once.")
    ] = None,
    device: Annotated[str | None, typer.Option(help="cpu or cuda [default: chosen].")] = None,
    batch_size: Annotated[int | None, typer.Option(min=1, help="Sequences at once.")] = None,
    workers: Annotated[int, typer.Option(min=1, help="Verifier processes.")] = os.cpu_count() or 2,
    cache: Annotated[
        Path | None, typer.Option(help="Completion cache [default: user cache folder].")
    ] = None,
    preflight: Annotated[
        bool,
        typer.Option("--preflight", help="Check all a build needs, in seconds; build nothing."),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Build a pool from sources.

    Reads, checks, deduplicates, measures, selects, orders and shards, as the recipe says; then
    writes card and report. Run again after a stop, it goes on where it was.

    Example: curate build --source data.jsonl --recipe frontier --policy smollm2 --out builds/demo
    """
    from curate.engines.models import engine_name
    from curate.pipelines.mixture import SourceSpec
    from curate.pipelines.recipe import merge, parse_settings
    from curate.pipelines.spec import BuildSpec

    measure = _given(max_tokens=max_tokens, temperature=temperature)
    if rollouts is not None:
        measure["rollouts"] = {"per_prompt": rollouts}
    qa = _given(question=question, answer=answer, kind=kind, system=system)
    flags = {name: values for name, values in (("measure", measure), ("qa", qa)) if values}
    settings = merge(parse_settings(set_ or []), flags)
    spec = BuildSpec(
        source=tuple(SourceSpec(uri=uri) for uri in source or ()),
        out=out or _default_out(source or [], recipe),
        recipe=recipe,
        settings=settings,
        policy=policy or (None if imports else "tiny"),
        generator=generator,
        imports=tuple(imports or ()),
        revision=revision,
        engine=engine_name(engine) if engine is not None else None,
        concurrency=concurrency,
        device=device,
        batch_size=batch_size,
        cache=cache or cache_folder() / "completions.sqlite",
        seed=seed,
        limit=limit,
        workers=workers,
    )
    if preflight:
        check_and_tell(spec, as_json)
    else:
        build_and_tell(spec, as_json)


def _given(**values: object) -> dict[str, object]:
    return {name: value for name, value in values.items() if value is not None}


def _default_out(sources: list[str], recipe: str) -> Path:
    stems = [
        "stdin" if uri == "-" else Path(uri.rstrip("/")).name.split(".")[0].strip("*")
        for uri in sources
    ]
    words = [re.sub(r"[^\w-]+", "-", stem) for stem in stems if stem] or ["source"] * bool(sources)
    return Path("builds") / "-".join([*words, Path(recipe).stem])
