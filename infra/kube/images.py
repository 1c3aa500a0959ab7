"""What may run: images of our registry, by digest, and in the serving namespace signed by the release key."""

from collections.abc import Iterator

from infra.components.site import Site
from infra.kube.manifest import Manifest
from infra.kube.namespaces import NAME, SERVING

POLICY = "images-by-digest"
BILL = "https://cyclonedx.org/bom"
"""The type that `cosign attest --type cyclonedx` writes."""


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


def signatures(site: Site) -> Iterator[Manifest]:
    """Every image of the serving namespace carries a signature, and a signed bill of materials, by the release key.

    An authority checks attestations in place of signatures, and an image must satisfy all policies that match it:
    https://github.com/sigstore/policy-controller/blob/v0.13.1/pkg/webhook/validator.go
    """
    key = site.arn("kms", site.environment.signing_alias)
    release = {"name": "release", "key": {"kms": f"awskms:///{key}", "hashAlgorithm": "sha256"}}
    bill = {"name": "bill", "predicateType": BILL}
    for name, authority in {
        "signed-by-release": release,
        "listed-by-release": {**release, "attestations": [bill]},
    }.items():
        yield Manifest(
            api_version="policy.sigstore.dev/v1beta1",
            kind="ClusterImagePolicy",
            name=name,
            body={
                "spec": {
                    "mode": "enforce",
                    "images": [{"glob": f"{site.registry}/penstock/**"}],
                    "authorities": [authority],
                }
            },
        )
