"""Rollouts on real vLLM with live traffic and no operator: each kind of candidate, and how its rollout ends.

A platform of its own, two engines, twenty users. Each candidate is pushed as a user would push it, started with
``penstock rollout start``, and ends as its evidence says: the good one has everything, the others are held or aborted.

    python -m loadtests.rollout_proof [--cases good slow wrong lost dear broken dying] [--row 10] [--home FOLDER]

A row is of good candidates one after another, each at half of the traffic for a minute: none may be aborted.
"""

import argparse
import json
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from rich.console import Console
from rich.table import Table

from loadtests.rollout_users import Heard, Users
from tests.support.patience import until
from tests.support.platforms.local import Platform

REPOSITORY = Path(__file__).resolve().parents[1]
ALIAS = "smollm2"
PRICE, LICENCE = "0.02/0.005/0.06", "Apache-2.0"
TENANTS = 5
MOST_S = 1500.0
"""A rollout that takes longer is not what this is about."""
HURT_AFTER_S = 3.0
"""What comes back is let serve for as long, so that callers are with it when it is hurt."""
ROW_S = 60.0
"""Of each of a row of good candidates."""
POLITE = "Before you answer, think of all that a careful, kind and well-read librarian would think of. " * 20


@dataclass(frozen=True, kw_only=True)
class Case:
    """A candidate and its expected end; ``change`` alters the model's folder, ``hurt`` the platform while it runs.

    Each begins unseen but one that is hurt: the gateways' own brake is for what callers have already.
    """

    name: str
    ends: str
    engine: tuple[str, ...] = ()
    change: Callable[[Path], None] = lambda _: None
    hurt: Callable[[Platform, str], int] | None = None
    shares: str = "0,50,100"
    kind: str = "equivalent"


def _longer_template(folder: Path) -> None:
    file = folder / "chat_template.jinja"
    file.write_text(file.read_text().replace("<|im_start|>system\n", f"<|im_start|>system\n{POLITE}", 1))


def _lost_template(folder: Path) -> None:
    """Lose the roles: the prompt is what was said, and nothing tells the model that it is to answer."""
    (folder / "chat_template.jinja").write_text("{% for message in messages %}{{ message['content'] }}{% endfor %}")


def _four_bits(folder: Path) -> None:
    """Round each layer's weights to four bits in groups of 32: as fast, passes golden prompts, says other things."""
    import torch  # noqa: PLC0415  a heavy import that the other candidates don't need
    from safetensors.torch import load_file, save_file  # noqa: PLC0415

    file = folder / "model.safetensors"
    weights = load_file(file)
    for name, weight in weights.items():
        if ".layers." in name and weight.ndim == 2:  # noqa: PLR2004  a matrix
            groups = weight.float().reshape(-1, 32)
            scale = groups.abs().amax(dim=1, keepdim=True).clamp(min=1e-9) / 7.0
            rounded = (groups / scale).round().clamp(-8, 7) * scale
            weights[name] = rounded.reshape(weight.shape).to(torch.bfloat16).contiguous()
    save_file(weights, file, metadata={"format": "pt"})


def _kill_candidate(platform: Platform, version: str) -> int:
    """End the candidate's engines, however often they come back; return how many were there."""
    ended = 0
    for file in (platform.home / "run/workers").glob("*.json"):
        with suppress(OSError, ValueError):  # it is being written, or has gone
            worker = json.loads(file.read_text())
            if worker["version"] == version:
                os.kill(int((platform.home / f"run/engines/{worker['worker']}.pid").read_text()), signal.SIGKILL)
                ended += 1
    return ended


