"""The push scaler over a real socket, asked by a client whose messages protoc makes from KEDA's published fields."""

import asyncio
import importlib
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import grpc
import grpc.aio
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from grpc_tools import protoc
from prometheus_client.parser import text_string_to_metric_families

from penstock.connectors.keda.server import PushScaler, ScalerAddress, ToldNumbers
from penstock.domain.clock import SystemClock
from penstock.telemetry.metrics import Metrics
from penstock.tls.authority import KeyPair
from penstock.tls.identity import Role
from penstock.tls.mutual import Mutual
from tests.support.patience import patient
from tests.support.tls.certificates import Issuer

PROTO = """
syntax = "proto3";
package externalscaler;
service ExternalScaler {
  rpc IsActive(Ref) returns (Active);
  rpc StreamIsActive(Ref) returns (stream Active);
  rpc GetMetricSpec(Ref) returns (Specs);
  rpc GetMetrics(Asked) returns (Values);
  rpc StreamMetricSpec(Ref) returns (stream Specs);
}
message Ref { string name = 1; string namespace = 2; map<string, string> scalerMetadata = 3; }
message Active { bool result = 1; }
message Specs { repeated Spec metricSpecs = 1; }
message Spec { string metricName = 1; int64 targetSize = 2; double targetSizeFloat = 3; }
message Asked { Ref scaledObjectRef = 1; string metricName = 2; }
message Values { repeated Value metricValues = 1; }
message Value { string metricName = 1; int64 metricValue = 2; double metricValueFloat = 3; }
"""
"""The wire of ``kedacore/keda pkg/scalers/externalscaler``: message names do not travel, numbers and types do."""


@dataclass(slots=True)
class Leader:
    leads: bool = True
    is_ready: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Keda:
    """KEDA as a client, in its order of calls."""

    messages: ModuleType
    stub: Any

    def ref(self, name: str = "chat", namespace: str = "penstock") -> Any:  # noqa: ANN401  made by protoc
        return self.messages.Ref(name=name, namespace=namespace, scalerMetadata={"scalerAddress": "x:1"})

    async def value(self, name: str = "chat", metric: str = "replicas") -> float:
        asked = self.messages.Asked(scaledObjectRef=self.ref(name), metricName=metric)
        (found,) = (await self.stub.GetMetrics(asked)).metricValues
        assert (found.metricName, found.metricValue) == (metric, found.metricValueFloat)
        return float(found.metricValueFloat)


def hosted(issuer: Issuer) -> KeyPair:
    """Issue a controller's certificate as cert-manager does: with its host's name, which Go's client checks."""
    pair = issuer.issued(Role.CONTROLLER)
    plain = x509.load_pem_x509_certificate(pair.certificate.encode())
    signer = serialization.load_pem_private_key(issuer.pair.key.encode(), password=None)
    assert isinstance(signer, ec.EllipticCurvePrivateKey)
    names = [x509.DNSName("localhost"), x509.UniformResourceIdentifier("spiffe://penstock/controller")]
    made = x509.CertificateBuilder(plain.issuer, plain.subject, plain.public_key(), plain.serial_number)
    made = made.not_valid_before(plain.not_valid_before_utc).not_valid_after(plain.not_valid_after_utc)
    made = made.add_extension(x509.SubjectAlternativeName(names), critical=False)
    signed = made.sign(signer, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    return KeyPair(certificate=signed.decode(), key=pair.key)


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ModuleType, ModuleType]]:
    """Compile the client's messages and stubs."""
    folder = tmp_path_factory.mktemp("keda")
    (folder / "keda_client.proto").write_text(PROTO)
    out = ["", f"-I{folder}", f"--python_out={folder}", f"--grpc_python_out={folder}", "keda_client.proto"]
    assert protoc.main(out) == 0
    sys.path.insert(0, str(folder))
    try:
        yield importlib.import_module("keda_client_pb2"), importlib.import_module("keda_client_pb2_grpc")
    finally:
        sys.path.remove(str(folder))


@pytest.fixture
def leader() -> Leader:
    return Leader()


@pytest.fixture
def metrics() -> Metrics:
    return Metrics()


@pytest.fixture
def numbers(metrics: Metrics) -> ToldNumbers:
    return ToldNumbers(metrics)


async def opened(scaler: PushScaler) -> int:
    async with asyncio.timeout(patient(5.0)):
        while not scaler.port:  # noqa: ASYNC110  nothing signals an open port
            await asyncio.sleep(0.01)
    return scaler.port


