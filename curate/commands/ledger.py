"""``curate reverify`` and ``curate measure``: a build taken up again from its rollouts."""

import json
import os
from typing import Annotated

import typer

from curate.commands.running import (
    AsJson,
    BuildFolder,
    Settings,
    build_and_tell,
    reported,
    run_build,
)


@reported
def reverify(
    build_: BuildFolder,
    set_: Settings = None,
    as_json: AsJson = False,
) -> None:
    """Judge a build's rollouts again.

    Redoes all that follows and generates nothing. For when a verifier, one of its options or a
    gold in the source has changed.

    Example: curate reverify builds/demo
    """
    from curate.pipelines.again import judged_anew, verdict_figures
    from curate.pipelines.recipe import parse_settings

    figures = verdict_figures(run_build(judged_anew(build_, parse_settings(set_ or []))))
    if as_json:
        typer.echo(json.dumps(figures, ensure_ascii=False))
    else:
        for name, value in figures.items():
            typer.echo(f"{name:17} {json.dumps(value, ensure_ascii=False)}")


@reported
def measure(
    build_: BuildFolder,
    more: Annotated[int, typer.Option(min=1, help="Rollouts to add to every prompt.")],
    as_json: AsJson = False,
) -> None:
    """Add rollouts to those a build has.

    Redoes all that follows; no rollout is drawn twice.

    Example: curate measure builds/demo --more 8
    """
    from curate.pipelines.again import further

    build_and_tell(further(build_, more, os.environ.get("OPENAI_API_KEY")), as_json)
