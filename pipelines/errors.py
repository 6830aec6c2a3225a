"""The error vocabulary: every failure a person meets names what, where and what to do.

A bad *record* is data and ends up in ``rejected`` with a reason slug; only a bad *run* raises.
"""


class CurateError(Exception):
    """Base of every error this package raises on purpose (exit code 1)."""

    exit_code = 1


class UsageError(CurateError):
    """The command, recipe or input cannot be used as given (exit code 2)."""

    exit_code = 2


class ConfigError(UsageError):
    """A recipe, step name or setting is wrong; the message names the path and the line."""


class SourceError(UsageError):
    """A source cannot be read at all; the message names the file."""


class PoolError(CurateError):
    """A pool or artifact breaks its schema or its conservation law."""


class EngineError(CurateError):
    """A model cannot be loaded or did not answer."""


class PromptTooLong(EngineError):
    """Prompts leave no room in the model's context for ``max_tokens``; none of them was generated.

    Args:
        keys: ids of the prompts.
        limit: most prompt tokens that would fit.
    """

    def __init__(self, keys: list[str], limit: int) -> None:
        self.keys, self.limit = keys, limit
        super().__init__(
            f"prompt {keys[0]}{f' and {len(keys) - 1} more' if len(keys) > 1 else ''} "
            f"is longer than {limit} tokens, which leaves no room for max_tokens in the context"
        )


class SinkError(CurateError):
    """Shards cannot be written."""
