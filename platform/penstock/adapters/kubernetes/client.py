"""The official client, with our own bounds: no call waits for long, none repeats itself, and each error says when to
try again. It knows HTTP and the API's conventions, and not what is read or written.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import aiohttp
from kubernetes.aio.client import ApiClient, Configuration
from kubernetes.aio.config import ConfigException, load_incluster_config, load_kube_config

from penstock.adapters.kubernetes import names
from penstock.adapters.kubernetes.kinds import Kind
from penstock.adapters.kubernetes.manifests import Written
from penstock.domain.command_error import CommandError

NO_ANSWER, CONFLICT, GONE, NOT_FOUND, MANY = 0, 409, 410, 404, 429
_OK = range(200, 300)
OPENED = "OPENED"
_PAGE = 500
Load = Callable[..., Awaitable[object]]
_APPLY, _MERGE = "application/apply-patch+yaml", "application/merge-patch+json"


class Refused(Exception):
    """The API server did not do it: status 0 where it did not answer at all."""

    def __init__(self, status: int, message: str, retry_after_s: float = 0.0) -> None:
        super().__init__(message)
        self.status, self.message, self.retry_after_s = status, message, retry_after_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """Seconds: for a connection, for a whole answer, for how long one watch runs, and what it may be late."""

    connect_s: float = 3.0
    answer_s: float = 10.0
    watch_s: int = 60
    late_s: float = 15.0


class Api:
    """Calls to one namespace."""

    def __init__(self, client: ApiClient, namespace: str, patience: Patience = Patience()) -> None:
        """Take a client that is set up."""
        self._client, self._namespace, self._patience = client, namespace, patience

    async def listed(self, kind: Kind, selector: str) -> tuple[list[dict[str, Any]], str]:
        """Return all objects that are selected, and the version of the list, from which a watch goes on."""
        found: list[dict[str, Any]] = []
        following = ""
        while True:
            query = [("labelSelector", selector), ("limit", _PAGE)]
            query += [("continue", following)] if following else []
            page = await self._call("GET", kind.path(self._namespace), query)
            found += page.get("items", [])
            following = page["metadata"].get("continue", "")
            if not following:
                return found, page["metadata"]["resourceVersion"]

    async def watch(self, kind: Kind, selector: str, since: str) -> AsyncIterator[tuple[str, dict[str, Any]]]:
        """Yield ``OPENED``, then what changes after ``since``, until the server ends it; 410 means: list anew."""
        asked = self._patience.watch_s
        query = [
            ("labelSelector", selector),
            ("watch", "true"),
            ("resourceVersion", since),
            ("allowWatchBookmarks", "true"),
            ("timeoutSeconds", asked),
        ]
        within = aiohttp.ClientTimeout(
            total=None, sock_connect=self._patience.connect_s, sock_read=asked + self._patience.late_s
        )
        async with self._request("GET", kind.path(self._namespace), query, within=within) as response:
            yield OPENED, {}
            async for line in response.content:
                event = json.loads(line)
                if event["type"] == "ERROR":
                    raise Refused(event["object"].get("code", GONE), event["object"].get("message", ""))
                yield event["type"], event["object"]

    async def apply(self, written: Written) -> dict[str, Any]:
        """Write an object's fields as ours (server-side apply); somebody else's fields are never taken."""
        query = [("fieldManager", names.OWNER), ("force", "false")]
        path = written.kind.path(self._namespace, written.name)
        return await self._call("PATCH", path, query, written.body, _APPLY)

    async def patch(self, kind: Kind, name: str, body: Mapping[str, object]) -> None:
        """Change single fields of an object."""
        await self._call("PATCH", kind.path(self._namespace, name), [("fieldManager", names.OWNER)], body, _MERGE)

    async def delete(self, kind: Kind, name: str, uid: str = "") -> None:
        """Delete an object, with a ``uid`` only that very one; one that is not there is no error."""
        options: dict[str, object] = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"}
        if uid:
            options["preconditions"] = {"uid": uid}
        try:
            await self._call("DELETE", kind.path(self._namespace, name), [], options)
        except Refused as refusal:
            if refusal.status != NOT_FOUND:
                raise

    async def _call(
        self,
        method: str,
        path: str,
        query: Sequence[tuple[str, Any]],
        body: Mapping[str, object] | None = None,
        content: str = "application/json",
    ) -> dict[str, Any]:
        within = aiohttp.ClientTimeout(total=self._patience.answer_s, sock_connect=self._patience.connect_s)
        async with self._request(method, path, query, within=within, body=body, content=content) as response:
            answer: dict[str, Any] = json.loads(await response.read())
            return answer

    @asynccontextmanager
    async def _request(
        self,
        method: str,
        path: str,
        query: Sequence[tuple[str, Any]],
        *,
        within: aiohttp.ClientTimeout,
        body: Mapping[str, object] | None = None,
        content: str = "application/json",
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Yield the answer's head where it is a yes; everything else is ``Refused``."""
        headers = {"Accept": "application/json", "Content-Type": content}
        try:
            asked = await self._client.param_serialize(
                method, path, query_params=list(query), header_params=headers, body=body, auth_settings=["BearerToken"]
            )
            response = (await self._client.call_api(*asked, _request_timeout=within)).response
            try:
                if response.status not in _OK:
                    raise _refusal(response.status, await response.read(), response.headers.get("Retry-After", ""))
                yield response
            finally:
                response.close()
        except (aiohttp.ClientError, TimeoutError, OSError, ConfigException) as error:
            raise Refused(NO_ANSWER, f"no answer ({type(error).__name__})") from error
        except (json.JSONDecodeError, KeyError) as error:
            raise Refused(NO_ANSWER, "an answer that can't be read") from error


def _refusal(status: int, body: bytes, retry_after: str) -> Refused:
    try:
        message = str(json.loads(body)["message"])
    except (ValueError, KeyError, TypeError):
        message = f"status {status}"
    return Refused(status, message, float(retry_after) if retry_after.isdigit() else 0.0)


@asynccontextmanager
async def connected(kubeconfig: str, namespace: str, patience: Patience = Patience()) -> AsyncIterator[Api]:
    """Yield calls to the cluster of this file, or to the one that this pod is in; ``CommandError`` where there is none.

    The pod's token is read again as it changes.
    """
    configuration = Configuration(retries=None)
    configuration.client_session_kwargs = {"trust_env": False}
    try:
        if kubeconfig:
            load = cast("Load", load_kube_config)
            await load(kubeconfig, client_configuration=configuration, persist_config=False)
        else:
            await asyncio.to_thread(load_incluster_config, configuration)
    except (ConfigException, OSError) as error:
        file = Path(kubeconfig) if kubeconfig else "the pod's service account"
        do = "Run the controller in a pod with automountServiceAccountToken, or name a file: PENSTOCK_KUBECONFIG."
        raise CommandError(f"There is no way to the cluster by {file}: {error}.", do=do) from error
    async with ApiClient(configuration) as client:
        yield Api(client, namespace, patience)
