"""The command line. Imports what a command needs only when it runs, so that help is instant."""

import json
import os
import re
import sys
from collections.abc import Callable, Mapping
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ParamSpec, TypeVar, cast

import typer

if TYPE_CHECKING:
    from curate.engines.models import EngineName
    from curate.pipelines.session import BuildSpec
    from curate.pipelines.step import Metric, Progress

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Turn raw sources into RLVR prompt pools worth training on.",
)
recipes = typer.Typer(no_args_is_help=False, rich_markup_mode=None)
app.add_typer(recipes, name="recipes")

P = ParamSpec("P")
R = TypeVar("R")

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]
Build = Annotated[Path, typer.Argument(help="A build directory.", show_default=False)]


def reported(command: Callable[P, R]) -> Callable[P, R]:
    """Turn an expected failure into one clear line and the right exit code."""

    @wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        from curate.pipelines.errors import CurateError

        try:
            return command(*args, **kwargs)
        except CurateError as error:
            typer.echo(f"error: {error}", err=True)
            raise typer.Exit(error.exit_code) from None
        except KeyboardInterrupt:
            typer.echo("\ninterrupted; the same command goes on from here", err=True)
            raise typer.Exit(130) from None
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(1) from None

    return run


@app.command()
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
        str,
        typer.Option(
            help="tiny, smollm2, a model folder, a hub id, or http://HOST:PORT/v1[#MODEL] of an "
            "OpenAI-compatible server (key in OPENAI_API_KEY)."
        ),
    ] = "tiny",
    revision: Annotated[str | None, typer.Option(help="Model revision.")] = None,
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
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", help="step.field=VALUE over the recipe's; may be repeated."),
    ] = None,
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
    as_json: AsJson = False,
) -> None:
    """Build a pool: read, check, dedup, measure, select, order, shard, card, report.

    Example: curate build --source data.jsonl --recipe frontier --policy smollm2 --out builds/demo
    """
    from rich.console import Console

    from curate.pipelines.mixture import SourceSpec
    from curate.pipelines.progress import reporter
    from curate.pipelines.recipe import parse_settings
    from curate.pipelines.session import BuildSpec
    from curate.pipelines.show import closing_table

    settings = parse_settings(set_ or [])
    measure = {"max_tokens": max_tokens, "temperature": temperature}
    _lay(settings, "measure", measure)
    if rollouts is not None:
        settings.setdefault("measure", {})["rollouts"] = {"per_prompt": rollouts}
    _lay(settings, "qa", {"question": question, "answer": answer, "kind": kind, "system": system})
    spec = BuildSpec(
        source=tuple(SourceSpec(uri=uri) for uri in source or ()),
        out=out or _default_out(source or [], recipe),
        recipe=recipe,
        settings=settings,
        policy=policy,
        revision=revision,
        engine=_engine(engine),
        concurrency=concurrency,
        device=device,
        batch_size=batch_size,
        cache=cache or _cache_folder() / "completions.sqlite",
        seed=seed,
        limit=limit,
        workers=workers,
    )
    console = Console(stderr=True)
    manifest = _run_build(spec, reporter(console))
    if as_json:
        typer.echo(json.dumps(manifest, ensure_ascii=False))
    else:
        closing_table(manifest, spec.out, Console())


