"""Secrets in mounted files: what is taken, and what is refused in words."""

import asyncio
import os
import re
import traceback
from pathlib import Path

import pytest

from penstock.domain.command_error import CommandError
from penstock.mounted import secret_file

KEY = bytes(range(32))


def mounted(file: Path, content: str, mode: int = 0o440) -> Path:
    """Write the file as Kubernetes does: in a folder of its own, behind a symbolic link."""
    data = file.parent / f"..data-{os.urandom(4).hex()}"
    data.mkdir()
    (data / file.name).write_text(content)
    (data / file.name).chmod(mode)
    draft = file.with_name(f".{file.name}")
    draft.symlink_to(data / file.name)
    draft.replace(file)
    return file


def test_a_key_that_a_group_may_read_is_taken(tmp_path: Path) -> None:
    """Kubernetes mounts secrets with mode 0440 behind a symbolic link."""
    assert secret_file.key(mounted(tmp_path / "platform.key", KEY.hex() + "\n"), "platform key") == KEY


@pytest.mark.parametrize(
    ("content", "mode", "words", "remedy"),
    [
        (None, 0, "There is no platform key", "Mount the file"),
        ("", 0o400, "is empty", "Mount the file"),
        (KEY.hex(), 0o444, r"open to everybody \(mode 0444\)", "defaultMode: 0440"),
        ("s3cret words", 0o400, "is no hex", "openssl rand -hex 32"),
        ("ab" * 16, 0o400, "only 16 bytes", "openssl rand -hex 32"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_with_the_remedy(
    tmp_path: Path, content: str | None, mode: int, words: str, remedy: str
) -> None:
    """Finding 3.2: missing, empty, open to all or no key at all, each is said with what to do."""
    file = tmp_path / "platform.key"
    if content is not None:
        mounted(file, content, mode)
    with pytest.raises(CommandError, match=words) as refused:
        secret_file.key(file, "platform key")
    assert remedy in refused.value.do
    assert content is None or not content or content not in f"{refused.value.what}{refused.value.do}"


def test_the_one_before_is_valid_while_it_is_there(tmp_path: Path) -> None:
    """Two keys are valid during an exchange, the newest first; a change of either is noticed."""
    file, stamps = tmp_path / "key", []
    for name, content in (("key", "01" * 32), ("key", "02" * 32), ("key.previous", "01" * 32)):
        mounted(tmp_path / name, content)
        stamps.append(secret_file.stamp(file))
    assert len(set(stamps)) == 3
    keys = secret_file.with_previous(file, lambda one: secret_file.key(one, "key"))
    assert keys == (b"\x02" * 32, b"\x01" * 32)


@pytest.mark.parametrize(
    "secret", ["HUNTER2", "16dd94de" * 8, "4sZ/jk+0" * 5 + "9w==", "/9j/4AAQ" * 8, "-----BEGIN\n" * 99]
)
def test_a_secret_in_place_of_its_path_is_not_said_again(secret: str) -> None:
    """An outsider's finding: ``PENSTOCK_PLATFORM_KEY_FILE=$(cat platform-key)`` printed the key, in words and cause."""
    with pytest.raises(CommandError, match="names no file") as refused:
        secret_file.key(Path(secret), "platform key")
    assert "a path, not the secret itself" in refused.value.do
    told = "".join(traceback.format_exception(refused.value, chain=True))
    assert [part for part in (secret, secret[:11]) if part in told.replace("names no file", "")] == []


def test_what_is_meant_as_a_path_is_shown(tmp_path: Path) -> None:
    """A path that leads nowhere is named, or nobody could correct it."""
    with pytest.raises(CommandError, match=re.escape(str(tmp_path / "a/b/key"))):
        secret_file.key(tmp_path / "a/b/key", "platform key")


async def test_a_change_of_a_file_or_its_previous_one_is_told_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each change of a secret or of the one before it is told once; without a change nothing is."""
    monkeypatch.setattr(secret_file, "LOOK_EVERY_S", 0.01)
    file = mounted(tmp_path / "platform.key", KEY.hex())
    told = secret_file.changes([file])
    for changed in (file, secret_file.previous(file)):
        waiting = asyncio.ensure_future(anext(told))
        await asyncio.sleep(0.05)
        assert not waiting.done()
        mounted(changed, KEY.hex()[::-1])
        await asyncio.wait_for(waiting, 5.0)
