"""Writes an error as a gRPC status: code, message, and details in Google's error model.

Trailers carry the facts that HTTP carries in headers: request id, limits, retry time.
"""

from google.protobuf import any_pb2, duration_pb2
from google.rpc import error_details_pb2, status_pb2
from grpc import StatusCode

from penstock.domain.errors import PenstockError
from penstock.domain.ids import RequestId
from penstock.gateway.listener.errors import response_of, retry_after_s, row_of
from penstock.intake.types import Headers

DOMAIN = "penstock"
DETAILS = "grpc-status-details-bin"
_OF_HTTP = frozenset({b"content-type", b"content-length", b"www-authenticate", b"x-should-retry"})
Metadata = tuple[tuple[str, str | bytes], ...]


def code_of(error: PenstockError) -> StatusCode:
    return StatusCode[row_of(error).grpc]


def trailers_of(error: PenstockError, request_id: RequestId, told: Headers) -> Metadata:
    _, headers, _ = response_of(error, request_id)
    plain = [(b"x-request-id", request_id.encode()), (b"x-penstock-code", error.code.encode()), *headers, *told]
    return (*metadata(plain), (DETAILS, details(error, request_id)))


def metadata(headers: Headers) -> Metadata:
    return tuple((name.decode(), value.decode("latin-1")) for name, value in headers if name not in _OF_HTTP)


def details(error: PenstockError, request_id: RequestId) -> bytes:
    row = row_of(error)
    said = {"request_id": request_id, "retryable": str(row.retryable).lower(), "type": row.type}
    said |= {name: value for name, value in (("param", error.param), ("reason", error.reason)) if value}
    found = [_any(error_details_pb2.ErrorInfo(reason=error.code.upper(), domain=DOMAIN, metadata=said))]
    if error.param:
        violation = error_details_pb2.BadRequest.FieldViolation(field=error.param, description=error.message)
        found.append(_any(error_details_pb2.BadRequest(field_violations=[violation])))
    if (wait_s := retry_after_s(error)) is not None:
        found.append(_any(error_details_pb2.RetryInfo(retry_delay=duration_pb2.Duration(seconds=wait_s))))
    status = status_pb2.Status(code=code_of(error).value[0], message=error.message, details=found)
    return bytes(status.SerializeToString())


def _any(
    message: error_details_pb2.ErrorInfo | error_details_pb2.BadRequest | error_details_pb2.RetryInfo,
) -> any_pb2.Any:
    packed = any_pb2.Any()
    packed.Pack(message)
    return packed
