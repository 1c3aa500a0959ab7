"""What may run: images of our registry, by digest, and in the serving namespace signed by the release key."""

from collections.abc import Iterator

from infra.components.site import Site
from infra.kube.manifest import Manifest
from infra.kube.namespaces import NAME, SERVING

POLICY = "images-by-digest"


def admission(site: Site) -> Iterator[Manifest]:
    """The API server itself refuses a tag or a foreign registry: no webhook that could be down stands in between."""
    containers = "object.spec.containers + (has(object.spec.initContainers) ? object.spec.initContainers : [])"
    rules = [
        {
            "expression": f"({containers}).all(c, c.image.matches('@sha256:[0-9a-f]{{64}}$'))",
            "message": "name every image by digest",
        },
        {
            "expression": f"({containers}).all(c, c.image.startsWith('{site.registry}/'))",
            "message": f"pull from {site.registry} alone",
        },
    ]
    yield Manifest(
        api_version="admissionregistration.k8s.io/v1",
        kind="ValidatingAdmissionPolicy",
        name=POLICY,
        body={
            "spec": {
                "failurePolicy": "Fail",
                "matchConstraints": {
                    "resourceRules": [
                        {
                            "apiGroups": [""],
                            "apiVersions": ["v1"],
                            "operations": ["CREATE", "UPDATE"],
                            "resources": ["pods"],
                        }
                    ]
                },
                "validations": rules,
            }
        },
    )
    yield Manifest(
        api_version="admissionregistration.k8s.io/v1",
        kind="ValidatingAdmissionPolicyBinding",
        name=POLICY,
        body={
            "spec": {
                "policyName": POLICY,
                "validationActions": ["Deny"],
                "matchResources": {"namespaceSelector": {"matchLabels": {NAME: SERVING}}},
            }
        },
    )


def signatures(site: Site) -> Manifest:
    """Every image of the serving namespace carries a signature made with the release key."""
    key = site.arn("kms", site.environment.signing_alias)
    authorities = [{"name": "release", "key": {"kms": f"awskms:///{key}", "hashAlgorithm": "sha256"}}]
    return Manifest(
        api_version="policy.sigstore.dev/v1beta1",
        kind="ClusterImagePolicy",
        name="signed-by-release",
        body={
            "spec": {
                "mode": "enforce",
                "images": [{"glob": f"{site.registry}/penstock/**"}],
                "authorities": authorities,
            }
        },
    )
