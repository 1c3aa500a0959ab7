"""The gRPC server: bounds on clients, health, reflection, drain. Its connections come through the relay, which bounds
them.

Several gateways of a machine share one port (``SO_REUSEPORT``): a successor listens before its predecessor ends.
"""

import asyncio
from collections.abc import Iterable

import grpc
import grpc.aio
from google.protobuf import descriptor_pb2, descriptor_pool
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection, reflection_pb2

from penstock.gateway.oip.grpc.calls import Calls, Context
from penstock.gateway.oip.grpc.messages import POOL, SERVICE
from penstock.gateway.oip.grpc.service import INFERENCE, OpenInference
from penstock.gateway.openai.bounds import TENSOR_BYTES
from penstock.gateway.openai.services import Facts, Services
from penstock.intake.limits import Limits
from penstock.intake.relay import Relay

V1ALPHA = reflection.SERVICE_NAME
V1 = V1ALPHA.replace("v1alpha", "v1")


def reflect(server: Calls, services: Iterable[str], pool: descriptor_pool.DescriptorPool) -> None:
    """``pool`` describes the services; reflection itself is added, too."""
    for file in (reflection_pb2.DESCRIPTOR.serialized_pb, _v1().SerializeToString()):
        pool.AddSerializedFile(file)
    told = reflection.aio.ReflectionServicer((*services, V1, V1ALPHA), pool=pool)
    handler = grpc.stream_stream_rpc_method_handler(
        told.ServerReflectionInfo,
        request_deserializer=reflection_pb2.ServerReflectionRequest.FromString,
        response_serializer=reflection_pb2.ServerReflectionResponse.SerializeToString,
    )
    methods = {"ServerReflectionInfo": handler}
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(name, methods) for name in (V1, V1ALPHA)])


def _v1() -> descriptor_pb2.FileDescriptorProto:
    file = descriptor_pb2.FileDescriptorProto.FromString(reflection_pb2.DESCRIPTOR.serialized_pb)
    file.name, file.package = (one.replace("v1alpha", "v1") for one in (file.name, file.package))
    file.ClearField("options")
    fields = [field for message in file.message_type for field in message.field if field.type_name]
    for field in fields:
        field.type_name = field.type_name.replace("v1alpha", "v1")
    for method in (method for service in file.service for method in service.method):
        method.input_type, method.output_type = (
            one.replace("v1alpha", "v1") for one in (method.input_type, method.output_type)
        )
    return file


MAX_STREAMS = 128
"""Concurrent calls on one connection, as usual for HTTP/2 servers; further ones wait at the client."""
FIRST_BYTES = 16 << 10
"""Bytes of a message that a client may send before its call reads it; then it may send all. The library's default would
let clients send up to megabytes.
"""
KEEPALIVE_S, KEEPALIVE_WITHIN_S = 60.0, 20.0
PING_EVERY_S = 10.0
"""A client that pings more often is disconnected."""
MAX_PING_STRIKES = 4
CANCEL_S = 1.0
WATCH_EVERY_S = 0.5
HEALTH = health_pb2.DESCRIPTOR.services_by_name["Health"].full_name


def options(limits: Limits) -> list[tuple[str, int]]:
    return [
        ("grpc.max_receive_message_length", limits.body_bytes or TENSOR_BYTES),
        ("grpc.max_send_message_length", -1),
        ("grpc.max_metadata_size", limits.header_bytes),
        ("grpc.absolute_max_metadata_size", 2 * limits.header_bytes),
        ("grpc.max_concurrent_streams", MAX_STREAMS),
        ("grpc.http2.bdp_probe", 0),
        ("grpc.http2.lookahead_bytes", FIRST_BYTES),
        ("grpc.max_connection_idle_ms", _ms(limits.keep_alive_s)),
        ("grpc.server_handshake_timeout_ms", _ms(limits.header_timeout_s)),
        ("grpc.keepalive_time_ms", _ms(KEEPALIVE_S)),
        ("grpc.keepalive_timeout_ms", _ms(KEEPALIVE_WITHIN_S)),
        ("grpc.http2.min_ping_interval_without_data_ms", _ms(PING_EVERY_S)),
        ("grpc.http2.min_recv_ping_interval_without_data_ms", _ms(PING_EVERY_S)),
        ("grpc.http2.max_ping_strikes", MAX_PING_STRIKES),
    ]


def _ms(seconds: float) -> int:
    return int(seconds * 1e3)


class RpcServer:
    def __init__(self, edge: Services, facts: Facts) -> None:
        self._service, self._facts, self._limits = OpenInference(edge, facts), facts, edge.limits
        self._edge = edge
        self._server: grpc.aio.Server | None = None
        self._relay: Relay | None = None

    async def start(self, host: str, port: int) -> int:
        """Listen and return the port; raises ``OSError``."""
        self._relay = relay = Relay(self._limits, self._edge.intake)
        most = self._limits.connections
        calls = Calls(self._edge, INFERENCE, relay)
        calls.add_generic_rpc_handlers((self._service.handler,))
        health_pb2_grpc.add_HealthServicer_to_server(Health(self._facts), calls)
        POOL.AddSerializedFile(health_pb2.DESCRIPTOR.serialized_pb)
        reflect(calls, (SERVICE, HEALTH), POOL)
        server = grpc.aio.server(handlers=(calls,), options=options(self._limits), maximum_concurrent_rpcs=most)
        server.add_insecure_port(relay.server_address)
        await server.start()
        self._server = server
        return await relay.start(host, port)

    async def drain(self) -> None:
        """Running calls end within the grace; the rest is cut off."""
        server, self._server, relay = self._server, None, self._relay
        if server is None or relay is None:
            return
        relay.stop_accepting()
        stopping = asyncio.ensure_future(server.stop(self._limits.drain_grace_s + CANCEL_S))
        await asyncio.wait({stopping}, timeout=self._limits.drain_grace_s)
        self._service.cut_off()
        await stopping
        relay.close()


class Health(health_pb2_grpc.HealthServicer):  # type: ignore[misc]  # the library has no types
    """``grpc.health.v1``: serving while the gateway is ready."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts

    def _now(self, service: str) -> int:
        if service not in ("", SERVICE):
            return int(health_pb2.HealthCheckResponse.SERVICE_UNKNOWN)
        is_ready = not self._facts.draining() and not self._facts.missing()
        states = health_pb2.HealthCheckResponse
        return int(states.SERVING if is_ready else states.NOT_SERVING)

    async def Check(  # noqa: N802  the protocol's name
        self, request: health_pb2.HealthCheckRequest, context: Context
    ) -> health_pb2.HealthCheckResponse:
        now = self._now(request.service)
        if now == health_pb2.HealthCheckResponse.SERVICE_UNKNOWN:
            await context.abort(grpc.StatusCode.NOT_FOUND, "there is no such service here")
        return health_pb2.HealthCheckResponse(status=now)

    async def Watch(  # noqa: N802
        self, request: health_pb2.HealthCheckRequest, context: Context
    ) -> None:
        told = -1
        while True:
            if (now := self._now(request.service)) != told:
                told = now
                await context.write(health_pb2.HealthCheckResponse(status=now))
            await asyncio.sleep(WATCH_EVERY_S)
