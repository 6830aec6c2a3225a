"""The configured Prefect server: whether it answers, and whether it cancelled a run."""

from pathlib import Path
from typing import Any
from uuid import UUID

import httpx
from prefect import get_client
from prefect.exceptions import PrefectException
from prefect.settings import (
    PREFECT_API_REQUEST_TIMEOUT,
    PREFECT_API_URL,
    PREFECT_CLIENT_MAX_RETRIES,
    temporary_settings,
)

from curate.flows.build import what_happened
from curate.flows.labels import without_login
from curate.pipelines.errors import CurateError

#: What a client call ends with when the server is away, refuses, or answers something else.
ServerErrors = (httpx.HTTPError, PrefectException)
#: A server that is there answers its health check at once; two tries end within 25 s.
_PATIENT: dict[Any, Any] = {PREFECT_API_REQUEST_TIMEOUT: 10.0, PREFECT_CLIENT_MAX_RETRIES: 1}
#: A look in passing must cost a build next to nothing, with a server that hangs too.
_PASSING: dict[Any, Any] = {PREFECT_API_REQUEST_TIMEOUT: 3.0, PREFECT_CLIENT_MAX_RETRIES: 0}


class BuildCancelled(CurateError):
    """The flow run was cancelled on its server."""


def check_server() -> None:
    """See that the configured server answers and fits this client, before any work.

    Raises:
        CurateError: it does not.
    """
    with temporary_settings(_PATIENT):
        client = get_client(sync_client=True)
        error = client.api_healthcheck()
        if error is None:
            try:
                client.raise_for_api_version_mismatch()
            except (RuntimeError, *ServerErrors) as mismatch:
                error = mismatch
    if error is not None:
        raise CurateError(
            f"PREFECT_API_URL={address()}: no Prefect server answers there ({told(error)}); give "
            "its API, such as http://127.0.0.1:4200/api after `prefect server start`, or unset it "
            "to build without Prefect"
        )


def raise_if_cancelled(flow_run: UUID) -> None:
    """Ask whether a run was cancelled; a server that does not answer stops nothing.

    Raises:
        BuildCancelled: it was.
    """
    try:
        with temporary_settings(_PASSING):
            state = get_client(sync_client=True).read_flow_run(flow_run).state
    except ServerErrors:
        return
    if state is not None and (state.is_cancelling() or state.is_cancelled()):
        raise BuildCancelled("cancelled on the Prefect server; the same command goes on from here")


def lost(error: BaseException, out: Path | None = None) -> str:
    """What to tell when it was the server that failed, not the build.

    Args:
        error: how it did.
        out: directory of the build, when that is complete.
    """
    how_far = (
        f"{out} is built all the same, but its run is not recorded there"
        if out
        else "what is finished is kept, and the same command goes on from here"
    )
    return f"the Prefect server at {address()} failed ({told(error)}); {how_far}"


def told(error: BaseException) -> str:
    """What a server did, in a few words."""
    if isinstance(error, httpx.HTTPStatusError):
        return f"HTTP {error.response.status_code}"
    return what_happened(error)


def address() -> str:
    """The API's address, without user and password."""
    return without_login(str(PREFECT_API_URL.value()))
