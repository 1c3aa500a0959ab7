"""A Kubernetes API server for tests, over real HTTP, to be used by the official client. Nothing in it knows Penstock.

    with KubeApi() as api:                           # KubeApi(tls=ssl_context) serves HTTPS
        api.cluster.on_start = host.start            # called with the pod (a dict) that should run now
        api.cluster.on_stop = host.stop              # called with a pod that should end: send it SIGTERM
        api.kubeconfig(tmp_path / "kubeconfig")      # for PENSTOCK_KUBECONFIG; or take api.url
        ...
        api.pod(name, phase="Running", ready=True, ip="127.0.0.1")   # the host says how a pod is
        api.pod(name, restarts=1)                    # its container ended and began again
        api.ended(name)                              # the process of a pod that was told to end is gone
        api.evict(name)                              # a spot notice: the pod is told to end
        api.scale(deployment, 3)                     # what KEDA would do
        api.edit("deployments", name, change, manager="kubectl-edit")   # somebody's hand

It keeps what the documentation promises, or the server's own code where that is silent:

* server-side apply with owners of fields and conflicts (`kube_fields`), 201 for what was not there
  https://kubernetes.io/docs/reference/using-api/server-side-apply/#conflicts
* watches from a resourceVersion; an object that loses the selected labels is DELETED, one that gets them ADDED;
  bookmarks have a kind and a version alone; a version that is too old is 410 as an answer or as an event in the stream
  (`api.store.compact()`, `api.expire_watches()`), and clients must understand both
  https://kubernetes.io/docs/reference/using-api/api-concepts/#efficient-detection-of-changes
  https://github.com/kubernetes/kubernetes/issues/25151
* lists in parts (`limit`, `continue`), 410 for a part that is too old
  https://kubernetes.io/docs/reference/using-api/api-concepts/#retrieving-large-results-sets-in-chunks
* refusals as a `Status` with a reason, 429 with `Retry-After`
  https://kubernetes.io/docs/concepts/cluster-administration/flow-control/
* deletes under preconditions, cascading deletes, defaulted replicas, the counts in a Deployment's status.

Stricter than a real server: an unknown field is refused (422) in whatever request, where a real one may only warn.
Left out: subresources, admission, dry runs, consistency of a list in parts. Objects of built-in kinds are read by the
official client's own models, made from Kubernetes' OpenAPI.
`api.rights` refuses what a Role would (403), `api.calls` is all that was asked, `api.fault` breaks answers.
"""

import copy
import json
import ssl
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qs, unquote, urlsplit

import yaml

from tests.support.clusters.cluster import Cluster, Told
from tests.support.clusters.field_owners import Json
from tests.support.clusters.lists import page, seen, selected
from tests.support.clusters.objects import KINDS, Problem, applied, check, patched, plural_of
from tests.support.clusters.store import Store

TOKEN = "fake-cluster-token"
BOOKMARK_S = 0.2


@dataclass(frozen=True, kw_only=True)
class Fault:
    """What goes wrong: answers with ``status``, after hanging, for calls of these verbs; with ``raw`` as the body."""

    status: int = 500
    verbs: frozenset[str] = frozenset({"list", "watch", "patch", "delete"})
    retry_after_s: int = 0
    hangs: bool = False
    raw: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


