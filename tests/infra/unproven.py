"""What a run did not prove for want of a tool, in words that nobody overlooks."""

import shutil
from collections.abc import Iterator

from infra.review.terraform import MIRROR_VARIABLE, missing


def unproven() -> Iterator[str]:
    """What was left out here, why, and how to have it; nothing where all was done."""
    reason, signer = missing(), shutil.which("cosign")
    if reason:
        yield f"{reason}, so on this run"
        yield "  * the real AWS provider validated and planned NOTHING: a value that AWS refuses passes unseen"
        yield "  * the independent reviewer (checkov) reviewed NOTHING"
        yield f"Name a filesystem mirror with hashicorp/aws in {MIRROR_VARIABLE}."
    if signer is None:
        yield "no cosign binary on PATH, so on this run"
        yield "  * cosign signed and attested NOTHING: the format is checked against a published attestation alone"
        yield "Put cosign 3 on PATH, and follow step 3 of infra/README.md with a registry of yours."
    if reason or signer is None:
        yield "Run again before you deploy."
