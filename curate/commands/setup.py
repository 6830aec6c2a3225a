"""``curate doctor`` and ``curate recipes``: what is there before a build."""

import json
import os
from typing import Annotated

import typer

from curate.commands.running import AsJson, cache_folder, reported


@reported
def doctor(
    policy: Annotated[str, typer.Option(help="Policy to look for.")] = "tiny",
    as_json: AsJson = False,
) -> None:
    """Say what is installed and what is missing.

    Names the engine and device a policy would run on. Exit code 1 when something is missing.

    Example: curate doctor --policy smollm2
    """
    from rich.console import Console

    from curate.pipelines.doctor import examine
    from curate.pipelines.findings import show

    findings = examine(policy, cache_folder(), os.environ.get("OPENAI_API_KEY"))
    if as_json:
        typer.echo(json.dumps([finding._asdict() for finding in findings]))
    else:
        show(findings, Console())
    if any(finding.state == "missing" for finding in findings):
        raise typer.Exit(1)


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


@reported
def show_recipe(
    name: Annotated[str, typer.Argument(help="A recipe's name.")], as_json: AsJson = False
) -> None:
    """Print a recipe to copy and edit.

    Example: curate recipes show frontier > mine.yaml
    """
    from curate.pipelines.recipe import load_recipe, recipe_text

    if as_json:
        typer.echo(json.dumps(load_recipe(name).plain(), ensure_ascii=False))
    else:
        typer.echo(recipe_text(name), nl=False)
