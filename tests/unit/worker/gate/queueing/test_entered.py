"""Who goes before somebody that waits, as counts."""

from penstock.domain.ids import RequestId, TenantId
from penstock.domain.serving.report import Ahead
from penstock.domain.tenancy.standing import Standing
from penstock.worker.gate.queueing.entered import Entered
from penstock.worker.gate.queueing.work import Work

ME = TenantId("me")


def work(tenant: str, standing: Standing = Standing.PAID) -> Work:
    return Work(
        request=RequestId(tenant),
        tenant=TenantId(tenant),
        standing=standing,
        weight=1.0,
        prompt_tokens=1,
        expected_output_tokens=1,
    )


def test_those_who_entered_meanwhile_are_counted_by_standing() -> None:
    """The own tenant's are told apart, others are a count, and who entered before does not count."""
    before = Entered()
    for one in (work("me"), work("you"), work("they", Standing.INTERACTIVE)):
        before.came(one)
    before.entered(work("you"))
    mark = before.mark(ME)
    assert mark.tenants == 2
    before.came(work("me"))
    for one in (work("they", Standing.INTERACTIVE), work("you"), work("me")):
        before.entered(one)
    assert before.since(mark, ME) == (
        Ahead(standing="interactive", own=0, others=1),
        Ahead(standing="paid", own=1, others=1),
    )


def test_nobody_is_remembered_who_is_not_here() -> None:
    """With its last request a tenant is forgotten, so that memory follows those who are here."""
    before = Entered()
    for _ in range(2):
        before.came(work("you"))
    before.entered(work("you"))
    for _ in range(2):
        before.gone(work("you"))
    assert not before._tenants
    assert before.mark(ME).tenants == 0
