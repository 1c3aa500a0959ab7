"""The audit chain on a real Postgres: every tampering of the database's owner is found, and no failure forks it."""

import asyncio
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from penstock.audit.links import GENESIS, Link, hashed
from penstock.audit.verification import Kind
from penstock.audit.verifier import KEPT_S
from penstock.connectors.folder.segments import FolderSegments
from penstock.connectors.postgres.database import Database, Session
from penstock.connectors.postgres.ledger import PostgresLedger
from penstock.connectors.postgres.safety import PostgresPacks
from penstock.domain.errors import Conflict
from penstock.filters.intervention import Events
from tests.support.audit_chains import Chained
from tests.support.clock import ManualClock
from tests.support.samples.interventions import intervention

pytestmark = pytest.mark.integration


@pytest.fixture
def chained(database: Database, tmp_path: Path) -> Chained:
    return Chained(database, tmp_path)


async def filled(chained: Chained) -> Chained:
    """Make two shipped segments, of five and of four links."""
    await chained.act(5, "a")
    await chained.settle()
    await chained.act(4, "b")
    await chained.settle()
    return chained


async def test_a_whole_chain_is_whole(chained: Chained) -> None:
    """Links, heads and files are counted, and nothing is found."""
    await filled(chained)
    done = await chained.verified()
    assert (done.report.findings, done.report.is_whole, done.last, done.heads, done.files) == ([], True, 9, 2, 2)


async def rehash(chained: Chained, first: int) -> None:
    """Make links from ``first`` on again over what the rows say now, as a forger would who knows the format."""
    rows = await chained.database.rows(
        "select l.number, l.event, e.at, e.who, e.what, e.target, e.detail, e.tenant, l.hash "
        "from audit_link l join audit_event e on e.id = l.event order by number"
    )
    before, updates = GENESIS, []
    for row in rows:
        made = hashed(before, Link(row[0], row[1], b"", *tuple(row)[2:8])) if row[0] >= first else bytes(row["hash"])
        updates.append(f"update audit_link set hash = '\\x{made.hex()}' where number = {row[0]}")  # noqa: S608
        before = made
    await chained.owner(*updates)


COLUMNS = "number, tenant, version, pack, digest, rule, stage, action, wanted, position, at, act"
TAMPERING: dict[str, tuple[list[str], set[str]]] = {
    "an act is edited": (["update audit_event set who = 'another' where id = 3"], {"edited"}),
    "an act's time is edited": (["update audit_event set at = at - 1 where id = 3"], {"edited"}),
    "a link is edited": (["update audit_link set hash = sha256('x') where number = 3"], {"edited"}),
    "an act is deleted": (["delete from audit_event where id = 3"], {"deleted"}),
    "a link is deleted": (["delete from audit_link where number = 3"], {"deleted", "inserted"}),
    "both are deleted": (
        ["delete from audit_link where number = 3", "delete from audit_event where id = 3"],
        {"deleted"},
    ),
    "an act is inserted": (
        ["insert into audit_event (at, who, what, target, detail) values (1, 'w', 'w', 't', 'd')"],
        {"inserted"},
    ),
    "acts are exchanged": (
        [
            "update audit_link set event = -1 where number = 3",
            "update audit_link set event = 3 where number = 4",
            "update audit_link set event = 4 where number = 3",
        ],
        {"reordered"},
    ),
    "the end is cut off": (
        ["delete from audit_link where number > 7", "delete from audit_event where id > 7"],
        {"truncated"},
    ),
    "an edited act's segment is called moved": (
        ["update audit_segment set moved_at = 1", "update audit_event set who = 'another' where id = 3"],
        {"edited"},
    ),
    "the newest segment is called moved, an act of an older one edited": (
        [
            'update audit_segment set moved_at = 1 where "last" = 9',
            "update audit_event set who = 'another' where id = 3",
        ],
        {"edited"},
    ),
    "segments are called moved": (["update audit_segment set moved_at = closed_at + 10"], {"edited"}),
    "the newest segment is called moved": (
        ['update audit_segment set moved_at = closed_at + 10 where "last" = 9'],
        {"edited"},
    ),
    "a moved segment's acts are put back": (
        [
            'update audit_segment set moved_at = 1 where "last" = 5',
            "delete from audit_link where number <= 5",
            "update audit_event set who = 'another' where id = 3",
        ],
        {"inserted"},
    ),
    "acts are moved that were not shipped": (
        [
            "update audit_segment set moved_at = 1, shipped_at = 0",
            "delete from audit_link",
            "delete from audit_event",
        ],
        {"deleted"},
    ),
    "a head is deleted": (['delete from audit_segment where "last" = 5'], {"deleted"}),
    "all is deleted": (
        ["delete from audit_link", "delete from audit_event", "delete from audit_segment"],
        {"truncated"},
    ),
    "a head is edited": (
        ["""update audit_segment set head = replace(head, '"region":"eu"', '"region":"us"') where "last" = 5"""],
        {"signature"},
    ),
    "a head's signature is another's": (
        ['update audit_segment set signature = (select signature from audit_segment where "last" = 9)'],
        {"signature"},
    ),
    "a head is no head": (["""update audit_segment set head = '{}' where "last" = 9"""], {"signature"}),
}


