"""A resource monitor that keeps what the engine would see and refuses what it does not know.

Three traps of the SDK's own mock are closed here: URNs keep the whole chain of parents and may not collide,
stack references answer from what the producer really exported, and an unknown function call is an error.
"""

import threading
from collections.abc import Iterator, Mapping
from typing import Any

from google.protobuf import empty_pb2
from pulumi.runtime import mocks, rpc
from pulumi.runtime.proto import provider_pb2, resource_pb2
from pulumi.runtime.sync_await import _sync_await

from infra.capture import symbols
from infra.graph.nodes import Node, Options
from infra.graph.values import Json

_STACK = "pulumi:pulumi:Stack"
_REFERENCE = "pulumi:pulumi:StackReference"


class UnknownCallError(LookupError):
    """A program asked the cloud a question that nobody answers; programs take facts from config or the catalogue."""


class DuplicateUrnError(ValueError):
    """Two resources share a URN; the engine would refuse the second."""


class Monitor(mocks.MockMonitor):
    """Keeps every registration of one stack. `producers` maps a stack's full name to its exports, `cloud` each question
    about what others made (`type id`) to its answer; nothing if the cloud knows no such thing.
    """

    def __init__(
        self,
        *,
        stack: str,
        project: str,
        account: str,
        producers: Mapping[str, Mapping[str, Json]],
        cloud: Mapping[str, Mapping[str, Json] | None],
    ) -> None:
        super().__init__(_Silent())
        self.nodes: dict[str, Node] = {}
        self.exports: Mapping[str, Json] = {}
        self._names: set[str] = set()
        self._naming = threading.Lock()
        self._stack, self._project, self._account = stack, project, account
        self._producers, self._cloud = producers, cloud

    def make_urn(self, parent: str, type_: str, name: str) -> str:
        """The URN with the whole chain of parent types. Raises `DuplicateUrnError` on a second one."""
        chain = parent.split("::")[2] if parent else ""
        qualified = type_ if chain in ("", _STACK) else f"{chain}${type_}"
        urn = f"urn:pulumi:{self._stack}::{self._project}::{qualified}::{name}"
        with self._naming:  # registrations come from several threads at once
            if urn in self._names:
                raise DuplicateUrnError(urn)
            self._names.add(urn)
        return urn

    def Invoke(  # noqa: N802 - the protocol's name
        self, request: resource_pb2.ResourceInvokeRequest
    ) -> resource_pb2.ResourceInvokeResponse:
        """Answer a question about what others made. Raises `UnknownCallError` for any other."""
        asked = " ".join(str(value) for key, value in sorted(_plain_mapping(request_of(request), []).items()))
        state = self._answer(f"{request.tok} {asked}", request.tok)
        if state is None:
            lacking = provider_pb2.CheckFailure(reason=f"couldn't find resource {asked}")
            return resource_pb2.ResourceInvokeResponse(failures=[lacking])
        answer: dict[str, Any] = {"return": _sync_await(rpc.serialize_properties(dict(state), {}))}
        return resource_pb2.ResourceInvokeResponse(**answer)

    def _answer(self, question: str, told_as: str) -> Mapping[str, Json] | None:
        if question not in self._cloud:
            raise UnknownCallError(told_as if told_as in question else question)
        return self._cloud[question]

    def ReadResource(  # noqa: N802 - the protocol's name
        self, request: resource_pb2.ReadResourceRequest
    ) -> resource_pb2.ReadResourceResponse:
        """Answer a stack reference from the producer's exports, and what others made. Raises `UnknownCallError`."""
        if request.type != _REFERENCE:
            return self._read(request)
        wanted = request.id
        if wanted not in self._producers:
            raise UnknownCallError(f"stack reference {wanted}")
        state: dict[str, Json] = {"name": wanted, "outputs": self._producers[wanted], "secretOutputNames": []}
        urn = self.make_urn(request.parent, request.type, request.name)
        self.nodes[urn] = Node(
            urn=urn, type=request.type, name=request.name, parent=request.parent, inputs={"name": wanted}, outputs=state
        )
        return resource_pb2.ReadResourceResponse(urn=urn, properties=_sync_await(rpc.serialize_properties(state, {})))

    def _read(self, request: resource_pb2.ReadResourceRequest) -> resource_pb2.ReadResourceResponse:
        """What others made stands in the graph with what the cloud says of it; nothing is made of it."""
        state = self._answer(f"{request.type} {request.id}", f"read of {request.type}") or {}
        urn = self.make_urn(request.parent, request.type, request.name)
        region = self._region(request.provider, {})
        self.nodes[urn] = Node(
            urn=urn,
            type=request.type,
            name=request.name,
            parent=request.parent,
            inputs=state,
            outputs={**state, "id": request.id},
            provider=request.provider,
            region=region,
            existing=True,
        )
        return resource_pb2.ReadResourceResponse(
            urn=urn, properties=_sync_await(rpc.serialize_properties(dict(state), {}))
        )

    def RegisterResource(  # noqa: N802 - the protocol's name
        self, request: resource_pb2.RegisterResourceRequest
    ) -> resource_pb2.RegisterResourceResponse:
        """Keep the registration and answer with placeholders."""
        urn = self.make_urn(request.parent, request.type, request.name)
        if request.type == _STACK:
            return resource_pb2.RegisterResourceResponse(urn=urn)
        secrets: list[str] = []
        inputs = _plain_mapping(rpc.deserialize_properties(request.object), secrets)
        subject = symbols.Subject(
            urn=urn,
            type=request.type,
            name=request.name,
            region=self._region(request.provider, inputs),
            account=self._account,
            inputs=inputs,
        )
        outputs = symbols.outputs(subject) if request.custom else dict(inputs)
        self.nodes[urn] = _node(request, subject, outputs, tuple(secrets))
        identity = symbols.identity(subject) if request.custom else ""
        state = _sync_await(rpc.serialize_properties(outputs, {}))
        return resource_pb2.RegisterResourceResponse(urn=urn, id=identity, object=state)

    def RegisterResourceOutputs(  # noqa: N802 - the protocol's name
        self, request: resource_pb2.RegisterResourceOutputsRequest
    ) -> empty_pb2.Empty:
        """Keep what the stack itself exports."""
        if _STACK in request.urn:
            self.exports = _plain_mapping(rpc.deserialize_properties(request.outputs), [])
        return empty_pb2.Empty()

    def _region(self, provider: str, inputs: Mapping[str, Json]) -> str:
        if "region" in inputs:
            return str(inputs["region"])
        owner = self.nodes.get(provider.rsplit("::", maxsplit=1)[0])
        return str(owner.inputs.get("region", "")) if owner else ""


