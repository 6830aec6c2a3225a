"""The command line. Imports what a command needs only when it runs, so that help is instant."""

import typer

from curate.commands.build import build
from curate.commands.ledger import measure, reverify
from curate.commands.look import inspect, report, verify_export
from curate.commands.setup import doctor, list_recipes, show_recipe

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Turn raw sources into RLVR prompt pools worth training on.",
)
for command in (build, inspect, report, reverify, measure, verify_export, doctor):
    app.command(command.__name__.replace("_", "-"))(command)
recipes = typer.Typer(no_args_is_help=False, rich_markup_mode=None)
recipes.callback(invoke_without_command=True)(list_recipes)
recipes.command("show")(show_recipe)
app.add_typer(recipes, name="recipes")


def main() -> None:
    """Entry point of the ``curate`` command."""
    app()
