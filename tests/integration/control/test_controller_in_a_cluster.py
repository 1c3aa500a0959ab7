"""Real controller processes with pods as workers: a version is deployed through the API, and nothing runs here."""

import signal
import socket
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import grpc
import httpx
import pytest

from penstock.connectors.keda.messages import CLASSES, SERVICE, message
from penstock.connectors.postgres.database import Database
from penstock.connectors.postgres.registry import PostgresRegistry
from penstock.connectors.postgres.tenancy import PostgresTenancy
from penstock.domain.tenancy.keys import Purpose, derive, mint
from penstock.domain.tenancy.tenant import OPERATORS, Role, Tenant
from tests.support.clusters import pools
from tests.support.clusters.api import Fault, KubeApi
from tests.support.controllers.process import ControlledHome, controlled_home
from tests.support.patience import until
from tests.support.samples import control_plane as things

pytestmark = pytest.mark.integration
VERSION = things.version()


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[KubeApi]:
    """Serve a cluster with pods on paper."""
    with KubeApi() as api:
        api.cluster.on_start = lambda pod: api.pod(pod["metadata"]["name"])
        api.cluster.on_stop = lambda pod: api.ended(pod["metadata"]["name"])
        yield api


@pytest.fixture
async def home(server: KubeApi, tmp_path: Path, database_dsn: str) -> AsyncIterator[ControlledHome]:
    """Yield a home of that cluster with a version in its database; one controller leads."""
    (tmp_path / "scale.yaml").write_text("scale: [{versions: '*', least: 2, most: 6}]")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    told = {
        "fleet": "kubernetes",
        "scale_file": str(tmp_path / "scale.yaml"),
        "scaler_port": str(port),
        "pools_file": str(pools.file(tmp_path)),
        "kubeconfig": str(server.kubeconfig(tmp_path / "kubeconfig")),
        "lease_s": "0.5",
    }
    with controlled_home(tmp_path / "home", database_dsn, **told) as found:
        found.controller()
        until("it leads", lambda: found.address() != "")
        async with Database(database_dsn, max_connections=1) as database:
            await PostgresRegistry(database).add_version(VERSION, "sig", things.act())
        yield found


async def admin(home: ControlledHome) -> dict[str, str]:
    pepper = derive(bytes.fromhex("ab" * 32), Purpose.PEPPER)
    async with Database(home.database_url, max_connections=1) as database:
        store = PostgresTenancy(database)
        await store.add_tenant(Tenant(id=OPERATORS, name="Operators"), things.act())
        secret, key = mint(OPERATORS, pepper=pepper, now=1.0, role=Role.ADMIN)
        await store.add_key(key, things.act())
    return {"authorization": f"Bearer {secret}"}


def put(home: ControlledHome, headers: dict[str, str], replicas: int) -> None:
    url = f"{home.address()}/admin/v1/deployments/{VERSION.id}"
    assert httpx.put(url, json={"replicas": replicas}, headers=headers, trust_env=False).status_code == 200


def put_alias(home: ControlledHome, headers: dict[str, str]) -> None:
    shares = {"shares": [{"version": VERSION.id, "weight": 10_000}]}
    url = f"{home.address()}/admin/v1/aliases/chat"
    assert httpx.put(url, json=shares, headers=headers, trust_env=False).status_code == 200


async def test_a_version_is_deployed_as_on_one_machine(home: ControlledHome, server: KubeApi) -> None:
    """Finding 3.7: the same call brings pods in a cluster, starts nothing here, survives the leader, and withdraws."""
    headers = await admin(home)
    put(home, headers, 2)
    until("two pods stand", lambda: len(server.names("pods")) == 2)
    assert home.workers() == {}
    first = home.address()
    home.controller()
    home.controllers[0].send_signal(signal.SIGKILL)
    until("the other leads", lambda: home.address() != first)
    server.scale(server.names("deployments")[0], 3)
    until("the scaler's number stands", lambda: len(server.names("pods")) == 3)
    put(home, headers, 0)
    until("all is withdrawn", lambda: not server.names("pods") and not server.names("deployments"), within_s=20.0)
    assert server.names("scaledobjects") == []


async def test_a_cluster_that_refuses_is_told_and_holds_up_nothing(home: ControlledHome, server: KubeApi) -> None:
    """While the API server refuses, the controller leads, publishes tables, and tells operators what is held."""
    headers = await admin(home)
    server.fault = Fault(status=500, verbs=frozenset({"patch"}))
    put(home, headers, 1)
    url = f"{home.address()}/admin/v1/status"

    def status() -> dict[str, object]:
        found: dict[str, object] = httpx.get(url, headers=headers, trust_env=False).json()
        return found

    until("it is told", lambda: bool(status()["held"]))
    assert "the API server answers 500" in str(status()["held"])
    before = status()["table"]
    put_alias(home, headers)
    until("another table is published", lambda: status()["table"] != before)
    assert (status()["leader"], status()["failed_ticks"]) == (True, 0)


def asked(port: int, name: str) -> int | grpc.StatusCode:
    """Return the replicas that KEDA would hear for a ScaledObject, or the code of the refusal."""
    reference = CLASSES["ScaledObjectRef"](name=name, namespace=pools.NAMESPACE)
    request = message("GetMetricsRequest", scaledObjectRef=reference, metricName="replicas")
    with grpc.insecure_channel(f"127.0.0.1:{port}", (("grpc.use_local_subchannel_pool", 1),)) as channel:
        try:
            call: Callable[..., bytes] = channel.unary_unary(f"/{SERVICE}/GetMetrics")
            raw = call(request, timeout=2.0)
        except grpc.RpcError as error:
            found: grpc.StatusCode = error.code()
            return found
    (value,) = CLASSES["GetMetricsResponse"].FromString(raw).metricValues
    return int(value.metricValueFloat)


async def test_keda_is_answered_by_the_leader_alone(home: ControlledHome, server: KubeApi) -> None:
    """A scaled version's number is told by pool; the successor tells the same, and what runs is held meanwhile."""
    headers, port = await admin(home), int(home.settings["scaler_port"])
    assert asked(port, "anything") in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.NOT_FOUND)
    put(home, headers, 2)
    until("two pods stand", lambda: len(server.names("pods")) == 2)
    objects = server.names("scaledobjects")
    told = {name: server.get("deployments", name)["spec"]["replicas"] for name in objects}
    until("the number is told", lambda: sum(n for one in objects if isinstance(n := asked(port, one), int)) == 2)
    assert asked(port, "gateway") is grpc.StatusCode.NOT_FOUND, "no gateway speaks, so none is counted"
    first = home.address()
    home.controller()
    home.controllers[0].send_signal(signal.SIGKILL)
    until("the other leads", lambda: home.address() != first)
    until("it tells the same", lambda: sum(n for one in objects if isinstance(n := asked(port, one), int)) == 2)
    assert {name: server.get("deployments", name)["spec"]["replicas"] for name in objects} == told