@app.command()
@reported
def inspect(
    build_: Annotated[Path, typer.Argument(metavar="BUILD", help="A build directory.")],
    id_: Annotated[str | None, typer.Option("--id", help="One prompt, by id or its start.")] = None,
    sample: Annotated[int | None, typer.Option(min=1, help="So many prompts at random.")] = None,
    rejected: Annotated[
        bool, typer.Option("--rejected", help="What left the line, and why.")
    ] = False,
    seed: Annotated[int, typer.Option(min=0, help="Seed of --sample.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Show a build: its figures, or records whole with their parents and rollouts.

    Example: curate inspect builds/demo --sample 3
    """
    from rich.console import Console

    from curate.pipelines.show import show_build, show_prompts, show_rejected

    console = Console()
    if rejected:
        show_rejected(build_, sample, seed, console, as_json)
    elif id_ or sample:
        show_prompts(build_, id_, sample or 1, seed, console, as_json)
    else:
        show_build(build_, console, as_json)


@app.command()
@reported
def report(build_: Annotated[Path, typer.Argument(metavar="BUILD")]) -> None:
    """Write the data card and report.html of a build again.

    Example: curate report builds/demo
    """
    from curate.pipelines.card import write_card
    from curate.pipelines.report import write_report
    from curate.pipelines.store import read_manifest

    manifest = read_manifest(build_)
    typer.echo(write_card(build_, manifest))
    typer.echo(write_report(build_, manifest))


@app.command()
@reported
def reverify(
    build_: Annotated[Path, typer.Argument(metavar="BUILD", help="A build directory.")],
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", help="step.field=VALUE over the build's; may be repeated."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Judge a build's stored rollouts again, and redo all that follows; nothing is generated.

    For when a verifier, a verifier option or a gold in the source has changed.

    Example: curate reverify builds/demo
    """
    from rich.console import Console

    from curate.pipelines.again import stored_spec, verdict_figures
    from curate.pipelines.progress import reporter
    from curate.pipelines.recipe import parse_settings
    from curate.pipelines.session import BuildSpec

    fields = stored_spec(build_)
    settings = {name: dict(values) for name, values in fields["settings"].items()}
    for step, values in parse_settings(set_ or []).items():
        _lay(settings, step, values)
    spec = BuildSpec.model_validate({**fields, "settings": settings, "replay": True})
    figures = verdict_figures(_run_build(spec, reporter(Console(stderr=True))))
    if as_json:
        typer.echo(json.dumps(figures, ensure_ascii=False))
    else:
        for name, value in figures.items():
            typer.echo(f"{name:17} {json.dumps(value, ensure_ascii=False)}")


@app.command()
@reported
def measure(
    build_: Annotated[Path, typer.Argument(metavar="BUILD", help="A build directory.")],
    more: Annotated[int, typer.Option(min=1, help="Rollouts to add to every prompt.")],
    as_json: AsJson = False,
) -> None:
    """Add rollouts to those a build has, and redo all that follows.

    Example: curate measure builds/demo --more 8
    """
    from rich.console import Console

    from curate.pipelines.again import further
    from curate.pipelines.progress import reporter
    from curate.pipelines.session import BuildSpec
    from curate.pipelines.show import closing_table

    spec = BuildSpec.model_validate(further(build_, more))
    manifest = _run_build(spec, reporter(Console(stderr=True)))
    if as_json:
        typer.echo(json.dumps(manifest, ensure_ascii=False))
    else:
        closing_table(manifest, spec.out, Console())


@app.command("verify-export")
@reported
def verify_export_(
    shards: Annotated[Path, typer.Argument(help="A build, its shards, or one trainer's folder.")],
    trainer: Annotated[str, typer.Option(help="Whose way to load the files.")],
    sample: Annotated[
        int | None, typer.Option(min=1, help="Try the rewards of so many rows [default: all].")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of --sample.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Load shards as a trainer does; check schema, order, lineage and rewards. Exit 1 on a failure.

    Example: curate verify-export builds/demo --trainer verl
    """
    from curate.pipelines.verify_export import verify_export

    report = verify_export(shards, trainer, sample, seed)
    if as_json:
        typer.echo(json.dumps(report.as_dict(), ensure_ascii=False))
    else:
        for check in report.checks:
            typer.echo(f"{'ok  ' if check.ok else 'FAIL'} {check.name}: {check.detail}")
            for failure in check.failures[:10]:
                typer.echo(f"       {failure}")
            if len(check.failures) > 10:
                typer.echo(f"       and {len(check.failures) - 10} more (--json lists all)")
    if not report.ok:
        raise typer.Exit(1)


@app.command()
@reported
def doctor(
    policy: Annotated[str, typer.Option(help="Policy to look for.")] = "tiny",
    as_json: AsJson = False,
) -> None:
    """Say what is installed, which engine and device would be used, and what is missing.

    Example: curate doctor --policy smollm2
    """
    from rich.console import Console

    from curate.pipelines.doctor import examine, show

    findings = examine(policy, _cache_folder())
    if as_json:
        typer.echo(json.dumps([finding._asdict() for finding in findings]))
    else:
        show(findings, Console())
    if any(finding.state == "missing" for finding in findings):
        raise typer.Exit(1)


@recipes.callback(invoke_without_command=True)
@reported
def list_recipes(context: typer.Context, as_json: AsJson = False) -> None:
    """List the built-in recipes.

    Example: curate recipes; curate recipes show frontier > mine.yaml
    """
    if context.invoked_subcommand:
        return
    from curate.pipelines.recipe import load_recipe, recipe_names

    found = {name: load_recipe(name).description for name in recipe_names()}
    if as_json:
        typer.echo(json.dumps(found))
    else:
        for name, description in found.items():
            typer.echo(f"{name:12} {description}")


@recipes.command("show")
@reported
def show_recipe(name: Annotated[str, typer.Argument(help="A recipe's name.")]) -> None:
    """Print a recipe to copy and edit.

    Example: curate recipes show frontier > mine.yaml
    """
    from curate.pipelines.recipe import recipe_text

    typer.echo(recipe_text(name), nl=False)


def _lay(settings: dict[str, dict[str, object]], step: str, values: Mapping[str, object]) -> None:
    given = {name: value for name, value in values.items() if value is not None}
    if given:
        settings[step] = {**settings.get(step, {}), **given}


def _default_out(sources: list[str], recipe: str) -> Path:
    stems = [
        "stdin" if uri == "-" else Path(uri.rstrip("/")).name.split(".")[0].strip("*")
        for uri in sources
    ]
    words = [re.sub(r"[^\w-]+", "-", stem) for stem in stems if stem] or ["source"] * bool(sources)
    return Path("builds") / "-".join([*words, Path(recipe).stem])


def _engine(name: str | None) -> "EngineName | None":
    from curate.pipelines.errors import UsageError

    if name is None or name in {"transformers", "vllm", "openai"}:
        return cast("EngineName | None", name)
    raise UsageError(f"--engine {name!r}: give transformers, vllm or openai")


def _cache_folder() -> Path:
    base = os.environ.get("CURATE_CACHE")
    if base:
        return Path(base)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "curate"


def _run_build(spec: "BuildSpec", progress: "Progress") -> "dict[str, Metric]":
    """Under Prefect when an API is configured, as plain Python when none is."""
    if os.environ.get("PREFECT_API_URL"):
        for name, value in _QUIET.items():
            os.environ.setdefault(name, value)
        from curate.flows.prefect_build import build_under_prefect

        return build_under_prefect(spec, progress, os.environ.get("OPENAI_API_KEY"))
    from curate.flows.build import build as build_flow

    return build_flow(spec, progress, api_key=os.environ.get("OPENAI_API_KEY"))


_QUIET = {
    "DO_NOT_TRACK": "1",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "PREFECT_LOGGING_LEVEL": "ERROR",
    # A failure is told once, by this command; its traceback stays in the server's logs.
    "PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL": "CRITICAL",
    "PREFECT_CLI_PROMPT": "false",
}


def main() -> None:
    """Entry point of the ``curate`` command."""
    app()
