"""Rows of a batch and their adapters: against the product written out, row by row."""

from functools import partial
from typing import Any

import pytest
import torch
from vllm.lora.ops.torch_ops import lora_ops

from penstock.worker.engines import adapter_rows

IN, OUT, RANK, SLOTS = 6, 5, 4, 3


def expected(x: torch.Tensor, a: torch.Tensor, b: torch.Tensor, y: torch.Tensor, slots: list[int]) -> torch.Tensor:
    rows = [
        row + (b[slot] @ (a[slot] @ one)) * 2.0 if slot >= 0 else row
        for row, one, slot in zip(y, x, slots, strict=True)
    ]
    return torch.stack(rows)


def added(x: torch.Tensor, a: torch.Tensor, b: torch.Tensor, y: torch.Tensor, slots: list[int]) -> torch.Tensor:
    made, found = adapter_rows.Matrices(), y.clone()
    downs, ups = (a.unsqueeze(1),), (b.unsqueeze(1),)
    product = partial(made.of, downs, ups, dtype=x.dtype)
    adapter_rows.add(x * 2.0, found, adapter_rows.grouped(slots), product)
    return found


@pytest.fixture
def numbers() -> tuple[torch.Tensor, ...]:
    torch.manual_seed(1)
    return torch.randn(6, IN), torch.randn(SLOTS, RANK, IN), torch.randn(SLOTS, OUT, RANK), torch.randn(6, OUT)


@pytest.mark.parametrize(
    "slots", [[-1] * 6, [2] * 6, [0, 0, 1, 1, -1, -1], [2, -1, 0, 2, -1, 0]], ids=["none", "one", "runs", "mixed"]
)
def test_each_row_gets_the_adapter_that_it_asks_for(numbers: tuple[torch.Tensor, ...], slots: list[int]) -> None:
    """Rows get their slot's product, in any order; rows without an adapter stay as they are, bit for bit."""
    x, a, b, y = numbers
    found = added(x, a, b, y, slots)
    torch.testing.assert_close(found, expected(x, a, b, y, slots))
    alone = [row for row, slot in enumerate(slots) if slot < 0]
    assert torch.equal(found[alone], y[alone])


def test_a_models_precision_is_not_that_between_the_matrices(numbers: tuple[torch.Tensor, ...]) -> None:
    """Rows that are no neighbours get their product where a model computes in 16 bits and vLLM goes on in 32."""
    x, a, b, y = (one.bfloat16() for one in numbers)
    found = added(x, a, b, y, [2, -1, 0, 2, -1, 0])
    x, a, b, y = (one.float() for one in (x, a, b, y))
    wanted = expected(x, a, b, y, [2, -1, 0, 2, -1, 0])
    torch.testing.assert_close(found.float(), wanted, atol=0.2, rtol=0.05)


def test_vllms_own_kernels_give_the_last_adapter_to_rows_without_one(numbers: tuple[torch.Tensor, ...]) -> None:
    """The fault that is mended here is still there: with this test failing, ``adapter_rows`` may go."""
    x, a, b, y = numbers
    slots = torch.tensor([0, -1, 0, -1, 0, -1])
    between, found = torch.zeros(6, RANK), y.clone()
    lora_ops.bgmv_shrink(x, a, between, slots, 2.0)
    lora_ops.bgmv_expand(between, b, found, slots)
    assert not torch.equal(found[1], y[1])


def test_what_is_no_number_in_one_adapter_reaches_its_own_rows_alone(numbers: tuple[torch.Tensor, ...]) -> None:
    """An adapter full of NaN spoils no other row of its batch."""
    x, a, b, y = numbers
    a[0], b[0] = torch.nan, torch.nan
    found = added(x, a, b, y, [0, -1, 1, -1, 1, 0])
    assert found.isnan().any(dim=1).tolist() == [True, False, False, False, False, True]