@asynccontextmanager
async def running(scaler: PushScaler) -> AsyncIterator[PushScaler]:
    task = asyncio.create_task(scaler.run())
    try:
        yield scaler
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@pytest.fixture
async def scaler(numbers: ToldNumbers, leader: Leader) -> AsyncIterator[PushScaler]:
    made = PushScaler(ScalerAddress(host="127.0.0.1", port=0), numbers, leader, "penstock")
    async with running(made):
        yield made


@pytest.fixture
async def keda(scaler: PushScaler, generated: tuple[ModuleType, ModuleType]) -> AsyncIterator[Keda]:
    port = await opened(scaler)
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        yield Keda(messages=generated[0], stub=generated[1].ExternalScalerStub(channel))


def exported(metrics: Metrics) -> dict[str, float]:
    families = text_string_to_metric_families(metrics.exposition().decode())
    found = [one for family in families for one in family.samples if one.name == "penstock_scale_replicas"]
    return {one.labels["object"]: one.value for one in found}


async def test_keda_asks_in_its_order(keda: Keda, numbers: ToldNumbers, metrics: Metrics) -> None:
    """Spec, value and activity of one object are the number that was told, and so is the metric."""
    numbers.tell("workers", {"chat": 21, "none": 0})
    (spec,) = (await keda.stub.GetMetricSpec(keda.ref())).metricSpecs
    assert (spec.metricName, spec.targetSize, spec.targetSizeFloat) == ("replicas", 1, 1.0)
    assert (await keda.value(), await keda.value("none")) == (21.0, 0.0)
    active = [(await keda.stub.IsActive(keda.ref(name))).result for name in ("chat", "none")]
    assert active == [True, False]
    assert exported(metrics) == {"chat": 21.0, "none": 0.0}


async def test_the_first_replica_does_not_wait_for_a_poll(keda: Keda, numbers: ToldNumbers) -> None:
    """The stream tells activity at once and on change alone: 0, then 1, and nothing for 2."""
    numbers.tell("workers", {"chat": 0})
    stream = keda.stub.StreamIsActive(keda.ref())
    assert (await stream.read()).result is False
    began = asyncio.get_running_loop().time()
    numbers.tell("workers", {"chat": 1})
    assert (await stream.read()).result is True
    assert asyncio.get_running_loop().time() - began < patient(1.0)
    numbers.tell("workers", {"chat": 2})
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.6):
            await stream.read()
    stream.cancel()


@pytest.mark.parametrize(
    ("name", "namespace", "says"),
    [
        ("gone", "penstock", "penstock/gone is not a ScaledObject"),
        ("chat", "default", "default/chat is not a ScaledObject"),
    ],
)
async def test_an_unknown_object_is_refused_in_words(
    keda: Keda, numbers: ToldNumbers, name: str, namespace: str, says: str
) -> None:
    """An object that nothing tells a number for, or of another namespace, is NOT_FOUND, with the remedy; never 0."""
    numbers.tell("workers", {"chat": 3})
    for call in (keda.stub.IsActive, keda.stub.GetMetricSpec):
        with pytest.raises(grpc.aio.AioRpcError, match="delete it, or remove its external trigger") as refused:
            await call(keda.ref(name, namespace))
        assert refused.value.code() is grpc.StatusCode.NOT_FOUND
        assert says in str(refused.value.details())
    with pytest.raises(grpc.aio.AioRpcError) as ended:
        await keda.stub.StreamIsActive(keda.ref(name, namespace)).read()
    assert ended.value.code() is grpc.StatusCode.NOT_FOUND


async def test_what_is_not_known_is_an_error(keda: Keda, numbers: ToldNumbers, leader: Leader) -> None:
    """Before the first tick, and while ticks fail, KEDA gets an error, on which it holds; a stream ends with it."""
    with pytest.raises(grpc.aio.AioRpcError, match="keep the present replicas") as early:
        await keda.value()
    assert early.value.code() is grpc.StatusCode.UNAVAILABLE
    numbers.tell("workers", {"chat": 3})
    stream = keda.stub.StreamIsActive(keda.ref())
    assert (await stream.read()).result is True
    leader.is_ready = False
    with pytest.raises(grpc.aio.AioRpcError, match="keep the present replicas"):
        await stream.read()


async def test_another_metric_is_refused(keda: Keda, numbers: ToldNumbers) -> None:
    """There is one metric; another name is the mistake of a trigger."""
    numbers.tell("workers", {"chat": 3})
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await keda.value(metric="gpu-utilisation")
    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT


