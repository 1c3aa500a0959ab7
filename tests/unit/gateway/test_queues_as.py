"""Whose a request is in a worker's queue."""

from dataclasses import replace

from penstock.domain.ids import Alias, RequestId, TenantId
from penstock.domain.serving.shadow import Copy
from penstock.gateway.pipeline import _queues_as
from tests.support.samples import calls


def test_copies_queue_apart_as_their_originals_do_and_as_no_tenant() -> None:
    """One tenant of all copies would fill a step with prompts that met one another one by one at the incumbent."""
    own, copy = calls.call(), calls.call()
    copy = replace(copy, copy=Copy(of=RequestId("r"), alias=Alias("toy"), tenant=TenantId("acme"), sticky="acme"))
    assert (_queues_as(own), _queues_as(copy)) == ("acme", "_shadow/acme")
