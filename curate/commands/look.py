"""``curate inspect``, ``report`` and ``verify-export``: what a build holds."""

import json
from pathlib import Path
from typing import Annotated

import typer

from curate.commands.running import AsJson, BuildFolder, reported


@reported
def inspect(
    build_: BuildFolder,
    id_: Annotated[str | None, typer.Option("--id", help="One prompt, by id or its start.")] = None,
    sample: Annotated[int | None, typer.Option(min=1, help="So many prompts at random.")] = None,
    rejected: Annotated[
        bool, typer.Option("--rejected", help="What left the line, and why.")
    ] = False,
    seed: Annotated[int, typer.Option(min=0, help="Seed of --sample.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Show a build, or records of it.

    Records are shown whole, with their parents and rollouts.

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


@reported
def report(build_: BuildFolder, as_json: AsJson = False) -> None:
    """Write a build's card and report again.

    Example: curate report builds/demo
    """
    from curate.pipelines.card import write_card
    from curate.pipelines.report import write_report
    from curate.pipelines.store import read_manifest

    manifest = read_manifest(build_)
    written = {"card": write_card(build_, manifest), "report": write_report(build_, manifest)}
    if as_json:
        typer.echo(json.dumps({name: str(path) for name, path in written.items()}))
    else:
        for path in written.values():
            typer.echo(path)


@reported
def verify_export(
    shards: Annotated[Path, typer.Argument(help="A build, its shards, or one trainer's folder.")],
    trainer: Annotated[str, typer.Option(help="Whose way to load the files.")],
    sample: Annotated[
        int | None, typer.Option(min=1, help="Try the rewards of so many rows [default: all].")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of --sample.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Check shards the way a trainer reads them.

    Schema, order, lineage and rewards: each gold must earn 1 and a wrong answer 0 through that
    trainer's reward hook. Exit code 1 when a check fails.

    Example: curate verify-export builds/demo --trainer verl
    """
    from curate.pipelines import verify_export as exports

    report = exports.verify_export(shards, trainer, sample, seed)
    if as_json:
        typer.echo(json.dumps(report.as_dict(), ensure_ascii=False))
    else:
        for check in report.checks:
            detail = "" if check.detail == "ok" else f": {check.detail}"
            typer.echo(f"{'ok  ' if check.ok else 'FAIL'} {check.name}{detail}")
            for failure in check.failures[:10]:
                typer.echo(f"       {failure}")
            if len(check.failures) > 10:
                typer.echo(f"       and {len(check.failures) - 10} more (--json lists all)")
    if not report.ok:
        raise typer.Exit(1)
