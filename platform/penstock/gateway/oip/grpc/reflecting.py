"""Server reflection in both versions of its protocol: the messages of v1 are those of v1alpha under another name.

The library has v1alpha alone. What it answers is, byte for byte, what v1 says, so the same answers serve both.
Source: grpc/reflection/v1/reflection.proto.
"""

from collections.abc import Iterable

import grpc
import grpc.aio
from google.protobuf import descriptor_pb2, descriptor_pool
from grpc_reflection.v1alpha import reflection, reflection_pb2

V1ALPHA = reflection.SERVICE_NAME
V1 = V1ALPHA.replace("v1alpha", "v1")


def reflect(server: grpc.aio.Server, services: Iterable[str], pool: descriptor_pool.DescriptorPool) -> None:
    """Have the server tell of these services, which ``pool`` describes, and of reflection itself."""
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
    """Return the file of v1: that of v1alpha with its own names."""
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