CASES = (
    Case(name="good", ends="done", engine=("max_num_seqs=31",)),
    Case(name="slow", ends="aborted", engine=("dtype=float32",)),
    Case(name="wrong", ends="aborted", change=_four_bits),
    Case(name="lost", ends="aborted", change=_lost_template),
    Case(name="dear", ends="held", change=_longer_template, kind="different"),
    Case(name="broken", ends="aborted", engine=("max_model_len=256",)),
    Case(name="dying", ends="aborted", engine=("max_num_seqs=30",), hurt=_kill_candidate, shares="25,50,100"),
)


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What became of it; seconds from the start of the rollout, and what callers saw until its end."""

    case: Case
    state: str
    share: str
    took_s: float
    to_zero_s: float | None
    says: str
    heard: Heard
    exposed: int
    """Answers of the candidate."""
    hurts: int
    """How often it was hurt."""

    @property
    def is_right(self) -> bool:
        """Tell whether it ended as such a candidate must, and callers were hurt only if expected."""
        return self.state == self.case.ends and bool(self.hurts) == (self.case.hurt is not None)


class Proof:
    """One platform, and the candidates one after another."""

    def __init__(self, platform: Platform, console: Console) -> None:
        """Take a platform that serves the incumbent."""
        self._platform, self._console, self._hurts = platform, console, 0
        self._keys = [self._key(f"team-{number}") for number in range(TENANTS)]

    def run(self, case: Case) -> Outcome:
        """Push it, roll it out, and wait for its end."""
        self._hurts = 0
        version = self._push(case)
        self._say(f"{case.name}: {version} serves")
        with Users(self._platform.url, self._keys, ALIAS) as users:
            users.settle()
            self._begin(case, version, shares=case.shares)
            began = time.time()
            users.begin()
            whole = self._wait(case, version, began)
            to_zero = self._to_zero(users, version, whole)
            heard = users.heard()
        if whole["state"] not in ("aborted", "done"):
            self._platform.run("rollout", "abort", ALIAS, "--reason", "the proof is over")
        self._end(case, version, whole)
        last = whole["history"][-1]
        return Outcome(
            case=case,
            state=whole["state"],
            share=whole["stages"][whole["stage"]]["name"],
            took_s=last["at"] - began,
            to_zero_s=to_zero,
            says=last["says"],
            heard=heard,
            exposed=heard.by_version.get(version, 0),
            hurts=self._hurts,
        )

    def row(self, count: int) -> list[str]:
        """Have a good candidate begin again and again, and return what each had come to when its minute was over."""
        good = next(one for one in CASES if one.name == "good")
        version, states = self._push(good), list[str]()
        with Users(self._platform.url, self._keys, ALIAS) as users:
            users.settle()
            for number in range(1, count + 1):
                self._begin(good, version, shares="50,100")
                time.sleep(ROW_S)
                whole = self._look()
                states.append(str(whole["state"]))
                self._say(f"row {number} of {count}: {states[-1]}: {whole['history'][-1]['says']}")
                if whole["state"] not in ("aborted", "done"):
                    self._platform.run("rollout", "abort", ALIAS, "--reason", "its minute is over")
        self._platform.run("models", "scale", version, "0")
        return states

    def _begin(self, case: Case, version: str, *, shares: str) -> None:
        """Start the rollout as a person does."""
        started = self._platform.run(
            "rollout", "start", ALIAS, version, "--shares", shares, "--stage-s", "20", "--watch-s", "20",
            "--patience-s", "600", "--kind", case.kind, "--reason", case.name,
        )  # fmt: skip
        self._say(started.stdout.strip().splitlines()[0])

    def _key(self, tenant: str) -> str:
        """Make a tenant and return a key of it."""
        self._platform.run("tenants", "create", tenant)
        made = self._platform.run("keys", "create", tenant).stdout
        return next(word for word in made.split() if word.startswith("psk_"))

    def _push(self, case: Case) -> str:
        folder = Path(tempfile.mkdtemp(prefix="penstock-candidate-"))
        try:
            source = next(REPOSITORY.glob(".penstock/cache/demo/smollm2-*"))
            shutil.copytree(source, folder / "model")
            case.change(folder / "model")
            engine = [part for one in case.engine for part in ("--engine", one)]
            pushed = self._platform.run(
                "models", "push", str(folder / "model"), "--name", f"smollm2-{case.name}", "--price", PRICE,
                "--licence", LICENCE, "--workers", "1", *engine, within_s=300,
            )  # fmt: skip
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        version = pushed.stdout.strip().splitlines()[-1]
        until(f"{version} serves", lambda: self._serves(version), within_s=400, every_s=1.0)
        return version

    def _serves(self, version: str) -> bool:
        found = self._get("workers")
        return any(one["version"] == version and one["state"] == "ready" for one in found["workers"])

    def _wait(self, case: Case, version: str, began: float) -> dict[str, Any]:
        told, whole = 0, self._look()
        while time.time() - began < MOST_S:
            whole = self._look()
            for change in whole["history"][told:]:
                self._say(f"  {change['at'] - began:6.1f} s  {change['state']}: {change['says']}")
            told = len(whole["history"])
            if whole["state"] in (case.ends, "aborted", "done"):  # what is held is judged on, and may be aborted
                break
            if case.hurt and self._serves(version):
                time.sleep(HURT_AFTER_S)
                ended = case.hurt(self._platform, version)
                self._hurts += ended
                self._say(f"  {time.time() - began:6.1f} s  {ended} engine(s) of it killed")
            time.sleep(1.0)
        return whole

    def _to_zero(self, users: "Users", version: str, whole: dict[str, Any]) -> float | None:
        """Return the seconds from an abort to the last request that was sent to the candidate; None without one."""
        if whole["state"] != "aborted":
            return None
        time.sleep(5.0)
        sent = [at for at, to in users.sent() if to == version]
        aborted_at = float(whole["history"][-1]["at"])
        return max(0.0, max(sent, default=0.0) - aborted_at)

    def _end(self, case: Case, version: str, whole: dict[str, Any]) -> None:
        """Give the alias back to the first incumbent, and end the candidate's worker."""
        if whole["state"] == "done":
            self._platform.run("aliases", "set", ALIAS, str(whole["incumbent"]))
        self._platform.run("models", "scale", version, "0")
        self._say(f"{case.name}: over")

    def _look(self) -> dict[str, Any]:
        listed = self._get("rollouts")["rollouts"]  # the newest first
        return self._get(f"rollouts/{next(one['id'] for one in listed if one['alias'] == ALIAS)}")

    def _get(self, path: str) -> dict[str, Any]:
        headers = {"authorization": f"Bearer {self._platform.admin_key}"}
        found = httpx.get(f"{self._platform.controller_url}/admin/v1/{path}", headers=headers, timeout=30)
        answer: dict[str, Any] = found.raise_for_status().json()
        return answer

    def _say(self, text: str) -> None:
        self._console.print(f"{time.strftime('%H:%M:%S')}  {text}", highlight=False, markup=False, soft_wrap=True)