async def test_targets_are_not_streamed(keda: Keda) -> None:
    """KEDA falls back to the constant target on UNIMPLEMENTED."""
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await keda.stub.StreamMetricSpec(keda.ref()).read()
    assert refused.value.code() is grpc.StatusCode.UNIMPLEMENTED


async def test_the_port_is_the_leaders(
    scaler: PushScaler, keda: Keda, numbers: ToldNumbers, leader: Leader, metrics: Metrics
) -> None:
    """A controller that leads no more ends its streams, closes the port, and forgets numbers and their metric."""
    numbers.tell("workers", {"chat": 3})
    numbers.tell("gateways", {"gateway": 2})
    stream = keda.stub.StreamIsActive(keda.ref())
    assert (await stream.read()).result is True
    port = scaler.port
    leader.leads = False
    with pytest.raises(grpc.aio.AioRpcError):
        await stream.read()
    async with asyncio.timeout(patient(5.0)):
        while scaler.port:  # noqa: ASYNC110  nothing signals a closed port
            await asyncio.sleep(0.01)
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", port)
    assert exported(metrics) == {}
    leader.leads = True
    await opened(scaler)
    assert numbers.all == {}


def test_an_object_that_is_told_no_more_is_unknown(numbers: ToldNumbers, metrics: Metrics) -> None:
    """A source tells all of its objects; another source's stay."""
    numbers.tell("workers", {"chat": 3, "old": 1})
    numbers.tell("gateways", {"gateway": 2})
    numbers.tell("workers", {"chat": 4})
    assert numbers.all == {"chat": 4, "gateway": 2}
    assert exported(metrics) == {"chat": 4.0, "gateway": 2.0}


@pytest.mark.parametrize(
    ("role", "domain", "code"),
    [
        (Role.KEDA, "penstock", None),
        (Role.GATEWAY, "penstock", grpc.StatusCode.PERMISSION_DENIED),
        (Role.KEDA, "elsewhere", grpc.StatusCode.PERMISSION_DENIED),
        (None, "", grpc.StatusCode.UNAVAILABLE),
    ],
)
async def test_only_keda_may_ask(
    tmp_path: Path,
    numbers: ToldNumbers,
    generated: tuple[ModuleType, ModuleType],
    role: Role | None,
    domain: str,
    code: grpc.StatusCode | None,
) -> None:
    """The cluster's scaler alone is answered, by its certificate's role; without a certificate nothing connects."""
    issuer = Issuer(tmp_path)
    pair = issuer.issued(role, domain=domain) if role else None
    mutual = Mutual(issuer.mounted(Role.CONTROLLER, hosted(issuer)), Role.CONTROLLER, SystemClock())
    made = PushScaler(ScalerAddress(host="127.0.0.1", port=0), numbers, Leader(), "penstock", mutual)
    numbers.tell("workers", {"chat": 3})
    async with running(made):
        port = await opened(made)
        shown = (pair.key.encode(), pair.certificate.encode()) if pair else (None, None)
        credentials = grpc.ssl_channel_credentials(issuer.pair.certificate.encode(), *shown)
        async with grpc.aio.secure_channel(f"localhost:{port}", credentials) as channel:
            keda = Keda(messages=generated[0], stub=generated[1].ExternalScalerStub(channel))
            if code is None:
                assert await keda.value() == 3.0
                return
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await keda.value()
            assert refused.value.code() is code


async def test_a_renewed_certificate_is_shown(
    tmp_path: Path, numbers: ToldNumbers, generated: tuple[ModuleType, ModuleType]
) -> None:
    """The next connection sees the certificate that lies there now, of an authority that both trust by then."""
    issuer, next_one = Issuer(tmp_path), Issuer(tmp_path, "the next authority")
    mutual = Mutual(issuer.mounted(Role.CONTROLLER, hosted(issuer)), Role.CONTROLLER, SystemClock())
    made = PushScaler(ScalerAddress(host="127.0.0.1", port=0), numbers, Leader(), "penstock", mutual)
    numbers.tell("workers", {"chat": 3})
    async with running(made):
        port = await opened(made)
        for one in (issuer, next_one):
            issuer.mounted(Role.CONTROLLER, hosted(one), trusts=one.pair.certificate)
            pair = one.issued(Role.KEDA)
            credentials = grpc.ssl_channel_credentials(
                one.pair.certificate.encode(), pair.key.encode(), pair.certificate.encode()
            )
            options = (("grpc.use_local_subchannel_pool", 1),)
            async with grpc.aio.secure_channel(f"localhost:{port}", credentials, options) as channel:
                assert await Keda(messages=generated[0], stub=generated[1].ExternalScalerStub(channel)).value() == 3.0
