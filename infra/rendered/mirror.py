"""``make infra-mirror ENV=ENV REGISTRY=HOST``: prints what copies an environment's charts and images into a registry.

An image is copied under the tag that the rendered chart asks for; one that is asked for by digest gets its program's
version as tag, since untagged images expire.
"""

import re
import sys
from collections.abc import Iterable, Iterator

from infra.catalogue.charts import charts, mirrored, moving
from infra.config.load import load
from infra.config.model import Chart
from infra.rendered.checked_in import REGISTRY, facts

OF_AWS = re.compile(r"^(\d+\.dkr\.ecr\.([\w-]+)\.amazonaws\.com)/")
"""A registry of AWS's own add-ons: any account may pull from it, after a login by somebody with a right to ECR."""


def copies(registry: str, wanted: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield source and target of each image. Raises `KeyError` for an image that the catalogue does not list."""
    for chart in wanted:
        found = facts()[chart]
        upstream = {mirrored(image): image for image in charts()[chart]["images"]}
        for image in found["images"]:
            path, tag, digest = _split(image.removeprefix(f"{REGISTRY}/"))
            source = upstream[path]
            tag = tag or found["read"]["app_version"]
            asked = f"@{digest}" if digest else f":{moving().get(source, tag)}"
            yield source + asked, f"{registry}/{path}:{tag}"


def _split(image: str) -> tuple[str, str, str]:
    """Return the repository, tag and digest of a reference; what it lacks is empty."""
    named, _, digest = image.partition("@")
    path, _, tag = named.partition(":")
    return path, tag, digest


def commands(registry: str, pins: dict[str, Chart]) -> Iterator[str]:
    """Yield the lines to type, logins before what needs them. Raises `ValueError` for a pin that was not rendered."""
    for chart, pin in sorted(pins.items()):
        read = facts()[chart]["read"]["version"]
        if pin.version != read:
            raise ValueError(f"{chart} is pinned at {pin.version}, and {read} was rendered: make infra-charts first")
        source = charts()[chart]["source"]
        asked = source if source.startswith("oci://") else f"{chart} --repo {source}"
        yield f"helm pull {asked} --version {read}"
        yield f"helm push {chart}-{read}.tgz oci://{registry}/charts"
    pairs = list(copies(registry, sorted(pins)))
    for host, region in sorted({told.groups() for source, _ in pairs if (told := OF_AWS.match(source))}):
        password = f"aws ecr get-login-password --region {region}"
        yield f"{password} | crane auth login {host} --username AWS --password-stdin"
    yield from (f"crane copy {source} {target}" for source, target in pairs)


if __name__ == "__main__":
    environment, host = sys.argv[1:]
    sys.stdout.writelines(f"{line}\n" for line in commands(host, load(environment).environment.charts))
