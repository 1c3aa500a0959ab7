"""The batcher on a real event loop, with compute in real threads: whoever comes has one end, the right one."""

import asyncio
import gc
import threading
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import BrokenExecutor
from dataclasses import dataclass, field

import pytest

from penstock.domain.clock import SystemClock
from penstock.domain.errors import DeadlineInQueue, Draining, EngineError, InvalidField, WorkerLost
from penstock.domain.serving.report import Batched, Trigger
from penstock.worker.batching.collector import Batcher
from penstock.worker.batching.faults import ComputeLost, OutOfMemory, Quarantined
from penstock.worker.batching.items import Fired, Item, Left
from penstock.worker.batching.settings import BatchSettings, Caps, Prior
from tests.support.patience import patient
from tests.support.samples.batches import item

SETTINGS = BatchSettings(max_items=8, prior=Prior(fixed_s=0.001, per_item_s=0.0001))


@dataclass
class Device:
    """Doubles numbers; a closed gate holds it, ``fails`` may raise for a batch."""

    gate: threading.Event = field(default_factory=threading.Event)
    entered: threading.Event = field(default_factory=threading.Event)
    batches: list[list[object]] = field(default_factory=list)
    threads: set[int] = field(default_factory=set)
    both: threading.Event = field(default_factory=threading.Event)
    running: int = 0
    most_running: int = 0

    def __call__(self, items: Sequence[Item]) -> Sequence[object]:
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        self.threads.add(threading.get_ident())
        self.batches.append([one.payload for one in items])
        self.entered.set()
        if self.running == 2:
            self.both.set()
        try:
            assert self.gate.wait(10.0)
            self.fails(items)
            return [self.result(one) for one in items]
        finally:
            self.running -= 1

    def fails(self, items: Sequence[Item]) -> None:
        """Raise where this batch is to fail."""

    def result(self, one: Item) -> object:
        assert isinstance(one.payload, int)
        return 2 * one.payload


class Poisoned(Device):
    """Fails with every batch that has a negative number."""

    def fails(self, items: Sequence[Item]) -> None:
        if any(isinstance(one.payload, int) and one.payload < 0 for one in items):
            raise ValueError("secret words of the input")


@dataclass
class Small(Device):
    """Has memory for three."""

    def fails(self, items: Sequence[Item]) -> None:
        if len(items) > 3:
            raise OutOfMemory


@dataclass
class Failing(Device):
    """Raises this for everything."""

    error: BaseException = field(default_factory=ComputeLost)

    def fails(self, items: Sequence[Item]) -> None:
        raise self.error


@dataclass
class Notes:
    """What a batcher told."""

    fired: list[Fired] = field(default_factory=list)
    left: Counter[Left] = field(default_factory=Counter)

    def note_left(self, why: Left) -> None:
        self.left[why] += 1


def a_batcher(device: Device, notes: Notes | None = None, settings: BatchSettings = SETTINGS) -> Batcher:
    notes = notes or Notes()
    return Batcher(device, settings, SystemClock(), notes.fired.append, notes.note_left)


async def entered(device: Device) -> None:
    """Wait until a batch is on the device."""
    assert await asyncio.to_thread(device.entered.wait, 10.0)


async def behind_one(batcher: Batcher, device: Device, *items: Item) -> list[asyncio.Task[object]]:
    """Hold the device with a first item, and let others wait behind it, so that they are one batch."""
    first = asyncio.create_task(batcher.submit(item(payload=100)))
    await entered(device)
    tasks = [first, *(asyncio.create_task(batcher.submit(one)) for one in items)]
    await asyncio.sleep(0)
    return tasks


async def ends(tasks: list[asyncio.Task[object]]) -> list[object]:
    return await asyncio.gather(*tasks, return_exceptions=True)


async def test_items_that_wait_are_computed_together_in_order_and_off_the_loop() -> None:
    """Each gets its own result; what came while the device was busy is one batch, and none ran on the loop's thread."""
    device, notes = Device(), Notes()
    async with a_batcher(device, notes) as batcher:
        tasks = await behind_one(batcher, device, *(item(payload=number) for number in range(5)))
        device.gate.set()
        assert await ends(tasks) == [200, 0, 2, 4, 6, 8]
    assert device.batches == [[100], [0, 1, 2, 3, 4]]
    assert threading.get_ident() not in device.threads
    assert [(one.size, one.trigger, one.compute_s is not None) for one in notes.fired] == [
        (1, Trigger.IDLE, True),
        (5, Trigger.IDLE, True),
    ]
    assert not notes.left


async def test_a_burst_on_an_idle_device_is_one_batch() -> None:
    """What comes in one turn of the loop is computed together, and not its first item before the rest."""
    device, told = Device(), list[Batched]()
    device.gate.set()
    async with a_batcher(device) as batcher:
        tasks = [asyncio.create_task(batcher.submit(item(payload=number), told.append)) for number in range(5)]
        assert await ends(tasks) == [0, 2, 4, 6, 8]
    assert device.batches == [[0, 1, 2, 3, 4]]
    assert {one.size for one in told} == {5}


