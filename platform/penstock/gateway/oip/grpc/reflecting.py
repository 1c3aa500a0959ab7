"""Server reflection in v1 and v1alpha, whose messages differ in name only.

grpc ships v1alpha; its answers serve both, byte for byte. Source: grpc/reflection/v1/reflection.proto.
"""

from collections.abc import Iterable

import grpc
import grpc.aio
from google.protobuf import descriptor_pb2, descriptor_pool
from grpc_reflection.v1alpha import reflection, reflection_pb2

V1ALPHA = reflection.SERVICE_NAME
V1 = V1ALPHA.replace("v1alpha", "v1")


def reflect(server: grpc.aio.Server, services: Iterable[str], pool: descriptor_pool.DescriptorPool) -> None:
    """Enable reflection for these services, described by ``pool``."""
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
    """Return v1's file: v1alpha's, renamed."""
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
