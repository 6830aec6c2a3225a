"""One build with the scripted policy; killed hard at event number KILL_AT, if that is given.

Events are file renames and completions: everything that can be lost or done twice.
Run as: resume_driver.py SOURCE OUT CACHE LOG [KILL_AT]
"""

import os
import signal
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from scripted import ScriptedEngine

from curate.engines.cache import CachedEngine
from curate.flows.build import build
from curate.pipelines import policies, spend
from curate.pipelines.spec import BuildSpec

source, out, cache, log = sys.argv[1:5]
kill_at = int(sys.argv[5]) if len(sys.argv) > 5 else None
n_events = 0


def event() -> None:
    global n_events
    n_events += 1
    if n_events == kill_at:
        os.kill(os.getpid(), signal.SIGKILL)


def counted(function):
    def run(*args, **kwargs):
        event()
        result = function(*args, **kwargs)
        event()
        return result

    return run


Path.replace = counted(Path.replace)
Path.rename = counted(Path.rename)
ScriptedEngine._answer = counted(ScriptedEngine._answer)
policies.resolve_model = lambda *_: object()
policies.open_engine = lambda *_, **__: CachedEngine(
    ScriptedEngine(Path(log)), Path(cache), batch_size=8
)
spend.BLOCK = 16

spec = BuildSpec(
    source=source,
    out=Path(out),
    recipe="qa",
    settings={"measure": {"rollouts": {"per_prompt": 4}}},
    workers=1,
)
build(spec)
print(n_events)
