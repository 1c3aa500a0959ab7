"""The external push scaler: KEDA asks for the replicas of a ScaledObject, and is notified at once when they leave 0.

It serves only while this controller leads and its ticks succeed; a standby closes the port, so that clients of the
Service reach the leader alone. An unknown number is an error, never 0: on an error KEDA and its HPA keep the present
replicas.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, Protocol

import grpc
import grpc.aio
from google.protobuf.message import DecodeError

from penstock.connectors.keda.messages import CLASSES, SERVICE, message
from penstock.domain.command_error import CommandError
from penstock.domain.errors import printable
from penstock.telemetry import names
from penstock.telemetry.logs import logger
from penstock.telemetry.metrics import Metrics
from penstock.tls.handshake import stranger
from penstock.tls.identity import SCALER_API, identity_of
from penstock.tls.mutual import Mutual


class ToldNumbers:
    """The replicas of this controller's last tick, by ScaledObject; a source sets all its objects at once.

    Trade-off: a new leader has none until its first tick; meanwhile KEDA keeps the present replicas.
    """

    def __init__(self, metrics: Metrics) -> None:
        self._sources: dict[str, Mapping[str, int]] = {}
        self._gauge = metrics.gauge(names.SCALE_REPLICAS)

    def tell(self, source: str, numbers: Mapping[str, int]) -> None:
        gone = self._sources.get(source, {}).keys() - numbers.keys()
        self._sources[source] = dict(numbers)
        self._remove(gone)
        for name, number in numbers.items():
            self._gauge.labels(name).set(number)

    def forget(self) -> None:
        """Another controller decides now: their metric goes, too."""
        known = {name for numbers in self._sources.values() for name in numbers}
        self._sources = {}
        self._remove(known)

    @property
    def all(self) -> Mapping[str, int]:
        return {name: number for numbers in self._sources.values() for name, number in numbers.items()}

    def _remove(self, objects: set[str]) -> None:
        for name in objects:
            self._gauge.remove(name)


METRIC = "replicas"
TARGET = 1
"""Replicas asked for, of which each replica carries one: the metric is the number itself."""
LOOK_S = 0.25
"""Seconds between two looks at the numbers, and at the leadership: half a tick."""
MOST_BYTES = 64 << 10
"""A reference to a ScaledObject is names and a trigger's metadata."""
MOST_CALLS = 4096
"""A stream for each ScaledObject, of a thousand versions in four pools."""
_OPTIONS = (
    ("grpc.max_receive_message_length", MOST_BYTES),
    ("grpc.so_reuseport", 0),
    ("grpc.keepalive_time_ms", 60_000),
    ("grpc.keepalive_timeout_ms", 20_000),
    ("grpc.http2.min_ping_interval_without_data_ms", 10_000),
)
Context = grpc.aio.ServicerContext[Any, Any]


class Leads(Protocol):
    @property
    def leads(self) -> bool: ...

    @property
    def is_ready(self) -> bool: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalerAddress:
    host: str
    port: int


