"""Ids of deferred work, as distinct types."""

from typing import NewType

JobId = NewType("JobId", int)
"""A job's row: never shown to callers."""
JobName = NewType("JobName", str)
"""What callers see: ``job_…``, ``batch_req_…`` for a batch's line, ``resp_…`` for a background response."""
RunnerId = NewType("RunnerId", int)
"""One life of a runner; a runner that was taken for dead comes back with another."""
BatchId = NewType("BatchId", str)
FileId = NewType("FileId", str)
ObjectId = NewType("ObjectId", str)
"""An object of the payload store."""
EndpointId = NewType("EndpointId", str)
"""``we_<hex>``: a registered address of webhooks."""
EventId = NewType("EventId", str)
"""``evt_<hex>``: the ``webhook-id`` of each of its deliveries, in every attempt."""

NO_BATCH = BatchId("")
NO_ENDPOINT = EndpointId("")
