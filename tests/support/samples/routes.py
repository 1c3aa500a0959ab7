"""Every address of the platform and its permitted callers: the one table that the tests of access read.

Tests compare it with the applications, so a new address can't appear without a line here.
"""

from collections.abc import Mapping
from enum import Enum, auto

from penstock.control.api.app import ADMIN

Route = tuple[str, str]
"""Method and path."""


class For(Enum):
    ANYBODY = auto()
    CALLERS = auto()
    """Any key that may infer."""
    OWNERS = auto()
    """Whoever's it is: the key, its tenant's admins and auditors, operators; to anybody else it does not exist."""
    TENANTS = auto()
    """Any key of the tenant that may infer, for that tenant's own objects; to any other they do not exist."""
    WORKERS = auto()
    OPERATORS = auto()
    """Admin keys of the operators' tenant."""
    OVERSEERS = auto()
    """Admin and auditor keys of the operators' tenant."""
    READERS = auto()
    """Admin and auditor keys: of the operators for all tenants, of a tenant for itself."""
    MANAGERS = auto()
    """Admin keys: of the operators for all tenants, of a tenant for its own keys."""


CONTROLLER: Mapping[Route, For] = {
    ("GET", "/healthz"): For.ANYBODY,
    ("GET", "/readyz"): For.ANYBODY,
    ("POST", "/internal/workers/heartbeat"): For.WORKERS,
    ("GET", "/internal/versions/{version}"): For.WORKERS,
    ("GET", f"{ADMIN}/aliases/{{alias}}/comparison"): For.OVERSEERS,
    ("GET", f"{ADMIN}/autos/{{alias}}/report"): For.OVERSEERS,
    ("GET", f"{ADMIN}/batch-work"): For.OVERSEERS,
    ("GET", f"{ADMIN}/batch-work/pause"): For.OVERSEERS,
    ("GET", f"{ADMIN}/privacy"): For.OVERSEERS,
    ("GET", f"{ADMIN}/privacy/deletions"): For.OVERSEERS,
    ("GET", f"{ADMIN}/privacy/deletions/{{deletion}}"): For.OVERSEERS,
    ("GET", f"{ADMIN}/batch-work/dead"): For.OVERSEERS,
    ("GET", f"{ADMIN}/rollouts"): For.OVERSEERS,
    ("GET", f"{ADMIN}/safety/packs"): For.OVERSEERS,
    ("GET", f"{ADMIN}/safety/packs/{{pack}}"): For.OVERSEERS,
    ("GET", f"{ADMIN}/safety/events"): For.READERS,
    ("GET", f"{ADMIN}/safety/stats"): For.READERS,
    ("GET", f"{ADMIN}/rollouts/{{rollout}}"): For.OVERSEERS,
    ("GET", f"{ADMIN}/audit"): For.READERS,
    ("GET", f"{ADMIN}/budgets"): For.READERS,
    ("GET", f"{ADMIN}/keys"): For.READERS,
    ("GET", f"{ADMIN}/tenants"): For.READERS,
    ("GET", f"{ADMIN}/tenants/{{tenant}}"): For.READERS,
    ("GET", f"{ADMIN}/usage/rows"): For.READERS,
    ("GET", f"{ADMIN}/usage/{{tenant}}"): For.READERS,
    ("POST", f"{ADMIN}/keys"): For.MANAGERS,
    ("PATCH", f"{ADMIN}/keys/{{key}}/plan"): For.MANAGERS,
    ("POST", f"{ADMIN}/keys/{{key}}/revoke"): For.MANAGERS,
    ("POST", f"{ADMIN}/keys/{{key}}/rotate"): For.MANAGERS,
    ("POST", f"{ADMIN}/safety/matches"): For.MANAGERS,
    **dict.fromkeys(
        [
            ("GET", f"{ADMIN}/models"),
            ("POST", f"{ADMIN}/models"),
            ("GET", f"{ADMIN}/models/{{version}}"),
            ("GET", f"{ADMIN}/models/{{version}}/curves"),
            ("PUT", f"{ADMIN}/models/{{version}}/curves"),
            ("PUT", f"{ADMIN}/models/{{version}}/tenants"),
            ("GET", f"{ADMIN}/aliases"),
            ("GET", f"{ADMIN}/aliases/{{alias}}"),
            ("PUT", f"{ADMIN}/aliases/{{alias}}"),
            ("DELETE", f"{ADMIN}/aliases/{{alias}}"),
            ("GET", f"{ADMIN}/autos"),
            ("GET", f"{ADMIN}/autos/{{alias}}"),
            ("PUT", f"{ADMIN}/autos/{{alias}}"),
            ("DELETE", f"{ADMIN}/autos/{{alias}}"),
            ("POST", f"{ADMIN}/rollouts"),
            ("POST", f"{ADMIN}/rollout-plans"),
            ("POST", f"{ADMIN}/rollouts/{{rollout}}/{{move}}"),
            ("GET", f"{ADMIN}/deployments"),
            ("PUT", f"{ADMIN}/deployments/{{version}}"),
            ("POST", f"{ADMIN}/deployments/{{version}}/restart"),
            ("PUT", f"{ADMIN}/deployments/{{version}}/pin"),
            ("DELETE", f"{ADMIN}/deployments/{{version}}/pin"),
            ("GET", f"{ADMIN}/orgs"),
            ("POST", f"{ADMIN}/orgs"),
            ("PATCH", f"{ADMIN}/orgs/{{org}}/plan"),
            ("POST", f"{ADMIN}/tenants"),
            ("PATCH", f"{ADMIN}/tenants/{{tenant}}/plan"),
            ("PUT", f"{ADMIN}/tenants/{{tenant}}/org"),
            ("GET", f"{ADMIN}/budgets/reconcile"),
            ("POST", f"{ADMIN}/budgets/reconcile"),
            ("PATCH", f"{ADMIN}/budgets/{{kind}}/{{name}}"),
            ("GET", f"{ADMIN}/workers"),
            ("POST", f"{ADMIN}/workers/{{worker}}/restart"),
            ("GET", f"{ADMIN}/table"),
            ("GET", f"{ADMIN}/table/history"),
            ("POST", f"{ADMIN}/table/rollback"),
            ("GET", f"{ADMIN}/status"),
            ("GET", f"{ADMIN}/decisions"),
            ("GET", f"{ADMIN}/scale"),
            ("GET", f"{ADMIN}/scale/history"),
            ("PUT", f"{ADMIN}/scale/{{version}}/override"),
            ("DELETE", f"{ADMIN}/scale/{{version}}/override"),
            ("PUT", f"{ADMIN}/batch-work/pause"),
            ("DELETE", f"{ADMIN}/batch-work/pause"),
            ("POST", f"{ADMIN}/batch-work/dead/replay"),
            ("POST", f"{ADMIN}/privacy/rewrap"),
            ("POST", f"{ADMIN}/tenants/{{tenant}}/privacy/rotate"),
            ("POST", f"{ADMIN}/tenants/{{tenant}}/privacy/delete"),
            ("POST", f"{ADMIN}/safety/packs"),
            ("POST", f"{ADMIN}/safety/packs/{{pack}}/rollback"),
            ("PUT", f"{ADMIN}/safety/floor"),
        ],
        For.OPERATORS,
    ),
}
OF_A_TENANT = frozenset(
    {("GET", f"{ADMIN}/tenants/{{tenant}}"), ("GET", f"{ADMIN}/usage/{{tenant}}"), ("POST", f"{ADMIN}/keys")}
)
"""These name a tenant, in the address or in the body, and are closed to keys of any other."""
GATEWAY: Mapping[Route, For] = {
    ("POST", "/v1/chat/completions"): For.CALLERS,
    ("POST", "/v1/completions"): For.CALLERS,
    ("POST", "/v1/embeddings"): For.CALLERS,
    ("POST", "/v1/classify"): For.CALLERS,
    ("POST", "/v1/responses"): For.CALLERS,
    ("POST", "/v1/messages"): For.CALLERS,
    ("POST", "/v1/messages/count_tokens"): For.CALLERS,
    ("POST", "/v1/responses/input_tokens"): For.CALLERS,
    ("GET", "/v1/models"): For.CALLERS,
    ("GET", "/v1/models/{model}"): For.CALLERS,
    ("GET", "/v1/requests/{request_id}"): For.OWNERS,
    ("POST", "/v1/files"): For.TENANTS,
    ("GET", "/v1/files"): For.TENANTS,
    ("GET", "/v1/files/{file}"): For.TENANTS,
    ("GET", "/v1/files/{file}/content"): For.TENANTS,
    ("DELETE", "/v1/files/{file}"): For.TENANTS,
    ("POST", "/v1/batches"): For.TENANTS,
    ("GET", "/v1/batches"): For.TENANTS,
    ("GET", "/v1/batches/{batch}"): For.TENANTS,
    ("POST", "/v1/batches/{batch}/cancel"): For.TENANTS,
    ("POST", "/v1/batches/{batch}/pause"): For.TENANTS,
    ("POST", "/v1/batches/{batch}/resume"): For.TENANTS,
    ("POST", "/v1/webhooks"): For.TENANTS,
    ("GET", "/v1/webhooks"): For.TENANTS,
    ("GET", "/v1/webhooks/{webhook}"): For.TENANTS,
    ("POST", "/v1/webhooks/{webhook}"): For.TENANTS,
    ("DELETE", "/v1/webhooks/{webhook}"): For.TENANTS,
    ("POST", "/v1/webhooks/{webhook}/rotate"): For.TENANTS,
    ("POST", "/v1/webhooks/{webhook}/test"): For.TENANTS,
    ("POST", "/v1/webhooks/{webhook}/replay"): For.TENANTS,
    ("GET", "/v1/webhooks/{webhook}/deliveries"): For.TENANTS,
    ("POST", "/v1/webhooks/{webhook}/deliveries/{delivery}/replay"): For.TENANTS,
    ("POST", "/v1/jobs"): For.TENANTS,
    ("GET", "/v1/jobs"): For.TENANTS,
    ("GET", "/v1/jobs/{job}"): For.TENANTS,
    ("DELETE", "/v1/jobs/{job}"): For.TENANTS,
    ("POST", "/v1/jobs/replay"): For.TENANTS,
    ("POST", "/v1/jobs/{job}/cancel"): For.TENANTS,
    ("POST", "/v1/jobs/{job}/replay"): For.TENANTS,
    ("GET", "/v1/responses/{response}"): For.TENANTS,
    ("DELETE", "/v1/responses/{response}"): For.TENANTS,
    ("POST", "/v1/responses/{response}/cancel"): For.TENANTS,
    ("GET", "/v1/responses/{response}/input_items"): For.TENANTS,
    ("GET", "/healthz"): For.ANYBODY,
    ("GET", "/readyz"): For.ANYBODY,
    ("GET", "/readyz/region"): For.ANYBODY,
    ("GET", "/openapi.json"): For.ANYBODY,
    ("GET", "/health"): For.ANYBODY,
    ("GET", "/ping"): For.ANYBODY,
    ("POST", "/ping"): For.ANYBODY,
    ("GET", "/version"): For.ANYBODY,
    ("GET", "/docs"): For.ANYBODY,
}
OPEN_INFERENCE: Mapping[Route, For] = {
    ("POST", "/v2/models/{model}/infer"): For.CALLERS,
    ("POST", "/v2/models/{model}/versions/{version}/infer"): For.CALLERS,
    ("GET", "/v2/models/{model}"): For.CALLERS,
    ("GET", "/v2/models/{model}/ready"): For.CALLERS,
    ("GET", "/v2/models/{model}/versions/{version}"): For.CALLERS,
    ("GET", "/v2/models/{model}/versions/{version}/ready"): For.CALLERS,
    ("POST", "/v2/repository/index"): For.CALLERS,
    ("GET", "/v2"): For.ANYBODY,
    ("GET", "/v2/health/live"): For.ANYBODY,
    ("GET", "/v2/health/ready"): For.ANYBODY,
}
"""The gateway's addresses that the Open Inference Protocol describes."""