class PushScaler:
    """``run`` opens the port while this controller leads."""

    def __init__(
        self, address: ScalerAddress, numbers: ToldNumbers, runtime: Leads, namespace: str, mutual: Mutual | None = None
    ) -> None:
        self._address, self._numbers, self._runtime = address, numbers, runtime
        self._namespace, self._mutual = namespace, mutual
        self.port = 0
        """The port while it is open; 0 while it is closed."""

    async def run(self) -> None:
        server: grpc.aio.Server | None = None
        try:
            while True:
                if self._runtime.leads and server is None:
                    server = await self._opened()
                elif not self._runtime.leads and server is not None:
                    await self._closed(server)
                    server = None
                await asyncio.sleep(LOOK_S)
        finally:
            if server is not None:
                await self._closed(server)

    async def _opened(self) -> grpc.aio.Server:
        server = grpc.aio.server(options=_OPTIONS, maximum_concurrent_rpcs=MOST_CALLS)
        server.add_generic_rpc_handlers((self._handlers(),))
        at = f"{self._address.host}:{self._address.port}"
        try:
            self.port = (
                server.add_insecure_port(at)
                if self._mutual is None
                else server.add_secure_port(at, _credentials(self._mutual))
            )
        except RuntimeError as error:
            do = "Choose another in PENSTOCK_SCALER_PORT."
            raise CommandError(f"Can't listen at {at} for KEDA.", do=do) from error
        await server.start()
        logger().info("scaler_listens", url=f"{self._address.host}:{self.port}")
        return server

    async def _closed(self, server: grpc.aio.Server) -> None:
        """Streams must end at once, so that their clients ask the new leader."""
        self._numbers.forget()
        await server.stop(grace=None)
        self.port = 0

    def _handlers(self) -> grpc.GenericRpcHandler:
        asked = {"IsActive": self._active, "GetMetricSpec": self._spec, "GetMetrics": self._metrics}
        handlers: dict[str, grpc.RpcMethodHandler[bytes, bytes]] = {}
        handlers |= {
            name: grpc.unary_unary_rpc_method_handler(self._answered(name, act)) for name, act in asked.items()
        }
        handlers["StreamIsActive"] = grpc.unary_stream_rpc_method_handler(self._stream)
        return grpc.method_handlers_generic_handler(SERVICE, handlers)

    def _answered(self, name: str, act: Callable[[Any, int], bytes]) -> Callable[[bytes, Context], Any]:
        kind = "GetMetricsRequest" if name == "GetMetrics" else "ScaledObjectRef"

        async def answer(raw: bytes, context: Context) -> bytes:
            asked = await self._read(kind, raw, context)
            reference = asked.scaledObjectRef if kind == "GetMetricsRequest" else asked
            number = await self._number(reference, context)
            if kind == "GetMetricsRequest" and asked.metricName != METRIC:
                await _refuse(context, grpc.StatusCode.INVALID_ARGUMENT, f"the only metric here is {METRIC}")
            return act(asked, number)

        return answer

    def _active(self, asked: object, number: int) -> bytes:
        del asked
        return message("IsActiveResponse", result=number > 0)

    def _spec(self, asked: object, number: int) -> bytes:
        del asked, number
        spec = {"metricName": METRIC, "targetSize": TARGET, "targetSizeFloat": float(TARGET)}
        return message("GetMetricSpecResponse", metricSpecs=[spec])

    def _metrics(self, asked: object, number: int) -> bytes:
        del asked
        value = {"metricName": METRIC, "metricValue": number, "metricValueFloat": float(number)}
        return message("GetMetricsResponse", metricValues=[value])

    async def _stream(self, raw: bytes, context: Context) -> AsyncIterator[bytes]:
        """Now and on each change; an error once it is unknown whether the object has replicas."""
        reference = await self._read("ScaledObjectRef", raw, context)
        told: bool | None = None
        while True:
            number = await self._number(reference, context)
            if (is_active := number > 0) is not told:
                told = is_active
                yield message("IsActiveResponse", result=is_active)
            await asyncio.sleep(LOOK_S)

    async def _read(self, kind: str, raw: bytes, context: Context) -> Any:  # noqa: ANN401  a message of the pool
        if self._mutual is not None and (why := _not_admitted(context.auth_context(), self._mutual)):
            self._mutual.refusals.tell(why, context.peer())
            await _refuse(
                context, grpc.StatusCode.PERMISSION_DENIED, f"this certificate may not call this service: {why}"
            )
        try:
            return CLASSES[kind].FromString(raw)
        except DecodeError:
            await _refuse(context, grpc.StatusCode.INVALID_ARGUMENT, f"the message is no {kind}")

    async def _number(self, reference: Any, context: Context) -> int:  # noqa: ANN401  a message of the pool
        numbers = self._numbers.all
        if not (self._runtime.leads and self._runtime.is_ready and numbers):
            says = "this controller has made no scaling decision lately: keep the present replicas"
            await _refuse(context, grpc.StatusCode.UNAVAILABLE, says)
        if reference.namespace != self._namespace or reference.name not in numbers:
            says = (
                f"{reference.namespace}/{reference.name} is not a ScaledObject that this controller scales in "
                f"{self._namespace}: delete it, or remove its external trigger"
            )
            await _refuse(context, grpc.StatusCode.NOT_FOUND, says)
        return numbers[reference.name]


async def _refuse(context: Context, code: grpc.StatusCode, says: str) -> NoReturn:
    await context.abort(code, printable(says))  # it quotes names that the caller gave
    raise AssertionError("an aborted call goes no further")


def _not_admitted(shown: Mapping[str, Any], mutual: Mutual) -> str:
    """Return why the caller's certificate is refused; empty if it may ask."""
    names = [bytes(one).decode(errors="replace") for one in shown.get("x509_subject_alternative_name", ())]
    uris = [one for one in names if one.startswith("spiffe:")]
    if why := stranger({"subjectAltName": tuple(("URI", one) for one in uris)}, mutual.identity.trust_domain):
        return why
    caller = identity_of(uris)
    if SCALER_API.admit(caller.role, from_here=False):
        return ""
    return f"{caller} may not ask for replicas; {', '.join(sorted(SCALER_API.roles))} may"


def _credentials(mutual: Mutual) -> grpc.ServerCredentials:
    """Files are read again at each handshake, since a certificate is valid for a day only."""
    newest = _configuration(mutual)

    def fetch() -> grpc.ServerCertificateConfiguration:
        nonlocal newest
        try:
            newest = _configuration(mutual)
        except OSError as error:
            logger().error("certificate_not_changed", reason=str(error))
        return newest

    return grpc.dynamic_ssl_server_credentials(newest, fetch, require_client_authentication=True)


def _configuration(mutual: Mutual) -> grpc.ServerCertificateConfiguration:
    files = mutual.files
    key, certificate, authorities = map(Path.read_bytes, (files.key, files.certificate, files.authorities))
    return grpc.ssl_server_certificate_configuration([(key, certificate)], authorities)