def drawn(outcomes: Sequence[Outcome]) -> Table:
    table = Table(
        "candidate", "expected", "ended", "at", "after s", "to 0 % s", "its answers", "errors", "broken", "why"
    )
    for one in outcomes:
        style = "" if one.is_right else "bold red"
        table.add_row(
            one.case.name,
            one.case.ends,
            one.state,
            one.share,
            f"{one.took_s:.0f}",
            "-" if one.to_zero_s is None else f"{one.to_zero_s:.2f}",
            str(one.exposed),
            str(one.heard.errors),
            str(one.heard.broken),
            one.says,
            style=style,
        )
    return table


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the cases and print the table; 0 if each ended as it must."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", nargs="*", choices=[one.name for one in CASES], default=[one.name for one in CASES])
    parser.add_argument("--home", type=Path, default=None)
    parser.add_argument("--row", type=int, default=10, help="how many good candidates in a row (0: none)")
    chosen = parser.parse_args(arguments)
    home = chosen.home or Path(tempfile.mkdtemp(prefix="penstock-proof-"))
    console, outcomes = Console(width=200), list[Outcome]()
    cache = REPOSITORY / ".penstock" / "cache"
    kept = {"demo_cache": str(cache / "demo"), "compile_cache": str(cache / "compiled")}
    platform = Platform(home=home, models=ALIAS, settings=kept)
    with platform:
        proof = Proof(platform, console)
        for case in [one for one in CASES if one.name in chosen.cases]:
            outcomes.append(proof.run(case))
        row = proof.row(chosen.row) if chosen.row else []
    console.print(drawn(outcomes))
    console.print(f"{len(row) - row.count('aborted')} of {len(row)} good ones in a row were not aborted")
    return 0 if all(one.is_right for one in outcomes) and "aborted" not in row else 1


if __name__ == "__main__":
    sys.exit(main())
