"""Adapters become versions beside their base, and whatever would spoil answers is refused in words."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.apps.models import push as push_model
from penstock.control.registry import adapters as registry
from penstock.control.registry import rules
from penstock.domain.command_error import CommandError
from penstock.domain.errors import ArtifactRefused
from penstock.domain.models.model import GoldenPrompt, ModelVersion
from penstock.formats import finite
from penstock.packaging import adapters
from penstock.packaging.packing import Choices, Packed, Publishing
from penstock.settings import Settings
from tests.support.models import adapter_folders as made
from tests.support.models.versions import CHOICES, Home

NAN, INF = float("nan"), float("inf")
A_OF_Q, B_OF_DOWN = f"base_model.model.{made.Q}.lora_A.weight", f"base_model.model.{made.DOWN}.lora_B.weight"
WEIGHTS = "adapter_model.safetensors"


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """Return an empty home."""
    return Home(tmp_path)


@pytest.fixture
def base(home: Home) -> ModelVersion:
    """Return a base in its store."""
    return made.pushed_base(home)


def push(home: Home, folder: Path, base: ModelVersion, choices: Choices | None = None) -> Packed:
    publishing = Publishing(store=home.store, signer=home.signer, work=home.root, report=lambda _: None)
    return adapters.push(folder, choices or made.choices(), base, publishing)


def refused(home: Home, folder: Path, base: ModelVersion, choices: Choices | None = None) -> str:
    """Return why an adapter is refused, and see that nothing of it is left."""
    with pytest.raises(ArtifactRefused) as error:
        push(home, folder, base, choices)
    assert not list(home.root.glob(".adapter-*"))
    return error.value.message


def test_an_adapter_is_stored_signed_and_taken_by_registry_and_worker(home: Home, base: ModelVersion) -> None:
    """Its manifest is its base's but for name, files, price and prompts; a worker's own checks pass, too."""
    golden = (GoldenPrompt(prompt="Who are you?", expect="Arr"),)
    packed = push(home, made.adapter_folder(home.root / "a"), base, replace(made.choices(), golden=golden))
    manifest = packed.manifest
    assert (manifest.adapter and manifest.adapter.base, manifest.adapter and manifest.adapter.rank) == (base.digest, 4)
    assert (manifest.engine, manifest.chat_template) == (base.manifest.engine, base.manifest.chat_template)
    assert (manifest.golden, manifest.name) == (golden, "pirate")
    version = rules.version_of(manifest, f"signatures/{packed.digest}", 0.0)
    registry.check_registration(version.manifest, [base])
    copy = home.node().obtain(packed.digest)
    assert sorted(path.name for path in copy.folder.iterdir()) == [
        "adapter_config.json",
        WEIGHTS,
        "manifest.json",
        "tokenizer.json",
    ]
    assert (copy.folder / "tokenizer.json").read_text() == '{"model": {}}'


async def test_the_command_line_says_in_words_what_is_refused(tmp_path: Path) -> None:
    """``penstock models push`` with a base: stored, or a sentence with the folder's name in it."""
    settings = Settings(home=tmp_path / "home")
    room = replace(CHOICES, engine_changes=made.ROOM)
    base = made.registered(await push_model(settings, made.base_folder(tmp_path / "base"), room, lambda _: None))
    good = made.adapter_folder(tmp_path / "good")
    packed = await push_model(settings, good, made.choices(), lambda _: None, base)
    assert packed.manifest.adapter is not None
    bad = made.adapter_folder(tmp_path / "bad", {})
    with pytest.raises(CommandError, match=r"bad can't be served: adapter_model.safetensors has no tensors"):
        await push_model(settings, bad, made.choices(), lambda _: None, base)


def test_settings_are_written_anew_and_the_same_adapter_is_the_same_version(home: Home, base: ModelVersion) -> None:
    """What stood in them of the machine that trained it is gone, so two trainings' notes make no two versions."""
    first = push(home, made.adapter_folder(home.root / "a"), base)
    again = push(
        home, made.adapter_folder(home.root / "b", base_model_name_or_path="elsewhere", lora_dropout=0.1), base
    )
    assert again.digest == first.digest
    config = json.loads((home.node().obtain(first.digest).folder / "adapter_config.json").read_text())
    assert config == {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "r": 4,
        "lora_alpha": 8,
        "use_rslora": False,
        "bias": "none",
        "target_modules": ["down_proj", "q_proj"],
    }


