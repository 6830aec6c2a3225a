"""What every command shares: how failures are told, where the cache is, how a build is run."""

import json
import os
import sys
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ParamSpec, TypeVar

import typer

if TYPE_CHECKING:
    from curate.pipelines.spec import BuildSpec
    from curate.pipelines.step import Metric

P = ParamSpec("P")
R = TypeVar("R")

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]
BuildFolder = Annotated[Path, typer.Argument(metavar="BUILD", help="A build directory.")]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", help="step.field=VALUE over the recipe's; may be repeated."),
]


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


def cache_folder() -> Path:
    """Where completions and converted weights are kept between builds."""
    base = os.environ.get("CURATE_CACHE")
    if base:
        return Path(base)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "curate"


def run_build(spec: "BuildSpec") -> "dict[str, Metric]":
    """Build under Prefect when an API is configured, as plain Python when none is."""
    from rich.console import Console

    from curate.pipelines.progress import reporter

    progress = reporter(Console(stderr=True))
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
    # Prefect's own threads tell of a server that went away; the error line does too.
    "PREFECT_LOGGING_INTERNAL_LEVEL": "CRITICAL",
    # A failure is told once, by this command; its traceback stays in the server's logs.
    "PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL": "CRITICAL",
    "PREFECT_CLI_PROMPT": "false",
}


def build_and_tell(spec: "BuildSpec", as_json: bool) -> None:
    """Build, then print the manifest or the closing table."""
    from rich.console import Console

    from curate.pipelines.show import closing_table

    manifest = run_build(spec)
    if as_json:
        typer.echo(json.dumps(manifest, ensure_ascii=False))
    else:
        closing_table(manifest, spec.out, Console())


def check_and_tell(spec: "BuildSpec", as_json: bool) -> None:
    """Run every check of a build and print what was found.

    Raises:
        typer.Exit: with 1 or 2 where a check failed.
    """
    from rich.console import Console

    from curate.pipelines.findings import exit_code, show
    from curate.pipelines.preflight import preflight

    findings = preflight(spec, os.environ.get("OPENAI_API_KEY"))
    if as_json:
        typer.echo(json.dumps([finding._asdict() for finding in findings], ensure_ascii=False))
    else:
        show(findings, Console())
    if code := exit_code(findings):
        raise typer.Exit(code)
