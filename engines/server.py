"""An OpenAI-compatible server as a policy: its address, the model it serves, what it says of it."""

from dataclasses import dataclass
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from curate.pipelines.errors import EngineError, UsageError

if TYPE_CHECKING:
    import httpx

_MODELS_TIMEOUT_S = 30.0
CONNECT_TIMEOUT_S = 10.0
_SNIPPET = 300
_LISTED = 10
#: Revision of a server's model when neither the user nor the server tells one.
UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class ServerRef:
    """A model behind a server.

    Args:
        name: ``URL#MODEL``, whether or not the model was named by the user.
        url: address up to and with ``/v1``, no slash at the end.
        model: the name it is served under.
        revision: the user's, else what the server says the model was loaded from, else
            ``unknown``: then completions of an exchanged model cannot be told from the old one's.
        context: most tokens of prompt and completion together, where the server says so.
        vllm: the server is vLLM's, and takes its extra parameters.
    """

    name: str
    url: str
    model: str
    revision: str
    context: int | None
    vllm: bool


def is_server(spec: str) -> bool:
    """Whether ``--policy`` names a server."""
    return spec.lower().startswith(("http://", "https://"))


def resolve_server(spec: str, revision: str | None, api_key: str | None) -> ServerRef:
    """Ask the server once what it serves.

    Args:
        spec: ``http://127.0.0.1:8000/v1``, or with ``#MODEL`` where it serves several.
        revision: what to record as the model's revision.
        api_key: sent as bearer token.

    Raises:
        UsageError: the address is not one, the model is not served, or several are and none is
            named.
        EngineError: the server cannot be reached or does not say what it serves.
    """
    url, wanted = _split(spec)
    cards = served_models(url, api_key, may_lack=bool(wanted))
    names = [card["id"] for card in cards]
    if not wanted and len(names) != 1:
        raise UsageError(
            f"policy {url}: name one of its models, as in {url}#MODEL: {listed(names)}"
        )
    if wanted and names and wanted not in names:
        raise UsageError(f"policy {url}: no model {wanted!r} there; it serves {listed(names)}")
    model = wanted or names[0]
    card = next((card for card in cards if card["id"] == model), {})
    root, context = card.get("root"), card.get("max_model_len")
    return ServerRef(
        name=f"{url}#{model}",
        url=url,
        model=model,
        revision=revision or (root if isinstance(root, str) and root else UNKNOWN),
        context=context if isinstance(context, int) and context > 0 else None,
        vllm=card.get("owned_by") == "vllm",
    )


def served_models(url: str, api_key: str | None, *, may_lack: bool = False) -> list[dict[str, Any]]:
    """Entries of ``/models``, each with its ``id``.

    Args:
        url: the server's address.
        api_key: sent as bearer token.
        may_lack: a server without such a list serves nothing, rather than being an error.

    Raises:
        UsageError: the address, or the environment's proxy, makes no sense.
        EngineError: the server cannot be reached, refuses, or answers something else.
    """
    import httpx

    settings = client_settings(url, api_key)
    try:
        with httpx.Client(timeout=httpx.Timeout(_MODELS_TIMEOUT_S), **settings) as client:
            reply = client.get(f"{url}/models")
    except (httpx.InvalidURL, UnicodeError) as error:
        raise UsageError(f"policy {url!r} is no address: {error}") from None
    except (ImportError, ValueError) as error:
        raise UsageError(f"policy {url}: the environment's proxy cannot be used: {error}") from None
    except httpx.HTTPError as error:
        raise EngineError(
            f"policy {url}: the server cannot be reached: {type(error).__name__}: {error}; "
            "is it running, and does the address end in /v1?"
        ) from None
    if reply.status_code in {401, 403}:
        raise EngineError(key_refused(url, reply, api_key))
    if reply.status_code in {404, 405} and may_lack:
        return []
    try:
        reply.raise_for_status()
        return [{**card, "id": str(card["id"])} for card in reply.json()["data"]]
    except (httpx.HTTPStatusError, ValueError, KeyError, TypeError, RecursionError):
        raise EngineError(
            f"policy {url}: {url}/models answered HTTP {reply.status_code} and no list of models: "
            f"{snippet(reply.text, api_key)}"
        ) from None


def client_settings(url: str, api_key: str | None) -> dict[str, Any]:
    """What every client of the server is made with.

    Raises:
        UsageError: the key cannot be sent in a header.
    """
    headers = {}
    if api_key:
        if not (api_key.isascii() and api_key.isprintable()) or " " in api_key:
            raise UsageError("the API key holds characters that no header can carry")
        headers["Authorization"] = f"Bearer {api_key}"
    # A proxy set for the outside world does not lead to this machine.
    return {"headers": headers, "trust_env": not _is_loopback(urlsplit(url).hostname or "")}


def key_refused(url: str, reply: "httpx.Response", api_key: str | None) -> str:
    """The message for HTTP 401 and 403."""
    why = "refuses this API key" if api_key else "wants an API key and none was given"
    return (
        f"policy {url}: the server {why}: HTTP {reply.status_code}: {snippet(reply.text, api_key)}"
    )


def snippet(text: str, api_key: str | None) -> str:
    """The start of a body on one line, without the key should the server repeat it."""
    shown = text.replace(api_key, "***") if api_key else text
    return " ".join(shown[:_SNIPPET].split()) or "(empty body)"


def listed(names: list[str]) -> str:
    """Names of models, not too many."""
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return (", ".join(names[:_LISTED]) or "nothing it tells of") + more


def _split(spec: str) -> tuple[str, str]:
    try:
        parts = urlsplit(spec)
        whole = bool(parts.hostname) and parts.port != 0
    except ValueError:
        whole = False
    if not whole:
        raise UsageError(f"policy {spec!r} is no address; give http://HOST:PORT/v1")
    if parts.username or parts.password or parts.query:
        # Not repeated in the message: it may hold a secret.
        raise UsageError(
            f"policy at {parts.hostname}: the address must hold no user, password or query; "
            "an API key is given apart from it"
        )
    return parts._replace(fragment="", path=parts.path.rstrip("/")).geturl(), parts.fragment


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