def test_a_layer_that_an_adapter_leaves_alone_costs_nothing(numbers: tuple[torch.Tensor, ...]) -> None:
    """Until something is written there; a NaN is something."""
    x, a, b, _ = numbers
    made = adapter_rows.Matrices()
    b[1] = 0
    assert made.of((a,), (b,), 1, x.dtype) is None
    assert made.of((a,), (b,), 0, x.dtype) is not None
    b[1, 0, 0] = torch.nan
    assert made.of((a,), (b,), 1, x.dtype) is not None
    a[1] = 0
    assert made.of((a,), (b,), 1, x.dtype) is None


def test_parts_of_a_layer_are_joined_and_follow_what_is_written_to_a_slot(numbers: tuple[torch.Tensor, ...]) -> None:
    """Two parts of other widths side by side; another adapter in a slot counts from the next product on."""
    x, a, b, _ = numbers
    first, second = (a, a.flip(0) + 1.0), (b, torch.randn(SLOTS, OUT + 2, RANK))
    made, slots = adapter_rows.Matrices(), [0, 2, -1, 0, 2, 2]

    def found() -> torch.Tensor:
        out = torch.zeros(6, 2 * OUT + 2)
        groups = adapter_rows.grouped(slots)
        adapter_rows.add(x, out, groups, lambda slot: made.of(first, second, slot, x.dtype))
        return out

    def wanted() -> torch.Tensor:
        parts = zip(first, second, (OUT, OUT + 2), strict=True)
        return torch.cat([expected(x, one, two / 2.0, torch.zeros(6, width), slots) for one, two, width in parts], 1)

    torch.testing.assert_close(found(), wanted())
    with torch.inference_mode():
        first[1][2].copy_(torch.randn(RANK, IN))
        second[0][0] = 0
    torch.testing.assert_close(found(), wanted())
    first[0][2] = torch.nan
    assert found().isnan().any(dim=1).tolist() == [slot == 2 for slot in slots]


@pytest.fixture
def wrapper(monkeypatch: pytest.MonkeyPatch) -> Any:  # noqa: ANN401  vLLM's
    """Return vLLM's own wrapper with our functions in it, which are taken out afterwards."""
    from vllm.lora.punica_wrapper import punica_cpu

    for name in ("update_metadata", *adapter_rows.REPLACED):
        monkeypatch.setattr(punica_cpu.PunicaWrapperCPU, name, getattr(punica_cpu.PunicaWrapperCPU, name))
    adapter_rows.install()
    return punica_cpu.PunicaWrapperCPU(16, 16, "cpu")


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("reads_prompts", [True, False], ids=["prefill", "decode"])
def test_vllms_own_wrapper_runs_with_it(
    numbers: tuple[torch.Tensor, ...],
    wrapper: Any,  # noqa: ANN401  vLLM's
    *,
    reads_prompts: bool,
) -> None:
    """What vLLM calls for each layer takes our functions by its own signatures, and rows come out right each step."""
    from vllm.lora.layers.utils import LoRAMapping

    x, a, b, y = numbers
    for slots in ([0, 0, -1, 2, 2, -1], [-1, 1, 1, 0, -1, 2], [-1] * 6):
        found, ids = y.clone(), [one + 1 if one >= 0 else 0 for one in slots]
        mapping = LoRAMapping(index_mapping=tuple(ids), prompt_mapping=tuple(ids), is_prefill=reads_prompts)
        wrapper.update_metadata(mapping, [1, 2, 3], SLOTS, 100)
        wrapper.add_lora_linear(found, x, (a.unsqueeze(1),), (b.unsqueeze(1),), 2.0, (OUT,))
        torch.testing.assert_close(found, expected(x, a, b, y, slots))
        logits = y.clone()
        wrapper.add_lora_logits(logits, x, a.unsqueeze(1), b.unsqueeze(1), 2.0)
        torch.testing.assert_close(logits, expected(x, a, b, y, slots))
        embedded, between = y.clone(), torch.stack([2.0 * (a[slot] @ one) for slot, one in zip(slots, x, strict=True)])
        wrapper.add_lora_embedding(embedded, between, b.unsqueeze(1), add_input=True)
        torch.testing.assert_close(embedded, expected(x, a, b, y, slots))
