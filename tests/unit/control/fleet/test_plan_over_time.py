"""The planner against a model of a host, over virtual time: never too many, and in the end exactly right."""

from dataclasses import dataclass, field, replace

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.control.fleet.plan import SURGE, FleetPolicy, plan
from penstock.domain.fleet.versions import Catalogue, Death, Deployment, FleetPlan, FleetView, Running, Seen
from penstock.domain.fleet.worker import WorkerState
from penstock.domain.ids import WorkerId
from tests.support.samples import control_plane as things
from tests.support.samples.control_plane import NOW, TINY

POLICY = FleetPolicy()
TICK_S = 0.5
SETTLES_WITHIN_S = 400.0


@dataclass
class Process:
    """One modelled worker."""

    running: Running
    ready_at: float
    ends_at: float = 0.0
    is_frozen: bool = False
    has_failed: bool = False


@dataclass
class Host:
    """A model of the machine: processes start, report, fail, freeze, drain and die."""

    now: float = NOW
    wanted: Deployment = field(default_factory=lambda: Deployment(version=TINY, replicas=0))
    processes: dict[str, Process] = field(default_factory=dict)
    seen: dict[str, Seen] = field(default_factory=dict)
    deaths: list[Death] = field(default_factory=list)
    born: int = 0

    def tick(self) -> FleetPlan:
        """Let time pass, ask the planner and do what it says."""
        self.now += TICK_S
        for name, process in list(self.processes.items()):
            self._live(name, process)
        step = plan(Catalogue(deployments=(self.wanted,)), tuple(self.seen.values()), self._view(), self.now, POLICY)
        for worker in self.processes.keys() & set(step.drain):  # as a host does: some reported, and have ended
            process = self.processes[worker]
            process.running = replace(process.running, draining=True)
            process.ends_at = self.now + 3.0
        for _ in step.start:
            self._start()
        return step

    @property
    def staying(self) -> list[Process]:
        return [process for process in self.processes.values() if not process.running.draining]

    def kill(self, index: int) -> None:
        """End a process as `kill -9` does."""
        names = sorted(self.processes)
        if names:
            name = names[index % len(names)]
            self.deaths.append(Death(worker=WorkerId(name), version=TINY, at=self.now))
            del self.processes[name]

    def disturb(self, kind: str, index: int) -> None:
        """Do something to one process."""
        if kind == "kill":
            self.kill(index)
        elif names := sorted(self.processes):
            process = self.processes[names[index % len(names)]]
            process.is_frozen |= kind == "freeze"
            process.has_failed |= kind == "fail"

    def _live(self, name: str, process: Process) -> None:
        if process.ends_at and self.now >= process.ends_at:
            del self.processes[name]
            return
        if not process.is_frozen:
            report = things.report(name, TINY, self._state(process))
            self.seen[name] = things.seen(report, self.now)

    def _state(self, process: Process) -> WorkerState:
        if process.running.draining:
            return WorkerState.DRAINING
        if process.has_failed:
            return WorkerState.FAILED
        return WorkerState.READY if self.now >= process.ready_at else WorkerState.LOADING

    def _start(self) -> None:
        self.born += 1
        name = f"w{self.born:04}"
        running = Running(worker=WorkerId(name), version=TINY, started_at=self.now)
        self.processes[name] = Process(running=running, ready_at=self.now + 4.0)

    def _view(self) -> FleetView:
        running = tuple(process.running for process in self.processes.values())
        return FleetView(running=running, deaths=tuple(self.deaths))


EVENTS = st.tuples(
    st.sampled_from(["scale", "kill", "freeze", "fail", "renew_all", "renew_one", "wait"]), st.integers(0, 5)
)


def happen(host: Host, kind: str, number: int) -> None:
    if kind == "scale":
        host.wanted = replace(host.wanted, replicas=number)
    elif kind == "renew_all":
        host.wanted = replace(host.wanted, renew_before=host.now)
    elif kind == "renew_one" and host.processes:
        name = sorted(host.processes)[number % len(host.processes)]
        host.wanted = replace(host.wanted, renew=(*host.wanted.renew, WorkerId(name)))
    else:
        host.disturb(kind, number)


@settings(max_examples=80)
@given(st.lists(st.tuples(EVENTS, st.integers(1, 20)), max_size=12))
def test_never_too_many_and_right_in_the_end(story: list[tuple[tuple[str, int], int]]) -> None:
    """Whatever happens, no start exceeds the wanted number and its surge; when peace comes, exactly that many serve."""
    host = Host()
    for (kind, number), ticks in story:
        happen(host, kind, number)
        for _ in range(ticks):
            step = host.tick()
            if step.start:
                assert len(host.staying) <= host.wanted.replicas + SURGE
    for _ in range(int(SETTLES_WITHIN_S / TICK_S)):
        host.tick()
    assert host.tick() == FleetPlan()
    assert len(host.processes) == host.wanted.replicas
    assert all(host._state(process) is WorkerState.READY for process in host.processes.values())
    assert all(process.running.started_at >= host.wanted.renew_before for process in host.processes.values())
    assert not set(host.wanted.renew) & set(host.processes)


@given(st.integers(1, 5))
def test_a_rolling_restart_never_serves_with_fewer(replicas: int) -> None:
    """During a rolling restart at least the wanted number of workers is ready at every moment."""
    host = Host(wanted=Deployment(version=TINY, replicas=replicas))
    for _ in range(20):
        host.tick()
    first = set(host.processes)
    host.wanted = replace(host.wanted, renew_before=host.now)
    for _ in range(replicas * 40):
        host.tick()
        ready = sum(host._state(process) is WorkerState.READY for process in host.processes.values())
        assert ready >= replicas
    assert len(host.processes) == replicas
    assert not first & set(host.processes)


def test_a_version_that_always_dies_is_started_less_and_less() -> None:
    """A crash loop costs about ten starts in its first five minutes, not one per tick."""
    host = Host(wanted=Deployment(version=TINY, replicas=1))
    for _ in range(600):
        host.tick()
        host.kill(0)
    assert 5 <= host.born <= 12
