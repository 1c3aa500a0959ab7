"""A caller who has left before its request is sent: no engine hears of it."""

from unittest.mock import AsyncMock, MagicMock

import pytest

from penstock.domain.call import Answer
from penstock.domain.errors import ClientGone
from penstock.domain.lease import Lease
from penstock.domain.outcome import Outcome
from penstock.domain.request import Prepared
from penstock.domain.tokens import UNKNOWN
from penstock.gateway.pipeline import Pipeline
from tests.support import calls
from tests.support.clock import ManualClock

LEFT = Answer(outcome=Outcome.CANCELLED, usage=UNKNOWN)


def pipeline(clock: ManualClock, dispatcher: MagicMock, relay: MagicMock) -> Pipeline:
    """Return one whose other parts take what comes."""
    return Pipeline(
        clock=clock,
        identity=MagicMock(),
        resolver=MagicMock(),
        preprocessor=MagicMock(),
        degrader=MagicMock(),
        admission=MagicMock(),
        router=MagicMock(),
        dispatcher=dispatcher,
        relays=MagicMock(open=MagicMock(return_value=relay)),
        billing=MagicMock(),
        ledger=MagicMock(),
    )


@pytest.mark.parametrize("gone", [True, False])
async def test_who_has_left_is_not_sent(clock: ManualClock, gone: bool) -> None:
    """Storms of half-closed connections cost engines nothing: the dispatcher hears of those alone who still wait."""
    dispatcher, call = MagicMock(run=AsyncMock()), calls.call()
    relay = MagicMock(answer=AsyncMock(), rest=AsyncMock(return_value=None), fail=MagicMock(return_value=LEFT))
    call.prepared = prepared = Prepared(prompt_tokens=3)
    reply, lease = MagicMock(gone=gone, started=False), Lease(opened_at=0.0, deadline_at=9.0)
    answer = await pipeline(clock, dispatcher, relay)._run(call, prepared, lease, reply)
    assert dispatcher.run.called is not gone
    if gone:
        assert answer is LEFT
        assert isinstance(relay.fail.call_args.args[0], ClientGone)
        assert call.worker is None