@pytest.mark.parametrize("dtype", ["F32", "F16", "BF16"])
def test_each_precision_is_taken(home: Home, base: ModelVersion, dtype: str) -> None:
    """Float32, float16 and bfloat16; rank-stabilised ones, too, which the engine knows."""
    folder = made.adapter_folder(home.root / "a", made.tensors(dtype=dtype), use_rslora=True)
    assert push(home, folder, base).manifest.adapter is not None


@pytest.mark.parametrize(
    ("config", "why"),
    [
        ({"use_dora": True}, "DoRA"),
        ({"modules_to_save": ["lm_head"]}, "modules_to_save"),
        ({"bias": "all"}, "bias"),
        ({"lora_bias": True}, "lora_bias"),
        ({"r": 16}, "its rank is 16"),
        ({"r": 8}, "must be 8x20"),
        ({"r": 0}, "no rank"),
        ({"r": True}, "no rank"),
        ({"lora_alpha": NAN}, "NaN is no number"),
        ({"lora_alpha": -1}, "no scale"),
        ({"lora_alpha": 1e300}, "no scale (lora_alpha) above 0 and up to 10,000"),
        ({"lora_alpha": 10**400}, "a number has 401 digits"),
        ({"lora_alpha": 10_001}, "no scale"),
        ({"r": 10**400}, "a number has 401 digits"),
        ({"r": 10**300}, "its rank is 100000000000, and"),
        ({"use_rslora": "yes"}, "use_rslora in adapter_config.json is 'yes': write true or false"),
        ({"init_lora_weights": 3}, "init_lora_weights"),
        ({"init_lora_weights": {"x": 1}}, "init_lora_weights"),
        ({"exclude_modules": ["q_proj"]}, f"changes {made.Q}, which its settings leave out"),
        ({"exclude_modules": [made.Q]}, "settings leave out"),
        ({"exclude_modules": ".*q_proj"}, "exclude_modules in its settings is no list of names"),
        ({"layers_to_transform": [1, 2]}, "settings leave out"),
        ({"layers_to_transform": 1}, "settings leave out"),
        ({"layers_to_transform": ["0"]}, "no list of numbers of layers"),
        ({"layers_to_transform": [0], "layers_pattern": "blocks"}, "settings leave out"),
        ({"layers_to_transform": [0], "layers_pattern": {"x": 1}}, "layers_pattern"),
        ({"peft_type": "IA3"}, "IA3"),
        ({"init_lora_weights": "pissa"}, "pissa"),
        ({"rank_pattern": {"q_proj": 2}}, "several ranks"),
        ({"alpha_pattern": {"q_proj": 2}}, "several scales"),
        ({"fan_in_fan_out": True}, "transposed"),
        ({"notes": "x" * (1 << 20)}, "more than 1,048,576 bytes"),
    ],
)
def test_settings_that_the_engine_would_not_honour_are_refused(
    home: Home, base: ModelVersion, config: dict[str, object], why: str
) -> None:
    """By the engine's own rules and ours, before anything is signed."""
    assert why in refused(home, made.adapter_folder(home.root / "a", None, **config), base)


@pytest.mark.parametrize(
    "config",
    [
        {"use_rslora": None, "init_lora_weights": None},
        {"use_rslora": False, "init_lora_weights": "gaussian"},
        {"init_lora_weights": False, "exclude_modules": [], "layers_to_transform": None},
        {"exclude_modules": ["o_proj", "proj"]},
        {"layers_to_transform": [0, 3]},
        {"layers_to_transform": 0, "layers_pattern": "layers"},
        {"layers_to_transform": [0], "layers_pattern": ["blocks", "layers"]},
    ],
)
def test_settings_that_change_nothing_are_taken(home: Home, base: ModelVersion, config: dict[str, object]) -> None:
    """Modules and layers left out of an adapter that has none of them; PEFT's own ways of saying no."""
    assert push(home, made.adapter_folder(home.root / "a", None, **config), base).manifest.adapter is not None


def without(name: str) -> Callable[[dict[str, made.Tensor]], object]:
    return lambda found: found.pop(name)


def instead(name: str, tensor: made.Tensor) -> Callable[[dict[str, made.Tensor]], object]:
    return lambda found: found.update({name: tensor})


