"""Bills of materials of the images: valid CycloneDX, and exactly what the images' script installs."""

import json
import subprocess
from pathlib import Path

import pytest

from scripts.bills import BillRefusedError, bill_of, locks_of, packages
from tests.support import tree

DIGEST = "ab" * 32
BASE = f"docker.io/library/python@sha256:{DIGEST}"
LOCK = f"""# made by a test
six==1.17.0 \\
    --hash=sha256:{DIGEST}
uvicorn[standard]==0.54.0 ; python_version < "4" \\
    --hash=sha256:{"cd" * 32} \\
    --hash=sha256:{"ef" * 32}
"""


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    path = tmp_path / "penstock-1.whl"
    path.write_bytes(b"a wheel")
    return path


@pytest.mark.parametrize("image", ["gateway", "controller", "worker"])
def test_a_bill_lists_what_an_image_installs(image: str, wheel: Path) -> None:
    """Each package of the image's locks is in its bill once, with its version; beside them base and wheel."""
    locks = [path.read_text() for path in locks_of(image)]
    bill = json.loads(bill_of(image, BASE, locks, wheel))
    wanted = {line.split(" ")[0] for lock in locks for line in lock.splitlines() if line[:1].isalnum()}
    libraries = [one for one in bill["components"] if one["type"] == "library" and one["name"] != "penstock"]
    assert {f"{one['name']}=={one['version']}" for one in libraries} == wanted
    assert len(libraries) == len(wanted) > 50
    (base,) = [one for one in bill["components"] if one["type"] == "container"]
    assert (base["name"], base["hashes"][0]["content"]) == ("docker.io/library/python", DIGEST)


def test_a_package_has_the_digests_of_its_lock() -> None:
    """Digests belong to the package above them; extras and markers are no part of a name or version."""
    found = {one.name: one for one in packages(LOCK)}
    digests = {
        name: sorted(one.content for reference in component.external_references for one in reference.hashes)
        for name, component in found.items()
    }
    assert digests == {"six": [DIGEST], "uvicorn": ["cd" * 32, "ef" * 32]}
    assert str(found["uvicorn"].purl) == "pkg:pypi/uvicorn@0.54.0"


@pytest.mark.parametrize(
    ("base", "lock", "says"),
    [("python:3.11", LOCK, "not named by digest"), (BASE, "six==1.17.0", "has no hash"), ("", LOCK, "digest")],
)
def test_an_image_with_unknown_parts_has_no_bill(base: str, lock: str, says: str, wheel: Path) -> None:
    """A base without a digest and a package without a hash end the build."""
    with pytest.raises(BillRefusedError, match=says):
        bill_of("gateway", base, [lock], wheel)


def test_no_image_is_built_without_a_bill() -> None:
    """`make images` writes the bills of all images, with their own bases, before it calls the container engine."""
    bases = {"BASE": BASE, "WORKER_BASE": f"python@sha256:{DIGEST}"}
    command = ["make", "--dry-run", "images", "ENGINE=an-engine", *(f"{name}={base}" for name, base in bases.items())]
    done = subprocess.run(command, cwd=tree.ROOT, capture_output=True, text=True, check=True, timeout=100)
    said = " ".join(done.stdout.split())
    for image, base in {"gateway": BASE, "controller": BASE, "worker": bases["WORKER_BASE"]}.items():
        assert -1 < said.find(f"scripts.bills {image} {base} &&") < said.find("an-engine build"), said
