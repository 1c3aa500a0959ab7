"""A job as a runner has claimed it."""

from penstock.domain.ids import Alias, KeyId, RequestId, TenantId, VersionId
from penstock.domain.jobs.ids import NO_BATCH, NO_ENDPOINT, JobId, JobName, ObjectId, RunnerId
from penstock.domain.jobs.job import Job, JobKind, JobState, Reason
from penstock.domain.jobs.payload import NO_EXTENT, Extent
from penstock.domain.money import FREE
from penstock.domain.serving.request import Api

JOB = Job(
    id=JobId(1),
    name=JobName("job_1"),
    tenant=TenantId("acme"),
    key=KeyId("k"),
    kind=JobKind.JOB,
    api=Api.CHAT,
    model=Alias("chat"),
    version=VersionId("llama@0123456789ab"),
    cost_tokens=100,
    cost_micro_usd=FREE,
    state=JobState.RUNNING,
    reason=Reason.NONE,
    attempt=1,
    max_attempts=3,
    epoch=1,
    runner=RunnerId(1),
    not_before=0.0,
    deadline_at=1e9,
    created_at=0.0,
    started_at=1.0,
    ended_at=0.0,
    cancel_asked_at=0.0,
    expires_at=0.0,
    keep_s=60.0,
    batch=NO_BATCH,
    line=0,
    input=Extent(object=ObjectId("job/job_1/input"), size=10),
    output=NO_EXTENT,
    status=0,
    error="",
    request=RequestId(""),
    prompt_tokens=0,
    output_tokens=0,
    webhook=NO_ENDPOINT,
    metadata={},
    fingerprint="",
)
