"""``make infra-mirror REGISTRY=HOST``: prints the commands that copy every chart and image of the pins into a registry.

An image is copied under the tag that the rendered chart asks for; one that is asked for by digest gets its program's
version as tag, since untagged images expire.
"""

import sys
from collections.abc import Iterator

from infra.catalogue.charts import charts, mirrored, moving
from infra.rendered.checked_in import REGISTRY, facts


def copies(registry: str) -> Iterator[tuple[str, str]]:
    """Yield source and target of each image. Raises `KeyError` for an image that the catalogue does not list."""
    for chart, found in facts().items():
        upstream = {mirrored(image): image for image in charts()[chart]["images"]}
        for image in found["images"]:
            path, tag, digest = _split(image.removeprefix(f"{REGISTRY}/"))
            source = upstream[path]
            tag = tag or found["read"]["app_version"]
            wanted = f"@{digest}" if digest else f":{moving().get(source, tag)}"
            yield source + wanted, f"{registry}/{path}:{tag}"


def _split(image: str) -> tuple[str, str, str]:
    """Return the repository, tag and digest of a reference; what it lacks is empty."""
    named, _, digest = image.partition("@")
    path, _, tag = named.partition(":")
    return path, tag, digest


def commands(registry: str) -> Iterator[str]:
    for chart, found in facts().items():
        source, version = charts()[chart]["source"], found["read"]["version"]
        asked = source if source.startswith("oci://") else f"{chart} --repo {source}"
        yield f"helm pull {asked} --version {version}"
        yield f"helm push {chart}-{version}.tgz oci://{registry}/charts"
    yield from (f"crane copy {source} {target}" for source, target in copies(registry))


if __name__ == "__main__":
    sys.stdout.writelines(f"{line}\n" for line in commands(sys.argv[1]))
