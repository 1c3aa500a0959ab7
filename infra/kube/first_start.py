"""The job that prepares the database and makes the operators' first key, before anything else starts.

It runs again with each release, and changes nothing if nothing is to be done.
"""

from collections.abc import Iterator

from infra.components.labels import ROLE
from infra.components.site import Site
from infra.contract import process
from infra.kube import pods
from infra.kube.manifest import Manifest
from infra.kube.namespaces import SERVING
from infra.kube.processes import Claim, Run
from infra.kube.workloads import account, labels_of

ADMIN_KEY = Claim(name="admin-key", path="/var/lib/penstock-admin")
STORAGE_CLASS = "encrypted"
TRIES = 4
LONGEST_S = 600
REPLACED = {"pulumi.com/replaceUnready": "true"}
"""Otherwise an update after a failed job waits for the failed one again, whatever was mended meanwhile."""


def manifests(site: Site) -> Iterator[Manifest]:
    """The job, its account, and the volume that the first admin key is written to, from where an operator takes it."""
    run = Run(process=process("init"), site=site, claims={"admin key": ADMIN_KEY})
    yield account(run.process.name)
    yield Manifest(
        api_version="v1",
        kind="PersistentVolumeClaim",
        name=ADMIN_KEY.name,
        namespace=SERVING,
        annotations=pods.NOT_AWAITED,  # bound by its first pod, which comes after it
        body={
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": STORAGE_CLASS,
                "resources": {"requests": {"storage": "1Gi"}},
            }
        },
    )
    labels = labels_of(run.process.name)
    template = {"metadata": {"labels": labels}, "spec": _pod(run)}
    yield Manifest(
        api_version="batch/v1",
        kind="Job",
        name=run.process.name,
        namespace=SERVING,
        labels=labels,
        annotations=REPLACED,
        body={"spec": {"backoffLimit": TRIES, "activeDeadlineSeconds": LONGEST_S, "template": template}},
    )


def _pod(run: Run) -> dict[str, object]:
    image = run.site.environment.images["controller"]
    reference = pods.digest_reference(run.site.registry, image.repository, image.digest)
    return {
        "serviceAccountName": run.process.name,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "restartPolicy": "Never",
        "nodeSelector": {ROLE: "cpu"},
        "securityContext": dict(pods.SAFE_POD),
        "terminationGracePeriodSeconds": run.grace_s(0),
        "containers": [run.container(pods.container(run.process.name, reference, cpu="1", memory="1Gi"))],
        "volumes": run.volumes(),
    }
