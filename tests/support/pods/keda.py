"""KEDA and its HPA for the pods of this machine: they ask the leading controller, and write replicas.

Calls are real (`keda_calls`): to the pods behind the Service's name, with the certificate of the TriggerAuthentication.
Rules for replicas are the oracle's (`tests.support.clusters.hpa`). Unlike in a cluster, both look each ``LOOK_S``, in
place of 10 and 15 s, and Prometheus is the newest value on the controllers' own pages. A StatefulSet's number is kept
here: its replicas are the test's.
"""

import multiprocessing
import re
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing.pool import Pool
from typing import Any

import httpx

from tests.support.clusters.api import KubeApi
from tests.support.clusters.hpa import Scaled
from tests.support.pods.cluster import Cluster
from tests.support.pods.keda_calls import Answer, Scaler, ask

Json = dict[str, Any]
LOOK_S = 1.0
WITHIN_S = 60.0
CONTROLLERS = {"app.kubernetes.io/name": "controller"}


@dataclass(kw_only=True)
class Keda:
    """Follows the API server's ScaledObjects, and the rendered ones."""

    api: KubeApi
    cluster: Cluster
    calls: Pool
    told: list[tuple[str, int]] = field(default_factory=list)
    """Each number that was answered, oldest first, by ScaledObject."""
    newest: dict[str, Answer] = field(default_factory=dict)
    ends: threading.Event = field(default_factory=threading.Event)
    _scaled: dict[str, Scaled] = field(default_factory=dict)
    _seen: dict[str, float] = field(default_factory=dict)

    def run(self) -> None:
        while not self.ends.wait(LOOK_S):
            objects = self._objects()
            self._scaled = {name: one for name, one in self._scaled.items() if name in objects}
            for name, one in objects.items():
                self._look(name, one)

    def _objects(self) -> Mapping[str, Json]:
        rendered = [one for one in self.cluster.objects if one["kind"] == "ScaledObject"]
        with self.api.store.changed:
            written = self.api.store.of("scaledobjects")
        return {one["metadata"]["name"]: one for one in (*rendered, *written)}

    def _look(self, name: str, one: Json) -> None:
        """Poll and sync once; a Deployment that is gone by now has no replicas to write."""
        spec, target = one["spec"], one["spec"]["scaleTargetRef"]
        answers = [self._answer(one["metadata"]["namespace"], name, trigger) for trigger in spec["triggers"]]
        scaled = self._scaled.setdefault(name, Scaled(spec=spec, replicas=int(spec["minReplicaCount"])))
        scaled.spec = spec
        is_written = target["kind"] == "Deployment"
        with suppress(KeyError):
            if is_written:
                scaled.replicas = int(self.api.get("deployments", target["name"])["spec"]["replicas"])
            before, now = scaled.replicas, time.monotonic()
            scaled.poll(now, answers)
            scaled.sync(now, answers)
            if is_written and scaled.replicas != before:
                self.api.scale(target["name"], scaled.replicas)

    def _answer(self, namespace: str, name: str, trigger: Json) -> float | None:
        if trigger["type"] == "prometheus":
            return self._last(trigger["metadata"]["query"])
        assert (trigger["type"], trigger["metadata"]["enableTLS"]) == ("external-push", "true")
        scaler = self._scaler(trigger)
        if not scaler.addresses:
            return None  # the name has no record
        answer: Answer = self.calls.apply_async(ask, (scaler, namespace, name)).get(WITHIN_S)
        self.newest[name] = answer
        if answer.number is not None:
            self.told.append((name, answer.number))
        return answer.number

    def _scaler(self, trigger: Json) -> Scaler:
        host, _, port = trigger["metadata"]["scalerAddress"].rpartition(":")
        found = self.cluster.addresses(host.split(".")[0])
        authentication = self.cluster.find("TriggerAuthentication", trigger["authenticationRef"]["name"])
        secrets = self.cluster.machine.storage.secrets
        shown = {
            one["parameter"]: secrets[one["name"]][one["key"]].encode()
            for one in authentication["spec"]["secretTargetRef"]
        }
        return Scaler(
            host=host,
            addresses=tuple(f"{address}:{port}" for address in found),
            shown=(shown["caCert"], shown["tlsClientKey"], shown["tlsClientCert"]),
        )

    def _last(self, query: str) -> float | None:
        """Answer ``max(SERIES) or max(last_over_time(SERIES[1h]))`` from the pages that controllers show now."""
        series = re.fullmatch(r"max\((.+?)\) or max\(last_over_time\(\1\[1h\]\)\)", query)
        assert series, f"nobody answers such a query here: {query}"
        values: list[str] = []
        for pod in self.cluster.ready(CONTROLLERS):
            with suppress(httpx.HTTPError):
                url = f"http://{pod.address}:{pod.port('private')}/metrics"
                page = httpx.get(url, trust_env=False, timeout=2).text
                values += re.findall(rf"^{re.escape(series[1])} (\S+)$", page, re.MULTILINE)
        if values:
            self._seen[series[1]] = max(map(float, values))
        return self._seen.get(series[1])


@contextmanager
def keda(api: KubeApi, cluster: Cluster) -> Iterator[Keda]:
    """Yield the scaler of this cluster, running; what went wrong in it is raised at its end."""
    with multiprocessing.get_context("spawn").Pool(1) as calls, ThreadPoolExecutor(1, "keda") as threads:
        found = Keda(api=api, cluster=cluster, calls=calls)
        running = threads.submit(found.run)
        try:
            yield found
        finally:
            found.ends.set()
            running.result(WITHIN_S)