def spoilt(name: str, at: int, value: float) -> Callable[[dict[str, made.Tensor]], object]:
    return lambda found: found[name].values.__setitem__(at, value)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (instead(A_OF_Q, made.tensor(4, 5)), "must be 4x6"),
        (instead(A_OF_Q, made.tensor(6, 4)), "must be 4x6"),
        (instead(B_OF_DOWN, made.tensor(5, 4)), "must be 6x4"),
        (without(A_OF_Q), "has no lora_A"),
        (lambda found: found.clear(), "no tensors"),
        (instead("base_model.model.model.layers.1.self_attn.q_proj.lora_A.weight", made.tensor(4, 6)), "does not have"),
        (instead("base_model.model.model.embed_tokens.lora_A.weight", made.tensor(4, 6)), "does not have"),
        (instead("base_model.model.model.norm.lora_A.weight", made.tensor(4, 6)), "does not have"),
        (instead("base_model.model.lm_head.weight", made.tensor(4, 6)), "not a LoRA matrix"),
        (instead(A_OF_Q, made.tensor(4, 6, dtype="F64")), "F64"),
        (spoilt(A_OF_Q, 17, NAN), "value 17 of"),
        (spoilt(B_OF_DOWN, 23, INF), "value 23 of"),
        (spoilt(B_OF_DOWN, 0, -INF), "value 0 of"),
        (spoilt(B_OF_DOWN, 3, 3.4e38), "not a finite number in bfloat16"),
    ],
)
def test_weights_that_do_not_fit_or_are_no_numbers_are_refused(
    home: Home, base: ModelVersion, change: Callable[[dict[str, made.Tensor]], object], why: str
) -> None:
    """Wrong shapes, half a module, modules that the base lacks, and one bad value among all: each names its tensor."""
    found = made.tensors()
    change(found)
    assert why in refused(home, made.adapter_folder(home.root / "a", found), base)


def everywhere(value: float, which: str) -> dict[str, made.Tensor]:
    """Return matrices of which these have this value throughout, and the others hold small numbers."""
    found = made.tensors()
    for name, one in found.items():
        if f"lora_{which}" in name:
            one.values = [value] * len(one.values)
    return found


@pytest.mark.parametrize("which", ["A", "B", ""])
def test_numbers_that_would_grow_beyond_an_engine_are_refused(home: Home, base: ModelVersion, which: str) -> None:
    """Each is finite; multiplied with each other, or one matrix with what comes in, they are not."""
    found = everywhere(1e36, which)
    why = refused(home, made.adapter_folder(home.root / "a", found), base)
    assert "above the 1e+08 that are allowed in bfloat16" in why
    for one in found.values():
        one.values = [value if value == 1e36 else 0.0 for value in one.values]
    assert "may multiply its input" in refused(home, made.adapter_folder(home.root / "b", found), base)


def test_the_bound_is_of_both_matrices_and_the_scale(home: Home, base: ModelVersion) -> None:
    """6 inputs, rank 4, scale 2: at most 48 times both values; the other module has 20 inputs and small numbers."""
    found = made.tensors()
    found[A_OF_Q].values, found[A_OF_Q.replace("_A", "_B")].values = [1e3] * 24, [-2e3] * 48
    assert push(home, made.adapter_folder(home.root / "a", found), base).manifest.adapter is not None
    found[A_OF_Q].values[3] = -1.1e3
    assert f"{made.Q} may multiply its input by 1.1e+08" in refused(
        home, made.adapter_folder(home.root / "b", found), base
    )


def test_a_module_that_stands_in_it_twice_is_refused(home: Home, base: ModelVersion) -> None:
    """An engine would take either of the two, and only one of them was looked at."""
    for plain in ({made.Q + ".lora_A.weight": made.tensor(9, 9)}, {made.Q + ".lora_A.weight": made.tensor(4, 6)}):
        for number, found in enumerate(({**made.tensors(), **plain}, {**plain, **made.tensors()})):
            folder = home.root / f"{number}{len(list(home.root.iterdir()))}"
            assert "stands in it twice" in refused(home, made.adapter_folder(folder, found), base)


@pytest.mark.parametrize("name", [WEIGHTS, "adapter_config.json"])
def test_links_are_refused(home: Home, base: ModelVersion, name: str) -> None:
    """What a link leads to may be no part of the folder that was meant."""
    folder = made.adapter_folder(home.root / "a")
    (folder / name).rename(home.root / "elsewhere")
    (folder / name).symlink_to(home.root / "elsewhere")
    assert f"{name} is a link" in refused(home, folder, base)


def test_another_bases_adapter_is_told_by_its_shapes(home: Home, base: ModelVersion) -> None:
    """Whatever its settings call its base."""
    wider = {module: (rows * 2, columns) for module, (rows, columns) in made.LINEAR.items()}
    folder = made.adapter_folder(home.root / "a", made.tensors(modules=wider), base_model_name_or_path=str(base.id))
    assert "made for another model" in refused(home, folder, base)