class _Broken(Exception):
    """An answer that no API server gives."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.status)
        self.fault = fault


@dataclass(frozen=True, kw_only=True)
class Call:
    """One request as it came: ``query`` has the first value of each parameter."""

    verb: str
    plural: str
    name: str
    query: Mapping[str, str]
    body: Json
    at: float


@dataclass(kw_only=True)
class KubeApi:
    """The server and its cluster; see the module."""

    tls: ssl.SSLContext | None = None
    fault: Fault | None = None
    rights: Mapping[str, tuple[str, ...]] | None = None
    """Verbs by plural; None allows everything."""
    store: Store = field(default_factory=Store)
    delay_s: float = 0.0
    """How long the server takes over each write."""
    calls: list[Call] = field(default_factory=list)
    ends: threading.Event = field(default_factory=threading.Event)
    cluster: Cluster = field(init=False)
    _server: ThreadingHTTPServer = field(init=False)

    def __post_init__(self) -> None:
        """Make the cluster, and take a port."""
        self.cluster = Cluster(store=self.store)
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"api": self}))
        self._server.daemon_threads = True
        if self.tls:
            self._server.socket = self.tls.wrap_socket(self._server.socket, server_side=True)

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.ends.set()
        with self.store.changed:
            self.store.changed.notify_all()
        self._server.shutdown()
        self._server.server_close()

    @property
    def address(self) -> tuple[str, int]:
        return "127.0.0.1", int(self._server.server_address[1])

    @property
    def url(self) -> str:
        host, port = self.address
        return f"{'https' if self.tls else 'http'}://{host}:{port}"

    def kubeconfig(self, file: Path, certificate_authority: Path | None = None) -> Path:
        cluster = {"server": self.url}
        cluster |= {"certificate-authority": str(certificate_authority)} if certificate_authority else {}
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "fake", "cluster": cluster}],
            "users": [{"name": "controller", "user": {"token": TOKEN}}],
            "contexts": [{"name": "fake", "context": {"cluster": "fake", "user": "controller"}}],
            "current-context": "fake",
        }
        file.write_text(yaml.safe_dump(content))
        return file

    # What the host says, and what others do.

    def pod(self, name: str, *, phase: str = "Running", ready: bool = True, ip: str = "", restarts: int = 0) -> None:
        status: Json = {
            "phase": phase,
            "conditions": [{"type": "Ready", "status": str(ready)}],
            "containerStatuses": [{"name": "worker", "restartCount": restarts, "ready": ready}],
            **({"podIP": ip} if ip else {}),
        }
        self.edit("pods", name, lambda it: it["status"].update(status), "kubelet")

    def ended(self, name: str) -> None:
        """Say that a pod's process is gone: one that was told to end leaves, another one has failed."""
        with self.store.changed:
            going = "deletionTimestamp" in self.store.objects["pods", name]["metadata"]
        if going:
            self._do(lambda: self.store.remove("pods", name))
        else:
            self.pod(name, phase="Failed", ready=False)

    def evict(self, name: str) -> None:
        """Tell a pod to end, as a node does that is about to be taken away."""
        self._do(lambda: self.cluster.stop(self.store.objects["pods", name]))

    def scale(self, deployment: str, number: int) -> None:
        """Set a number as the scaler does."""
        self.edit("deployments", deployment, lambda it: it["spec"].update(replicas=number), "keda-operator")

    def edit(self, plural: str, name: str, change: Callable[[Json], Any], manager: str) -> None:
        self._do(lambda: self.store.change(plural, name, change, manager))

    def expire_watches(self) -> None:
        """Tell all open watches that they are expired, in their streams."""
        with self.store.changed:
            self.store.compact()
            self.store.expired_at += 1
            self.store.changed.notify_all()

    def names(self, plural: str) -> list[str]:
        """Return which objects of a kind there are."""
        with self.store.changed:
            return [one["metadata"]["name"] for one in self.store.of(plural)]

    def get(self, plural: str, name: str) -> Json:
        """Return an object as it is now."""
        with self.store.changed:
            return copy.deepcopy(self.store.objects[plural, name])

    def writes(self) -> list[Call]:
        return [one for one in self.calls if one.verb in ("patch", "delete")]

    def _do(self, act: Callable[[], Any]) -> None:
        heard: list[tuple[Told, Json]] = []
        with self.store.changed:
            act()
            heard = self.cluster.settle()
        for told, pod in heard:
            told(pod)