async def test_tampering_is_found_in_the_database_alone(chained: Chained) -> None:
    """Each by its kind, and by no other; put back, the chain is whole again."""
    await filled(chained)
    await chained.keep()
    found = {}
    for name, (statements, _) in TAMPERING.items():
        await chained.owner(*statements)
        found[name] = await chained.kinds()
        await chained.restore()
        assert await chained.kinds() == set()
    assert found == {name: expected for name, (_, expected) in TAMPERING.items()}


INTERVENTIONS: dict[str, tuple[list[str], set[str]]] = {
    "one is edited": (["update intervention set rule = 'another' where request = 'r2'"], {"edited"}),
    "one's time is edited": (["update intervention set at = at - 1 where request = 'r2'"], {"edited"}),
    "one is deleted": (["delete from intervention where request = 'r2'"], {"deleted"}),
    "a delivery is deleted": (["delete from intervention where request = 'r9'"], {"deleted"}),
    "one is added to a delivery": (
        [f"insert into intervention select 'r3', {COLUMNS} from intervention where request = 'r2'"],  # noqa: S608
        {"inserted"},
    ),
    "one is added with an act of its own": (
        [
            f"insert into intervention select 'r3', {COLUMNS} from intervention where request = 'r2'",  # noqa: S608
            "update intervention set act = next_act() where request = 'r3'",
        ],
        {"inserted"},
    ),
    "a delivery is deleted with its act": (
        [
            "delete from audit_event where id = (select act from intervention where request = 'r9')",
            "delete from intervention where request = 'r9'",
        ],
        {"deleted"},
    ),
    "two deliveries are exchanged": (
        ["update intervention set act = (select sum(distinct act) from intervention) - act"],
        {"deleted", "inserted"},
    ),
}


async def test_interventions_are_in_the_chain(chained: Chained) -> None:
    """A delivery is an act, delivered again it is none; each tampering with its rows is found by its kind."""
    ledger = PostgresLedger(chained.database)
    first = [intervention("r1", number) for number in range(3)] + [intervention("r2", rule="é")]
    for delivery in (first, first, [*first, intervention("r9")]):
        await ledger.record(delivery)
    await chained.settle()
    done = await chained.verified()
    assert (done.report.findings, done.last) == ([], 2)
    await chained.keep()
    found = {}
    for name, (statements, _) in INTERVENTIONS.items():
        await chained.owner(*statements)
        found[name] = await chained.kinds()
        await chained.restore()
        assert await chained.kinds() == set()
    assert found == {name: expected for name, (_, expected) in INTERVENTIONS.items()}


async def test_interventions_end_by_delivery(chained: Chained) -> None:
    """After a quarter, and no controller ends them earlier; the chain stays whole without them."""
    await PostgresLedger(chained.database).record([intervention("r1"), intervention("r2")])
    packs = PostgresPacks(chained.database)
    await packs.forget(chained.clock.now() * 2)
    assert len(await packs.events(Events(), 9)) == 2
    await chained.owner(f"update audit_event set at = at - {KEPT_S}")  # noqa: S608  a number
    await chained.settle()
    await packs.forget(chained.clock.now() * 2)
    assert (await packs.events(Events(), 9), await chained.kinds()) == ((), set())


async def test_a_rewritten_chain_is_found(chained: Chained) -> None:
    """With every hash from the edited act on made again, the signed heads differ; one finding says so."""
    await filled(chained)
    await chained.owner("update audit_event set who = 'another' where id = 3")
    await rehash(chained, 3)
    report = (await chained.verified(from_bucket=False)).report
    assert [(one.kind, one.number) for one in report.findings] == [(Kind.REWRITTEN, 5)]


async def test_a_chain_cut_off_with_its_heads_is_found_from_the_bucket(chained: Chained) -> None:
    """The database alone then looks whole: the head that is kept elsewhere tells."""
    await filled(chained)
    await chained.owner(
        "delete from audit_link where number > 5",
        "delete from audit_event where id > 5",
        'delete from audit_segment where "last" > 5',
    )
    assert await chained.kinds() == set()
    assert await chained.kinds(from_bucket=True) == {"truncated"}


@pytest.mark.parametrize("how", ["cut off", "rewritten"])
async def test_links_that_no_head_covers_are_missed_by_the_one_that_wrote_them(chained: Chained, how: str) -> None:
    """Nothing in the database tells before the next head; the leading controller does, and links and signs no more."""
    await filled(chained)
    sequencer = chained.sequencer()
    await chained.act(3, "c")
    await sequencer.link()
    if how == "cut off":
        await chained.owner("delete from audit_link where number > 11", "delete from audit_event where id > 11")
    else:
        await chained.owner("update audit_event set who = 'another' where id = 11")
        await rehash(chained, 11)
    assert await chained.kinds() == set()
    await chained.act(1, "d")
    with pytest.raises(Conflict, match="tampered"):
        await sequencer.link()


