"""Which device an engine runs on."""

from pathlib import Path

import pytest

from penstock.domain.command_error import CommandError
from penstock.domain.errors import EngineError
from penstock.settings import Settings
from penstock.worker.engines.device import Device, check_ranks, choose

SLICE = "MIG-5c2f4a4e-1111-2222-3333-444455556666"


@pytest.mark.parametrize(
    ("wanted", "devices", "given", "expected"),
    [
        (Device.AUTO, ["nvidia0", "nvidiactl"], "", Device.CUDA),
        (Device.AUTO, ["nvidia3", "nvidiactl", "nvidia-uvm"], "3", Device.CUDA),
        (Device.AUTO, ["nvidia5", "nvidia-caps"], SLICE, Device.CUDA),
        (Device.AUTO, [], "", Device.CPU),
        (Device.AUTO, ["nvidiactl"], "void", Device.CPU),
        (Device.CPU, ["nvidia0"], "all", Device.CPU),
        (Device.CUDA, ["nvidia7"], "", Device.CUDA),
    ],
)
def test_any_gpu_is_found(wanted: Device, devices: list[str], given: str, expected: Device) -> None:
    """Finding 3.9: a container has the one device that it was given, and that is seldom number 0."""
    assert choose(wanted, devices, given) is expected


@pytest.mark.parametrize(
    ("wanted", "given"), [(Device.AUTO, SLICE), (Device.AUTO, "all"), (Device.AUTO, "3"), (Device.CUDA, "")]
)
def test_a_gpu_that_is_not_there_is_an_error(wanted: Device, given: str) -> None:
    """Finding 3.9: a worker that was given a GPU and sees none ends with words, and never serves on the CPU."""
    with pytest.raises(CommandError, match="sees no GPU") as refused:
        choose(wanted, ["nvidiactl", "nvidia-uvm"], given)
    assert "PENSTOCK_DEVICE=cpu" in refused.value.do


@pytest.mark.parametrize(("notice_s", "expected"), [(0.0, 600.0), (120.0, 105.0), (5.0, 0.0), (3600.0, 600.0)])
def test_a_drain_ends_within_the_machine_s_notice(notice_s: float, expected: float) -> None:
    """Finding 3.13: a spot worker with ten minutes of grace was killed with its streams after two."""
    assert Settings(drain_grace_s=600, notice_s=notice_s).grace_s == expected


@pytest.mark.parametrize(("bought", "expected"), [("spot\n", 105.0), ("on-demand\n", 600.0), (None, 105.0)])
def test_only_a_spot_machine_has_a_notice(tmp_path: Path, bought: str | None, expected: float) -> None:
    """One template serves machines of every kind: the node's own file says whether the notice counts."""
    file = tmp_path / "capacity"
    if bought:
        file.write_text(bought)
    settings = Settings(drain_grace_s=600, notice_s=120, capacity_file=str(file), node_pool="nights")
    assert (settings.grace_s, settings.pools) == (expected, ((bought or "spot").strip(), "nights"))
    assert Settings(capacity_file=str(file)).pools == ((bought or "on-demand").strip(),)


@pytest.mark.parametrize(
    ("chosen", "devices", "seen"),
    [(Device.CUDA, ["nvidia0", "nvidia1", "nvidiactl"], 2), (Device.CPU, [], 0), (Device.CPU, ["nvidia0"] * 4, 0)],
)
def test_too_few_gpus_for_a_version_are_an_error(chosen: Device, devices: list[str], seen: int) -> None:
    """Finding 3.12: a version of four GPUs runs on four of them or not at all, never on fewer and never on the CPU."""
    with pytest.raises(EngineError, match=f"runs on 4 GPUs, and this worker sees {seen}"):
        check_ranks(4, chosen, devices)
    check_ranks(1, chosen, devices)
    check_ranks(4, Device.CUDA, ["nvidia4", "nvidia5", "nvidia6", "nvidia7", "nvidia-uvm"])