class _Handler(BaseHTTPRequestHandler):
    """Reads requests, answers as the API does."""

    api: KubeApi
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        self._answer(self._get)

    def do_PATCH(self) -> None:
        self._answer(self._patch)

    def do_DELETE(self) -> None:
        self._answer(self._delete)

    def _answer(self, act: Callable[[str, str, Mapping[str, str], Json], None]) -> None:
        with suppress(BrokenPipeError, ConnectionResetError, ssl.SSLError):
            try:
                parts = urlsplit(self.path)
                query = {key: unquote(values[0]) for key, values in parse_qs(parts.query).items()}
                plural, name = plural_of(parts.path)
                body = self._body()
                self._permit(plural, name, query, body)
                act(plural, name, query, body)
            except _Broken as broken:
                self._send_raw(broken.fault.status, broken.fault.raw or b"", broken.fault.headers)
            except Problem as problem:
                self._send(problem.status, problem.shown(), problem.retry_after_s)

    def _permit(self, plural: str, name: str, query: Mapping[str, str], body: Json) -> None:
        """Log the call; raise what a fault or a missing right makes of it."""
        reading = "watch" if query.get("watch") == "true" else "get" if name else "list"
        verb = {"PATCH": "patch", "DELETE": "delete"}.get(self.command, reading)
        call = Call(verb=verb, plural=plural, name=name, query=query, body=body, at=time.monotonic())
        self.api.calls.append(call)
        if call.body:
            self.api.ends.wait(self.api.delay_s)
        self._break(verb)
        if self.headers.get("Authorization", "").lower() != f"bearer {TOKEN}":
            raise Problem(401, "Unauthorized")
        if self.api.rights is not None:
            needed = {verb}
            if verb == "patch" and (plural, name) not in self.api.store.objects:
                needed.add("create")  # server-side apply of what is not there
            if not needed <= {*self.api.rights.get(plural, ())}:
                raise Problem(403, f'User "controller" cannot {verb} resource "{plural}"')

    def _break(self, verb: str) -> None:
        """Raise what the test wants to go wrong with this call."""
        fault = self.api.fault
        if fault is None or verb not in fault.verbs:
            return
        while fault.hangs and self.api.fault is fault and not self.api.ends.wait(0.02):
            continue
        if fault.raw is not None:
            raise _Broken(fault)
        raise Problem(fault.status, "the test wants it so", retry_after_s=fault.retry_after_s)

    def _get(self, plural: str, name: str, query: Mapping[str, str], _: Json) -> None:
        store = self.api.store
        if query.get("watch") == "true":
            self._watch(plural, query)
            return
        with store.changed:
            if name:
                found: Json = store.objects.get((plural, name)) or _missing(plural, name)
                self._send(200, copy.deepcopy(found))
                return
            items = [copy.deepcopy(one) for one in store.of(plural) if selected(one, query)]
            found = page(store, items, query)
        self._send(200, found)

    def _patch(self, plural: str, name: str, query: Mapping[str, str], body: Json) -> None:
        found: list[Json] = []
        applies = self.headers.get("Content-Type") == "application/apply-patch+yaml"
        act = applied if applies else patched
        is_there = (plural, name) in self.api.store.objects
        self.api._do(lambda: found.append(copy.deepcopy(act(self.api.store, plural, name, query, body))))
        self._send(200 if is_there else 201, found[0])

    def _delete(self, plural: str, name: str, _: Mapping[str, str], body: Json) -> None:
        self.api._do(lambda: self._remove(plural, name, body))
        self._send(200, {"kind": "Status", "status": "Success"})

    def _remove(self, plural: str, name: str, body: Json) -> None:
        store = self.api.store
        one: Json = store.objects.get((plural, name)) or _missing(plural, name)
        uid = body.get("preconditions", {}).get("uid", "")
        if uid and uid != one["metadata"]["uid"]:
            raise Problem(409, f"the UID in the precondition ({uid}) does not match the UID in record")
        if plural == "pods":
            self.api.cluster.stop(one)
        else:
            store.remove(plural, name)

    def _watch(self, plural: str, query: Mapping[str, str]) -> None:
        """Stream what happened after a version and what happens, with bookmarks in between, until the time is over."""
        store, since = self.api.store, int(query.get("resourceVersion", "0"))
        if since and since < store.oldest:
            raise Problem(410, f"too old resource version: {since} ({store.oldest})")
        ends, expired_at = time.monotonic() + float(query.get("timeoutSeconds", "300")), store.expired_at
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        while time.monotonic() < ends and not self.api.ends.is_set():
            if self.api.fault and "watch" in self.api.fault.verbs and not self.api.fault.hangs:
                self.close_connection = True
                return
            since = self._news(plural, query, since, expired_at)
            if store.expired_at != expired_at:
                self._chunk({"type": "ERROR", "object": Problem(410, "The resourceVersion is too old").shown()})
                break
        self.wfile.write(b"0\r\n\r\n")

    def _news(self, plural: str, query: Mapping[str, str], since: int, expired_at: int) -> int:
        """Send what came after a version, or after a while a bookmark; return how far that is."""
        store = self.api.store
        with store.changed:
            news = [one for one in store.events if one.version > since and one.plural == plural]
            if not news and store.expired_at == expired_at:
                store.changed.wait(BOOKMARK_S)
                news = [one for one in store.events if one.version > since and one.plural == plural]
            since = max(since, store.version)
        for event in news:
            if kind := seen(event, query):
                self._chunk({"type": kind, "object": event.object})
        if not news and query.get("allowWatchBookmarks") == "true":
            version, kind = KINDS[plural]
            mark = {"kind": kind, "apiVersion": version, "metadata": {"resourceVersion": str(since)}}
            self._chunk({"type": "BOOKMARK", "object": mark})
        return since

    def _chunk(self, event: Json) -> None:
        line = json.dumps(event).encode() + b"\n"
        self.wfile.write(f"{len(line):x}\r\n".encode() + line + b"\r\n")
        self.wfile.flush()

    def _body(self) -> Json:
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        found: Json = json.loads(raw) if raw else {}
        return found

    def _send(self, status: int, body: Json, retry_after_s: int = 0) -> None:
        self._send_raw(status, json.dumps(body).encode(), {"Retry-After": str(retry_after_s)} if retry_after_s else {})

    def _send_raw(self, status: int, raw: bytes, headers: Mapping[str, str]) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", "Content-Length": str(len(raw)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(raw)


def _missing(plural: str, name: str) -> Json:
    raise Problem(404, f'{plural} "{name}" not found')


__all__ = ["Call", "Fault", "KubeApi", "check"]