def request_of(request: resource_pb2.ResourceInvokeRequest) -> Mapping[str, object]:
    """The arguments of a question."""
    found: Mapping[str, object] = rpc.deserialize_properties(request.args)
    return found


def _node(
    request: resource_pb2.RegisterResourceRequest,
    subject: symbols.Subject,
    outputs: Mapping[str, Json],
    secrets: tuple[str, ...],
) -> Node:
    references = {key: tuple(sorted(value.urns)) for key, value in request.propertyDependencies.items() if value.urns}
    return Node(
        urn=subject.urn,
        type=request.type,
        name=request.name,
        parent=request.parent,
        inputs=subject.inputs,
        outputs={**outputs, "id": symbols.identity(subject)} if request.custom else outputs,
        secrets=tuple(sorted(secrets)),
        dependencies=tuple(sorted(request.dependencies)),
        references=dict(sorted(references.items())),
        provider=request.provider,
        region=subject.region,
        options=Options(
            protect=request.protect,
            retain_on_delete=request.retainOnDelete,
            ignore_changes=tuple(request.ignoreChanges),
            aliases=tuple(_aliases(request)),
        ),
    )


def _aliases(request: resource_pb2.RegisterResourceRequest) -> Iterator[str]:
    for alias in request.aliases:
        yield alias.urn or alias.spec.name


def _plain_mapping(value: Mapping[str, object], secrets: list[str]) -> dict[str, Json]:
    return {key: _plain(inner, key, secrets) for key, inner in sorted(value.items())}


def _plain(value: object, path: str, secrets: list[str]) -> Json:
    """Unwrap secrets (noting where they were) and give whole numbers back their type."""
    if rpc.is_rpc_secret(value):
        secrets.append(path)
        return _plain(rpc.unwrap_rpc_secret(value), path, secrets)
    if isinstance(value, Mapping):
        return {str(key): _plain(inner, f"{path}.{key}", secrets) for key, inner in sorted(value.items())}
    if isinstance(value, list):
        return [_plain(inner, f"{path}.{index}", secrets) for index, inner in enumerate(value)]
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise TypeError(f"{path} is a {type(value).__name__}, which no provider takes")


class _Silent(mocks.Mocks):
    """The SDK's monitor wants mocks; this one answers everything itself."""

    def call(self, args: mocks.MockCallArgs) -> tuple[dict[str, object], None]:
        """Never reached: `Invoke` is overridden."""
        raise UnknownCallError(args.token)

    def new_resource(self, args: mocks.MockResourceArgs) -> tuple[str, dict[str, object]]:
        """Never reached: registrations are overridden."""
        raise UnknownCallError(args.typ)
