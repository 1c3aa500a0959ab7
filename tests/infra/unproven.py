"""What a run did not prove for want of a tool, in words that nobody overlooks."""

from collections.abc import Iterator

from infra.review.terraform import MIRROR_VARIABLE, missing


def unproven() -> Iterator[str]:
    """What was left out here, why, and how to have it; nothing where all was done."""
    reason = missing()
    if reason:
        yield f"{reason}, so on this run"
        yield "  * the real AWS provider validated and planned NOTHING: a value that AWS refuses passes unseen"
        yield "  * the independent reviewer (checkov) reviewed NOTHING"
        yield f"Name a filesystem mirror with hashicorp/aws in {MIRROR_VARIABLE} and run again before you deploy."
