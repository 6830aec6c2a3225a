"""Which verifiers judged: a digest of their own code and of the libraries that decide with them.

A number raised by hand is forgotten once, and then verdicts of two verifiers share one name. A
digest also moves when only a comment does; judging again costs no rollout.
"""

import hashlib
from importlib.metadata import version
from importlib.resources import files

_DECIDING = ("math-verify", "latex2sympy2_extended", "sympy", "pint")


def verifier_version() -> str:
    """12 hex digits that change whenever a verdict may change."""
    digest = hashlib.sha256()
    modules = (entry for entry in files("curate.verifiers").iterdir() if entry.name.endswith(".py"))
    for module in sorted(modules, key=lambda entry: entry.name):
        code = module.read_bytes().replace(b"\r\n", b"\n")
        digest.update(f"{module.name}\x1f{len(code)}\x1f".encode() + code)
    for name in _DECIDING:
        digest.update(f"{name}\x1f{version(name)}\x1f".encode())
    return digest.hexdigest()[:12]