async def test_a_chain_signed_again_with_the_stolen_key_is_found_from_the_bucket(chained: Chained) -> None:
    """It is whole in the database; the shipped heads are others of the same numbers: a fork."""
    await filled(chained)
    await chained.owner("update audit_event set who = 'another' where id = 3")
    await rehash(chained, 3)
    await chained.owner("delete from audit_segment")
    await chained.settle(ship=False)
    assert await chained.kinds() == set()
    assert "forked" in await chained.kinds(from_bucket=True)


async def test_files_that_are_changed_or_gone_are_found(chained: Chained) -> None:
    """In a folder the owner can do what a locked bucket refuses."""
    await filled(chained)
    first, second = sorted((chained.folder / "audit" / "eu").glob("*.jsonl"))
    whole = first.read_bytes()
    for spoiled, kind in (
        (whole.replace(b"a-2", b"a-9"), "edited"),
        (b"\n".join([*whole.split(b"\n")[:-3], b""]), "truncated"),
        (whole[:-40], "edited"),
        (b"", "edited"),
        (second.read_bytes(), "edited"),
    ):
        first.unlink()
        first.write_bytes(spoiled)
        assert kind in await chained.kinds(from_bucket=True), kind
    first.unlink()
    assert await chained.kinds(from_bucket=True) == {"deleted"}


async def test_a_late_commit_is_linked(chained: Chained, database_dsn: str) -> None:
    """A row of a transaction that commits after later ids were linked is in the chain: no id is skipped."""
    async with Database(database_dsn) as other, other.transaction() as slow:
        await slow.run("insert into audit_event (at, who, what, target, detail) values (1, 'slow', 'w', 't', 'd')")
        await chained.act(3)
        assert await chained.sequencer().link() == 3
    await chained.settle()
    done = await chained.verified()
    assert (done.report.is_whole, done.last) == (True, 4)


class Killed(BaseException):
    """The process ends here."""


def dying(real: Callable[..., Any], steps: Iterator[int]) -> Callable[..., Any]:
    def step(*arguments: object) -> Any:  # noqa: ANN401  as the real one
        if next(steps, None) is None:
            raise Killed
        return real(*arguments)

    return step


async def test_a_sequencer_killed_at_every_step_leaves_one_chain(
    chained: Chained, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cut off before each of its statements and puts, another controller carries on: no fork, no gap, nothing twice."""
    tried = 0
    for cut in count(1):
        await chained.act(2, f"cut-{cut}")
        steps = iter(range(cut - 1))
        with monkeypatch.context() as patched:
            for kind, names in ((Session, "rows row run"), (Database, "rows row"), (FolderSegments, "put")):
                for name in names.split():
                    patched.setattr(kind, name, dying(getattr(kind, name), steps))
            try:
                await chained.settle()
            except Killed:
                tried += 1
            else:
                break
        await chained.settle()
        done = await chained.verified()
        assert (done.report.findings, done.last) == ([], 2 * cut), cut
    assert tried >= 15


async def test_two_controllers_at_once_make_one_chain(chained: Chained) -> None:
    """A leader that was paused and its successor extend, sign and ship beside each other."""
    for _ in range(10):
        await chained.act(20)
        await asyncio.gather(*(chained.settle() for _ in range(3)))
    done = await chained.verified()
    assert (done.report.findings, done.last) == ([], 200)


@pytest.mark.parametrize("wrong_s", [-90.0, 90.0])
async def test_a_wrong_clock_does_no_harm(chained: Chained, wrong_s: float) -> None:
    """Acts and heads of a controller whose clock is off by 90 s are linked, signed, shipped and whole."""
    await filled(chained)
    chained.clock = ManualClock(chained.clock.now() + wrong_s)
    await filled(chained)
    done = await chained.verified()
    assert (done.report.findings, done.last, done.late) == ([], 18, [])


async def test_old_rows_move_to_the_bucket(chained: Chained) -> None:
    """Shipped rows leave the database after their time; the chain goes on and stays verifiable."""
    await filled(chained)
    await chained.act(3, "c")
    await chained.settle(ship=False)
    chained.keep_s = 1e-6
    await chained.sequencer().ship()
    left = await chained.database.rows("select count(*) as n from audit_event")
    assert left[0]["n"] == 0
    await chained.act(2, "d")
    await chained.settle(ship=False)
    done = await chained.verified()
    assert (done.report.findings, done.last, done.kept_elsewhere) == ([], 14, 3)
    assert done.report.rows == 12 + 2
    await chained.owner("delete from audit_event")
    assert await chained.kinds() == {"deleted"}


async def test_rows_that_are_not_shipped_stay(chained: Chained) -> None:
    """Not even the controller's function takes them out, nor may anybody delete one."""
    await chained.act(3)
    await chained.settle(ship=False)
    await chained.database.rows("select audit_move(3)")
    assert (await chained.verified(from_bucket=False)).report.rows == 3