def test_a_cut_file_and_a_huge_one_are_refused(home: Home, base: ModelVersion) -> None:
    """The one by its header, the other before anything of it is read or copied."""
    cut = made.adapter_folder(home.root / "cut")
    data = (cut / WEIGHTS).read_bytes()
    (cut / WEIGHTS).write_bytes(data[:-1])
    assert "not a sound safetensors file" in refused(home, cut, base)
    with (cut / WEIGHTS).open("wb") as file:
        file.truncate(8 << 30)
    assert "at rank 4 this base allows" in refused(home, cut, base)


def test_pickles_and_folders_without_an_adapter_are_refused(home: Home, base: ModelVersion) -> None:
    """A pickle's remedy is to save it anew."""
    folder = made.adapter_folder(home.root / "a")
    (folder / WEIGHTS).rename(folder / "adapter_model.bin")
    assert "adapter_model.bin can run code" in refused(home, folder, base)
    (folder / "adapter_model.bin").unlink()
    assert f"no {WEIGHTS}" in refused(home, folder, base)
    (made.adapter_folder(home.root / "b") / "adapter_config.json").unlink()
    assert "no adapter_config.json" in refused(home, home.root / "b", base)


def test_bases_without_room_are_named(home: Home, base: ModelVersion) -> None:
    """Without slots nobody is a base; an adapter is none either; ranks end at the base's."""
    folder = made.adapter_folder(home.root / "a")
    closed = replace(base, manifest=replace(base.manifest, engine=replace(base.manifest.engine, adapter_slots=0)))
    assert "no slots for adapters" in refused(home, folder, closed)
    assert "an adapter itself" in refused(home, folder, made.registered(push(home, folder, base)))
    assert "slots for ranks from 1 to 1" in refused(
        home, folder, made.pushed_base(home, adapter_slots=1, adapter_rank=1)
    )


@pytest.mark.parametrize(
    ("choices", "why"),
    [
        (replace(CHOICES, price=None), "needs a price"),
        (replace(CHOICES, licence=""), "needs a licence"),
        (replace(CHOICES, engine_changes={"max_num_seqs": 4}), "runs as its base does"),
        (replace(CHOICES, tensor_parallel_size=2), "runs as its base does"),
        (replace(CHOICES, golden=(GoldenPrompt(prompt="Who?"),)), "golden[0].expect is empty"),
    ],
)
def test_what_is_decided_of_it_is_checked(home: Home, base: ModelVersion, choices: Choices, why: str) -> None:
    """It needs a price and a licence of its own, and has no settings of an engine."""
    assert why in refused(home, made.adapter_folder(home.root / "a"), base, choices)


def test_a_base_whose_weights_are_gone_is_told(home: Home, base: ModelVersion) -> None:
    """Registered elsewhere, or swept away: nothing can be compared."""
    shutil.rmtree(home.root / "artifacts" / "blobs")
    refused(home, made.adapter_folder(home.root / "a"), base)


floats = st.floats(width=32, allow_nan=True, allow_infinity=True)


@given(
    st.lists(floats, min_size=1, max_size=9),
    st.sampled_from(["F32", "F16", "BF16"]),
    st.sampled_from(sorted(finite.LARGEST)),
)
def test_the_first_value_beyond_a_precision_is_found(values: list[float], dtype: str, engine: str) -> None:
    """Against the same question asked of each value by itself, in pieces of any length."""
    if dtype == "F16":  # which has no larger ones
        values = [INF if abs(value) > finite.LARGEST["float16"] else value for value in values]
    data, width, limit = made.packed_floats(values, dtype), finite.BYTES[dtype], finite.LARGEST[engine]
    stored = [made.unpacked(data[at : at + width], dtype) for at in range(0, len(data), width)]
    expected = next((at for at, value in enumerate(stored) if not abs(value) <= limit), None)
    for pieces in ([data], [data[at : at + 2 * width] for at in range(0, len(data), 2 * width)]):
        assert finite.first_too_large(pieces, dtype, limit) == expected


@given(
    st.lists(st.floats(width=16, allow_nan=False), min_size=0, max_size=9),
    st.sampled_from(["F32", "F16", "BF16"]),
    st.sampled_from([1, 2, 90]),
)
def test_the_largest_value_is_found(values: list[float], dtype: str, times: int) -> None:
    """Against the same question asked of each value by itself, in one piece, in several and in many lanes."""
    data, width = made.packed_floats(values, dtype), finite.BYTES[dtype]
    stored = [abs(made.unpacked(data[at : at + width], dtype)) for at in range(0, len(data), width)]
    for pieces in ([data * times], [data[at : at + 2 * width] for at in range(0, len(data), 2 * width)]):
        assert finite.largest(pieces, dtype) == max(stored, default=0.0)