async def test_who_waits_is_told_of_its_batch() -> None:
    """Size and trigger as it started, and for how long the item waited."""
    device, told = Device(), list[Batched]()
    async with a_batcher(device) as batcher:
        device.gate.set()
        await batcher.submit(item(payload=1), told.append)
    assert [(one.size, one.trigger) for one in told] == [(1, Trigger.IDLE)]
    assert 0.0 <= told[0].waited_s < 1.0


async def test_who_leaves_while_it_waits_is_never_computed() -> None:
    """A cancelled item costs the device nothing, and its neighbours get theirs."""
    device, notes = Device(), Notes()
    async with a_batcher(device, notes) as batcher:
        tasks = await behind_one(batcher, device, *(item(payload=number) for number in range(3)))
        tasks[2].cancel()
        await asyncio.sleep(0)
        device.gate.set()
        found = await ends(tasks)
    assert found[:2] + found[3:] == [200, 0, 4]
    assert device.batches == [[100], [0, 2]]
    assert notes.left == {Left.CANCELLED: 1}


async def test_when_its_company_leaves_the_rest_starts() -> None:
    """Who waits for a third, and is left by the second, is alone on an idle device: nobody is expected any more."""
    device = Device()
    device.gate.set()
    slow = BatchSettings(max_items=8, interactive=Caps(max_wait_s=600.0), prior=Prior(fixed_s=600.0, per_item_s=0.0))
    async with a_batcher(device, settings=slow) as batcher:
        stays, leaves = (asyncio.create_task(batcher.submit(item(payload=n))) for n in (1, 2))
        await asyncio.sleep(0.01)
        assert device.batches == []
        leaves.cancel()
        async with asyncio.timeout(patient(10.0)):
            assert await stays == 2
    assert device.batches == [[1]]


async def test_who_leaves_while_it_is_computed_harms_nobody() -> None:
    """Its neighbours get their results, and the batcher goes on."""
    device = Device()
    async with a_batcher(device) as batcher:
        tasks = await behind_one(batcher, device, item(payload=1))
        tasks[0].cancel()
        await asyncio.sleep(0)
        device.gate.set()
        assert (await ends(tasks))[1] == 2
        assert await batcher.submit(item(payload=3)) == 6


async def test_who_expires_while_the_device_is_busy_is_told_at_its_deadline() -> None:
    """It does not wait for the device, and is never computed; one that comes too late is refused."""
    device, notes = Device(), Notes()
    async with a_batcher(device, notes) as batcher:
        soon = SystemClock().monotonic() + 0.02
        tasks = await behind_one(batcher, device, item(payload=1, deadline_at=soon))
        with pytest.raises(DeadlineInQueue):
            await tasks[1]
        with pytest.raises(DeadlineInQueue):
            await batcher.submit(item(payload=2, deadline_at=soon))
        device.gate.set()
        assert await tasks[0] == 200
    assert device.batches == [[100]]
    assert notes.left == {Left.EXPIRED: 2}


async def test_a_poisoned_item_fails_alone() -> None:
    """Its neighbours are tried again without it; its error has none of the model's words, and the cause for the log."""
    device, notes = Poisoned(), Notes()
    async with a_batcher(device, notes) as batcher:
        tasks = await behind_one(batcher, device, *(item(payload=number) for number in (1, 2, -3, 4, 5)))
        device.gate.set()
        found = await ends(tasks)
    assert found[:3] + found[4:] == [200, 2, 4, 8, 10]
    error = found[3]
    assert isinstance(error, EngineError)
    assert "secret" not in error.message
    assert isinstance(error.__cause__, ValueError)
    assert len(device.batches) <= 2 + 2 * 3
    assert notes.left == {Left.POISONED: 1}
    assert notes.fired[-1].compute_s is None


async def test_a_poison_that_comes_again_is_quarantined() -> None:
    """The third time it is refused before compute, and others are served as ever."""
    device, notes = Poisoned(), Notes()
    device.gate.set()
    async with a_batcher(device, notes) as batcher:
        for _ in range(2):
            with pytest.raises(EngineError):
                await batcher.submit(item(payload=-1, digest=b"poison"))
            assert await batcher.submit(item(payload=1, digest=b"good")) == 2
        before = len(device.batches)
        with pytest.raises(Quarantined) as refused:
            await batcher.submit(item(payload=-1, digest=b"poison"))
        assert len(device.batches) == before
        assert refused.value.retry_after_s == pytest.approx(60.0, abs=5.0)
        assert await batcher.submit(item(payload=1, digest=b"good")) == 2
    assert notes.left == {Left.POISONED: 2, Left.QUARANTINED: 1}


async def test_an_error_for_the_caller_comes_through() -> None:
    """What a handler says of an input in the platform's own words reaches who sent it, in a batch of its own or not."""
    device = Failing(error=InvalidField("An image has three channels.", param="image"))
    device.gate.set()
    async with a_batcher(device) as batcher:
        for _ in range(3):
            with pytest.raises(InvalidField, match="three channels"):
                await batcher.submit(item(payload=1, digest=b"wrong"))


