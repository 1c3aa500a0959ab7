"""Program: write an image's bill of materials, CycloneDX 1.6, to build/bills/IMAGE.cdx.json.

    python -m scripts.bills IMAGE BASE

An image is its base, by digest, the packages of its locks, each installed by hash and without others, and the wheel in
``dist``. Packages of the base's system are in the base's own bill.
"""

import hashlib
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from uuid import NAMESPACE_URL, uuid5

from cyclonedx.model import ExternalReference, ExternalReferenceType, HashAlgorithm, HashType, XsUri
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packageurl import PackageURL

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "build/bills"
PINNED = re.compile(r"^([a-z0-9][a-z0-9._-]*)(?:\[[^\]]*\])?==([^\s;\\]+)", re.MULTILINE | re.IGNORECASE)
HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")
BASE = re.compile(r"([^@\s]+)@sha256:([0-9a-f]{64})")


class BillRefusedError(Exception):
    """The parts of an image are not all known."""


def locks_of(image: str) -> list[Path]:
    done = subprocess.run([ROOT / "platform/images/install", image], capture_output=True, text=True, check=True)
    return [Path(line) for line in done.stdout.split()]


def packages(lock: str) -> Iterator[Component]:
    """Yield the packages of a lock, with the digests of the files that may be installed."""
    starts = list(PINNED.finditer(lock))
    for here, after in zip(starts, [*starts[1:], None], strict=True):
        name, pinned = here.groups()
        hashes = HASH.findall(lock, here.end(), after.start() if after else len(lock))
        if not hashes:
            raise BillRefusedError(f"{name} {pinned} has no hash in its lock")
        purl = PackageURL(type="pypi", name=name.lower(), version=pinned)
        found = ExternalReference(
            type=ExternalReferenceType.DISTRIBUTION,
            url=XsUri(str(purl)),
            hashes=_hashes(*hashes),
        )
        yield Component(name=name, version=pinned, purl=purl, bom_ref=str(purl), external_references=[found])


def bill_of(image: str, base: str, locks: list[str], wheel: Path) -> str:
    """Return the bill as JSON, valid by the published schema; apart from its time the same for the same parts."""
    named = BASE.fullmatch(base)
    if named is None:
        raise BillRefusedError(f"the base {base!r} is not named by digest: name@sha256:…")
    container, (name, digest) = ComponentType.CONTAINER, named.groups()
    below = Component(type=container, name=name, version=f"sha256:{digest}", hashes=_hashes(digest), bom_ref=base)
    made = hashlib.sha256(wheel.read_bytes()).hexdigest()
    ours = Component(name="penstock", version=version("penstock"), hashes=_hashes(made), bom_ref="penstock")
    parts = {str(one.bom_ref): one for lock in locks for one in packages(lock)}
    bill = Bom(components=[below, ours, *parts.values()])
    bill.serial_number = uuid5(NAMESPACE_URL, " ".join([image, base, made, *sorted(parts)]))
    whole = Component(type=container, name=f"penstock/{image}", version=ours.version, bom_ref=image)
    bill.metadata.component = whole
    bill.register_dependency(whole, bill.components)
    text = JsonV1Dot6(bill).output_as_string(indent=1)
    if fault := JsonStrictValidator(SchemaVersion.V1_6).validate_str(text):
        raise BillRefusedError(f"the bill of {image} is not valid: {fault}")
    return text


def _hashes(*sha256: str) -> list[HashType]:
    return [HashType(alg=HashAlgorithm.SHA_256, content=one) for one in sha256]


def main(image: str, base: str) -> None:
    (wheel,) = (ROOT / "dist").glob("penstock-*.whl")
    text = bill_of(image, base, [lock.read_text() for lock in locks_of(image)], wheel)
    FOLDER.mkdir(parents=True, exist_ok=True)
    (FOLDER / f"{image}.cdx.json").write_text(text)


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except BillRefusedError as error:
        sys.exit(f"bills: {error}")
