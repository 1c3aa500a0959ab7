"""Explicit providers, pinned to account and region. Default providers are disabled in every project."""

import json

import pulumi
import pulumi_aws as aws
import pulumi_kubernetes as kubernetes

from infra.components.site import Site
from infra.stacks.exports import RegionExports


def aws_provider(site: Site) -> aws.Provider:
    """The region's provider; it refuses any account but the config's."""
    return aws.Provider(f"aws-{site.region}", region=site.region, allowed_account_ids=[site.environment.account_id])


def under(provider: pulumi.ProviderResource) -> pulumi.ResourceOptions:
    """Options of a component whose children all use this provider."""
    return pulumi.ResourceOptions(providers=[provider])


def kubernetes_provider(site: Site, region: RegionExports) -> kubernetes.Provider:
    """The cluster's provider. Its kubeconfig holds no credential: the AWS CLI makes a token at each use."""
    config = pulumi.Output.all(
        name=region.cluster_name, endpoint=region.cluster_endpoint, authority=region.cluster_authority
    ).apply(lambda cluster: _kubeconfig(site, cluster["name"], cluster["endpoint"], cluster["authority"]))
    return kubernetes.Provider(
        f"kubernetes-{site.region}",
        kubeconfig=config,
        enable_server_side_apply=True,
        cluster_identifier=region.cluster_name,
    )


def _kubeconfig(site: Site, name: str, endpoint: str, authority: str) -> str:
    token = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": "aws",
        "args": ["eks", "get-token", "--cluster-name", name, "--region", site.region],
        "interactiveMode": "Never",
    }
    cluster = {"server": endpoint, "certificate-authority-data": authority}
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": name,
            "clusters": [{"name": name, "cluster": cluster}],
            "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
            "users": [{"name": name, "user": {"exec": token}}],
        }
    )