async def test_a_result_that_is_an_error_fails_its_item_alone() -> None:
    """A handler that knows which input is wrong needs no bisecting."""

    class Knowing(Device):
        def result(self, one: Item) -> object:
            return InvalidField("no image") if one.payload == 2 else one.payload

    device = Knowing()
    async with a_batcher(device) as batcher:
        tasks = await behind_one(batcher, device, *(item(payload=number) for number in (1, 2, 3)))
        device.gate.set()
        found = await ends(tasks)
    assert isinstance(found[2], InvalidField)
    assert [found[1], found[3], len(device.batches)] == [1, 3, 2]


async def test_lack_of_memory_halves_the_batch_and_the_cap() -> None:
    """Everybody is served in smaller batches, and the next full one is no larger than what fitted."""
    device, notes = Small(), Notes()
    async with a_batcher(device, notes) as batcher:
        tasks = await behind_one(batcher, device, *(item(payload=number) for number in range(8)))
        device.gate.set()
        assert await ends(tasks) == [200, *(2 * number for number in range(8))]
        device.batches.clear()
        again = [asyncio.create_task(batcher.submit(item(payload=number))) for number in range(8)]
        assert await ends(again) == [2 * number for number in range(8)]
    assert max(map(len, device.batches)) <= 2
    assert not notes.left


@pytest.mark.parametrize("error", [ComputeLost(), BrokenExecutor()])
async def test_when_compute_dies_nothing_leaks_and_the_next_batch_is_tried(error: Exception) -> None:
    """Everybody of the batch hears at once that the worker was lost; nothing is bisected; later items are computed."""
    device, notes = Failing(error=error), Notes()
    async with a_batcher(device, notes) as batcher:
        tasks = await behind_one(batcher, device, *(item(payload=number) for number in range(4)))
        device.gate.set()
        assert [type(one) for one in await ends(tasks)] == [WorkerLost] * 5
        assert len(device.batches) == 2
        assert len(batcher.policy) == 0
    assert notes.left == {Left.LOST: 5}


@pytest.mark.parametrize("error", [StopIteration(), MemoryError(), EngineError("x"), TimeoutError()])
async def test_no_error_of_a_model_ends_the_batcher(error: Exception) -> None:
    """Whatever it raises ends on the item, also what asyncio itself stumbles over."""
    device = Failing(error=error)
    device.gate.set()
    async with a_batcher(device) as batcher:
        for _ in range(2):
            with pytest.raises(EngineError):
                await batcher.submit(item(payload=1))


async def test_a_model_that_loses_results_answers_nobody_wrongly() -> None:
    """A batch with another number of results than items fails; nobody gets somebody else's."""

    class Losing(Device):
        def __call__(self, items: Sequence[Item]) -> Sequence[object]:
            return super().__call__(items)[1:]

    device = Losing()
    async with a_batcher(device) as batcher:
        tasks = await behind_one(batcher, device, item(payload=1), item(payload=2))
        device.gate.set()
        assert [type(one) for one in await ends(tasks)] == [EngineError] * 3


async def test_two_batches_are_in_flight_where_settings_say_so() -> None:
    """The second one starts while the first is computed, and a third waits."""
    device = Device()
    settings = BatchSettings(max_items=2, in_flight=2, prior=SETTINGS.prior)
    async with a_batcher(device, settings=settings) as batcher:
        tasks = [asyncio.create_task(batcher.submit(item(payload=number))) for number in range(7)]
        assert await asyncio.to_thread(device.both.wait, 10.0)
        device.gate.set()
        assert await ends(tasks) == [2 * number for number in range(7)]
    assert device.most_running == 2


async def test_closing_answers_who_is_computed_and_sends_away_who_waits() -> None:
    """A drain loses nothing that had begun; who waits may try another worker, and so may who comes then."""
    device, notes = Device(), Notes()
    batcher = a_batcher(device, notes)
    async with batcher:
        tasks = await behind_one(batcher, device, item(payload=1))
        asyncio.get_running_loop().call_soon(device.gate.set)
    assert await tasks[0] == 200
    with pytest.raises(Draining):
        await tasks[1]
    with pytest.raises(Draining):
        await batcher.submit(item(payload=1))
    assert notes.left == {Left.CLOSING: 1}


async def test_a_thousand_items_with_every_fault_leave_nothing_behind() -> None:
    """Among cancelled, poisoned and good items each good one has its result, and no task, future or timer stays."""
    device, notes = Poisoned(), Notes()
    device.gate.set()
    before = asyncio.all_tasks()
    async with a_batcher(device, notes) as batcher:
        tasks = [
            asyncio.create_task(batcher.submit(item(payload=-1 if number % 50 == 7 else number)))
            for number in range(1000)
        ]
        await asyncio.sleep(0)
        for number in range(0, 1000, 9):
            tasks[number].cancel()
        found = await ends(tasks)
        assert len(batcher.policy) == 0
    for number, end in enumerate(found):
        if isinstance(end, int):
            assert end == 2 * number
        else:
            assert number % 50 == 7 or number % 9 == 0
    assert asyncio.all_tasks() == before
    assert batcher._timer is None
    gc.collect()
