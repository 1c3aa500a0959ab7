"""Deletions on a screen: their scope, state, counts, receipt, and the command that shows it later."""

from penstock.views import privacy

SWEEPING = {
    "id": 7, "tenant": "shop", "state": "sweeping", "request": "", "user_mark": "", "before": 0.0,
    "counts": {"keys": 1, "jobs": 1200, "files": 0}, "receipt": "", "signature": "",
}  # fmt: skip
DONE = {**SWEEPING, "state": "done", "request": "job_1", "receipt": '{"format":1}', "signature": "c2ln"}


def test_a_deletion_that_is_swept_says_how_to_look_again() -> None:
    """Counts that are zero are left out."""
    said = [str(one) for one in privacy.deletion(SWEEPING)]
    assert said[:2] == ["deletion 7 of shop: sweeping", "1 keys, 1,200 jobs"]
    assert said[2].endswith("penstock privacy receipt 7")


def test_a_receipt_is_printed_whole() -> None:
    """As it was signed, with its signature."""
    assert [str(one) for one in privacy.deletion(DONE)][2:] == ['{"format":1}', "signature c2ln"]


def test_deletions_are_listed_by_scope() -> None:
    """Of everything, or of what was named."""
    rows = privacy.deletions([DONE, SWEEPING]).rows
    assert [row[2:4] for row in rows] == [("request job_1", "done"), ("everything", "sweeping")]
