"""The official client with the platform's bounds: short timeouts, no retries, errors with a retry time."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import aiohttp
import yaml
from kubernetes.aio.client import ApiClient, Configuration
from kubernetes.aio.config import ConfigException, load_incluster_config, load_kube_config

from penstock.connectors.kubernetes import answers, names
from penstock.connectors.kubernetes.answers import NO_ANSWER, ApiRefused, Json
from penstock.connectors.kubernetes.kinds import ObjectKind
from penstock.connectors.kubernetes.manifests import Written
from penstock.domain.command_error import CommandError

CONFLICT, NOT_FOUND, MANY = 409, 404, 429
_OK, _ELSEWHERE = range(200, 300), range(300, 400)
OPENED = "OPENED"
_PAGE = 500
Load = Callable[..., Awaitable[object]]
_GARBAGE = (OSError, ValueError, TypeError, AttributeError, LookupError, yaml.YAMLError)
"""Errors that the official client raises for a malformed kubeconfig, which it does not validate."""
_APPLY, _MERGE = "application/apply-patch+yaml", "application/merge-patch+json"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientTimeouts:
    """Seconds: connecting, a whole answer, a watch, and the tolerated delay of a watch's end."""

    connect_s: float = 3.0
    answer_s: float = 10.0
    watch_s: int = 60
    late_s: float = 15.0


class NamespaceApi:
    def __init__(self, client: ApiClient, namespace: str, patience: ClientTimeouts = ClientTimeouts()) -> None:
        self._client, self._namespace, self._patience = client, namespace, patience

    async def listed(self, kind: ObjectKind, selector: str) -> tuple[list[Json], str]:
        """Return the objects and the list's version, from which a watch continues."""
        found: list[Json] = []
        following = ""
        while True:
            query = [("labelSelector", selector), ("limit", _PAGE)]
            query += [("continue", following)] if following else []
            objects, version, following = answers.page(await self._call("GET", kind.path(self._namespace), query))
            found += objects
            if not following:
                return found, version

    async def watch(self, kind: ObjectKind, selector: str, since: str) -> AsyncIterator[tuple[str, Json]]:
        """``OPENED``, then changes after ``since``, until the server ends the watch; status 410 requires a new list."""
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
                yield answers.event(line)

    async def apply(self, written: Written) -> Json:
        """Server-side apply: fields of other owners are never taken over."""
        query = [("fieldManager", names.OWNER), ("force", "false")]
        path = written.kind.path(self._namespace, written.name)
        return answers.written(await self._call("PATCH", path, query, written.body, _APPLY))

    async def patch(self, kind: ObjectKind, name: str, body: Mapping[str, object]) -> None:
        query, path = [("fieldManager", names.OWNER)], kind.path(self._namespace, name)
        answers.written(await self._call("PATCH", path, query, body, _MERGE))

    async def delete(self, kind: ObjectKind, name: str, uid: str = "") -> None:
        """Delete only the object with ``uid``, if one is given; a missing object is no error."""
        options: dict[str, object] = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"}
        if uid:
            options["preconditions"] = {"uid": uid}
        try:
            answers.done(await self._call("DELETE", kind.path(self._namespace, name), [], options))
        except ApiRefused as refusal:
            if refusal.status not in (NOT_FOUND, CONFLICT):
                raise

    async def _call(
        self,
        method: str,
        path: str,
        query: Sequence[tuple[str, Any]],
        body: Mapping[str, object] | None = None,
        content: str = "application/json",
    ) -> bytes:
        within = aiohttp.ClientTimeout(total=self._patience.answer_s, sock_connect=self._patience.connect_s)
        async with self._request(method, path, query, within=within, body=body, content=content) as response:
            return await response.read()

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
        headers = {"Accept": "application/json", "Content-Type": content}
        try:
            asked = await self._client.param_serialize(
                method, path, query_params=list(query), header_params=headers, body=body, auth_settings=["BearerToken"]
            )
            response = (await self._client.call_api(*asked, _request_timeout=within)).response
            try:
                if response.status not in _OK:
                    raise answers.refusal(
                        response.status, await response.read(), response.headers.get("Retry-After", "")
                    )
                yield response
            finally:
                response.close()
        except (aiohttp.ClientError, TimeoutError, OSError, ConfigException) as error:
            raise ApiRefused(NO_ANSWER, f"no answer ({type(error).__name__})") from error
        except ValueError as error:  # a line that is longer than any object
            raise ApiRefused(NO_ANSWER, "an answer that can't be read") from error


async def _refuse_redirects(
    request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
) -> aiohttp.ClientResponse:
    """The target of a redirect would get the credentials."""
    response = await handler(request)
    if response.status in _ELSEWHERE:
        response.close()
        raise ApiRefused(response.status, "a redirect, which is not followed")
    return response


@asynccontextmanager
async def connected(
    kubeconfig: str, namespace: str, patience: ClientTimeouts = ClientTimeouts()
) -> AsyncIterator[NamespaceApi]:
    """Use this kubeconfig's cluster, or the pod's own with a fresh token; ``CommandError`` without a cluster."""
    async with await _client(kubeconfig) as client:
        yield NamespaceApi(client, namespace, patience)


async def _client(kubeconfig: str) -> ApiClient:
    try:
        return ApiClient(await _configuration(kubeconfig))
    except ConfigException as error:
        raise _no_way(kubeconfig, str(error).partition("{")[0]) from error  # a misspelt entry is shown with its token
    except _GARBAGE as error:  # of these the kind alone, for the same reason
        raise _no_way(kubeconfig, f"it can't be read as one ({type(error).__name__})") from error


async def _configuration(kubeconfig: str) -> Configuration:
    configuration = Configuration(retries=None)
    configuration.client_session_kwargs = {"trust_env": False, "middlewares": (_refuse_redirects,)}
    if kubeconfig:
        load = cast("Load", load_kube_config)
        await load(kubeconfig, client_configuration=configuration, persist_config=False)
    else:
        await asyncio.to_thread(load_incluster_config, configuration)
    return configuration


def _no_way(kubeconfig: str, why: str) -> CommandError:
    file = Path(kubeconfig) if kubeconfig else "the pod's service account"
    do = "Run the controller in a pod with automountServiceAccountToken, or name a kubeconfig: PENSTOCK_KUBECONFIG."
    return CommandError(f"The cluster can't be reached with {file}: {why}.", do=do)
