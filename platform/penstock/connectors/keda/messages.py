"""Messages of KEDA's external scaler protocol, made from names and field numbers. Pure.

Source: ``externalscaler.proto`` as KEDA publishes it (https://keda.sh/docs/latest/concepts/external-scalers/).
"""

from collections.abc import Mapping
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

PACKAGE = "externalscaler"
SERVICE = f"{PACKAGE}.ExternalScaler"
_TEXT, _BOOL, _WHOLE, _FRACTION, _MESSAGE = "TYPE_STRING", "TYPE_BOOL", "TYPE_INT64", "TYPE_DOUBLE", "TYPE_MESSAGE"
_FIELDS: Mapping[str, Mapping[str, tuple[int, str]]] = {
    "ScaledObjectRef": {"name": (1, _TEXT), "namespace": (2, _TEXT), "scalerMetadata": (3, "ScalerMetadataEntry")},
    "IsActiveResponse": {"result": (1, _BOOL)},
    "GetMetricSpecResponse": {"metricSpecs": (1, "MetricSpec")},
    "MetricSpec": {"metricName": (1, _TEXT), "targetSize": (2, _WHOLE), "targetSizeFloat": (3, _FRACTION)},
    "GetMetricsRequest": {"scaledObjectRef": (1, "ScaledObjectRef"), "metricName": (2, _TEXT)},
    "GetMetricsResponse": {"metricValues": (1, "MetricValue")},
    "MetricValue": {"metricName": (1, _TEXT), "metricValue": (2, _WHOLE), "metricValueFloat": (3, _FRACTION)},
}
"""Fields by message: number, and type or the message that the field holds."""
_ENTRY = "ScalerMetadataEntry"
_REPEATED = frozenset({"scalerMetadata", "metricSpecs", "metricValues"})


def _file() -> descriptor_pb2.FileDescriptorProto:
    file = descriptor_pb2.FileDescriptorProto(name=f"penstock/{PACKAGE}.proto", package=PACKAGE, syntax="proto3")
    for name, fields in _FIELDS.items():
        message = file.message_type.add(name=name)
        for field, (number, kind) in fields.items():
            _add(message, field, number, kind)
    (reference,) = (one for one in file.message_type if one.name == "ScaledObjectRef")
    entry = reference.nested_type.add(name=_ENTRY)
    entry.options.map_entry = True
    _add(entry, "key", 1, _TEXT)
    _add(entry, "value", 2, _TEXT)
    return file


def _add(message: descriptor_pb2.DescriptorProto, name: str, number: int, kind: str) -> None:
    label = "LABEL_REPEATED" if name in _REPEATED else "LABEL_OPTIONAL"
    held = "" if kind.startswith("TYPE_") else f"{'ScaledObjectRef.' if kind == _ENTRY else ''}{kind}"
    message.field.add(
        name=name,
        number=number,
        label=descriptor_pb2.FieldDescriptorProto.Label.Value(label),
        type=descriptor_pb2.FieldDescriptorProto.Type.Value(_MESSAGE if held else kind),
        type_name=f".{PACKAGE}.{held}" if held else None,
    )


def _classes() -> Mapping[str, Any]:
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(_file().SerializeToString())
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{PACKAGE}.{name}")) for name in _FIELDS}


CLASSES = _classes()


def message(kind: str, /, **fields: object) -> bytes:
    made: bytes = CLASSES[kind](**fields).SerializeToString()
    return made
