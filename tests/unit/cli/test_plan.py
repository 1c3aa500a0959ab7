"""`penstock plan memory` answers for models that are known, here or impossible, for people and programs."""

import json
from dataclasses import fields
from pathlib import Path
from xml.etree import ElementTree as ET

import msgspec
import pytest
from typer.testing import CliRunner, Result

from penstock.capacity.bounds import BOUNDS
from penstock.cli import application
from penstock.cli.planned import curve_on, settings_for
from penstock.domain.errors import ArtifactRefused
from penstock.domain.models.model import EngineSettings
from penstock.packaging.known_models import MODELS
from tests.support.samples.commands import ALL
from tests.support.samples.curves import curve

app = application()

RUNNER = CliRunner()


def asked(*words: str) -> Result:
    """Return the outcome of the command."""
    return RUNNER.invoke(app, ["plan", "memory", *words])


def test_a_known_model_is_planned_without_its_files() -> None:
    """The record has each setting with its reason, and one way for each precision."""
    done = asked("Llama-3.1-8B", "--gpu", "H100", "--json")
    told = json.loads(done.output)
    assert done.exit_code == 0
    assert {one["name"] for one in told["settings"]} >= {"max_num_seqs", "max_num_batched_tokens", "kv_cache_bytes"}
    assert all(one["because"] for one in told["settings"])
    assert len(told["precisions"]) == 4


def test_the_screen_says_what_fits_instead() -> None:
    """A person reads what is missing and the nearest way out."""
    done = asked("Llama-3.1-70B", "--gpu", "H100")
    assert done.exit_code == 0
    assert "does not fit" in done.output
    assert "over 2 GPUs" in done.output


def test_what_no_node_holds_is_said() -> None:
    """There is no way out, and the screen ends with that sentence."""
    done = asked("Llama-3.1-405B", "--gpu", "L4")
    assert done.exit_code == 0
    assert "On one node nothing here fits" in done.output


def test_a_folder_is_planned_by_its_own_settings_and_weights(tmp_path: Path) -> None:
    """The bytes are those of the tensors in its files; its settings may be named themselves."""
    (tmp_path / "config.json").write_text(json.dumps(dict(MODELS["SmolLM2-135M"])))
    header = json.dumps({"w": {"dtype": "BF16", "shape": [500_000], "data_offsets": [0, 1_000_000]}}).encode()
    (tmp_path / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + bytes(1_000_000))
    for path in (tmp_path, tmp_path / "config.json"):
        told = json.loads(asked(str(path), "--gpu", "L4", "--json").output)
        assert told["lines"][0] == {
            "name": "weights",
            "bytes": 1_000_000,
            "because": "1,000,000 bytes over 1 GPUs",
            "is_assumed": False,
        }


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("Llama-9", "--gpu", "H100"), "no known model"),
        (("Llama-3.1-8B", "--gpu", "B9000"), "known: T4"),
        (("Llama-3.1-8B", "--gpu", "H100", "--tp", "16"), "a worker stays on one node"),
        (("Llama-3.1-8B", "--gpu", "H100", "--tp", "3"), "do not divide"),
        (("Llama-3.1-8B", "--gpu", "H100", "--context", "999999"), "beyond the model's"),
    ],
)
def test_what_can_not_be_planned_is_a_sentence(words: tuple[str, ...], says: str) -> None:
    """Exit code 1, the field, and no traceback."""
    done = asked(*words)
    assert (done.exit_code, says in done.output.replace("\n", " ")) == (1, True)


@pytest.mark.parametrize("words", [("--kv", "int3"), ("--adapters", "many"), ("--context", "x"), ("--itl-ms", "much")])
def test_a_bad_option_is_refused_by_its_name(words: tuple[str, str]) -> None:
    """The usage of the command names the option."""
    done = asked("Llama-3.1-8B", "--gpu", "H100", *words)
    assert done.exit_code == 2
    assert words[0] in done.output


def test_a_traffic_becomes_machines_and_money() -> None:
    """The sheet names each formula, the bound, and that no GPU was measured."""
    words = ["plan", "capacity", "Llama-3.1-8B", "--gpu", "H100", "--peak", "100", "--price", "6.88"]
    told = json.loads(RUNNER.invoke(app, [*words, "--json"]).output)
    assert (told["replicas"], told["gpus"], told["curve"]) == (12, 12, "data sheet")
    assert told["per_hour"] == pytest.approx(12 * 6.88)
    shown = RUNNER.invoke(app, words).output
    assert "bound by the ITL objective" in shown
    assert "not measured" in shown


NUMBERS = [
    (path, option.opts[0])
    for path, command in ALL.items()
    if path[0] == "plan" or path in {("bench", "engine"), ("scale", "set"), ("scale", "history")}
    for option in command.params
    if option.type_descriptor.annotation in (int, float)  # type: ignore[attr-defined]  # typer's own
]
BASES = {
    "memory": ("Llama-3.1-8B", "--gpu", "H100"),
    "capacity": ("Llama-3.1-8B", "--gpu", "H100", "--peak", "100"),
    "engine": ("m@1",),
    "history": (),
}


def test_every_number_of_the_plans_has_its_bound() -> None:
    """The table names the options of the command line, and they are all there."""
    ours = {option for path, option in NUMBERS if path[0] == "plan"}
    assert ours == {one.option for one in BOUNDS.values()} - {"--adapters"}


@pytest.mark.parametrize(("path", "option"), NUMBERS, ids=str)
def test_a_number_that_nothing_has_is_refused_by_field_and_remedy(path: tuple[str, ...], option: str) -> None:
    """Beyond either bound, NaN, infinite, or a word: the option and what to give instead, and no traceback."""
    bound = next((one for one in BOUNDS.values() if one.option == option), None)
    edges = (f"{bound.least - 1:g}", f"{bound.most * 1.5 + 1:.0f}") if bound else ("-1", "0")
    for value in (*edges, "-1e30", "1e30", "nan", "inf", "word"):
        words = [*path, "--for", "1h", "--reason", "x", "--", "m@1", value] if path[-1] == "set" else None
        done = RUNNER.invoke(app, words or [*path, *BASES[path[-1]], f"{option}={value}"], env={"COLUMNS": "200"})
        said = " ".join(done.output.split())
        assert isinstance(done.exception, SystemExit), value
        assert (option if option.startswith("--") else "workers") in said, value
        assert bound.remedy in said if bound and done.exit_code == 1 else "Invalid value for" in said, (value, said)


@pytest.mark.parametrize("command", ["memory", "capacity"])
def test_what_is_asked_together_is_checked_together(command: str) -> None:
    """Each pair that contradicts itself names its options."""
    for words, says in (
        (("--prompt", "8000", "--output", "8000"), "--context: prompt and output, 8,000 + 8,000 tokens, exceed 8,192"),
        (("--tp", "4", "--pp", "4"), "--tp x --pp: 16 GPUs"),
        (("--gpu", "H100/3g.40gb", "--tp", "2"), "--tp, --pp: a worker has one MIG slice"),
        (("--gpu", "B9000"), "--gpu: 'B9000' is unknown"),
    ):
        done = RUNNER.invoke(app, ["plan", command, *BASES[command], *words])
        assert (done.exit_code, says in " ".join(done.output.split())) == (1, True), done.output
    for words, says in (
        (("--adapters", "0x0"), "--adapters: 0 is not within 1 to 1,024 slots"),
        (("--adapters", "8x0"), "--adapters: 0 is not within 1 to 512 as rank"),
        (("--hits", "0.9", "--evicted", "0.9"), "--hits and --evicted"),
    ):
        done = asked("Llama-3.1-8B", "--gpu", "H100", *words)
        assert (done.exit_code, says in " ".join(done.output.split())) == (1, True), done.output


@pytest.mark.parametrize(("model", "gpu", "parts"), [("Llama-3.1-8B", "H100", 1), ("Llama-3.1-70B", "A100-80", 4)])
@pytest.mark.parametrize("lengths", [(1155, 211), (7000, 100), (100, 2000), (2, 1)])
def test_both_plans_say_the_same_batch(model: str, gpu: str, parts: int, lengths: tuple[int, int]) -> None:
    """``max_num_seqs`` is what the sheet counts with, or the sheet refuses it with the ITL that would do."""
    words = [
        model,
        "--gpu",
        gpu,
        "--tp",
        str(parts),
        "--prompt",
        str(lengths[0]),
        "--output",
        str(lengths[1]),
        "--json",
    ]
    memory = json.loads(RUNNER.invoke(app, ["plan", "memory", *words]).output)
    done = RUNNER.invoke(app, ["plan", "capacity", *words, "--peak", "100"])
    settings = {one["name"]: one["value"] for one in memory["settings"]}
    if done.exit_code:
        assert (settings["max_num_seqs"], "allow at least" in done.output) == (1, True)
        return
    sheet = json.loads(done.output)
    figures = {one["name"]: one["value"] for one in sheet["figures"]}
    assert settings["max_num_seqs"] == figures["batch"] == sheet["max_num_seqs"]
    assert memory["at_lengths"] == figures["batch by KV"]
    assert settings["max_num_batched_tokens"] >= settings["max_num_seqs"]


def test_pipeline_parallelism_stands_in_the_settings() -> None:
    """With the word that a version has no such setting; a plan without it has no such line."""
    told = [json.loads(asked("Llama-3.1-8B", "--gpu", "H100", "--pp", pp, "--json").output)["settings"] for pp in "12"]
    found = [{one["name"]: one["value"] for one in settings}.get("pipeline_parallel_size") for settings in told]
    assert found == [None, 2]


def test_the_sheet_calls_a_data_sheet_a_default() -> None:
    """No curve was measured: the record and the screen say so."""
    words = ["plan", "capacity", "Llama-3.1-8B", "--gpu", "H100", "--peak", "100"]
    told = json.loads(RUNNER.invoke(app, [*words, "--json"]).output)
    assert (told["curve"], told["curve_origin"], told["curve_measured_at"]) == ("data sheet", "default", None)
    assert "A default" in RUNNER.invoke(app, words).output


def test_the_plot_has_the_planned_point(tmp_path: Path) -> None:
    """A picture that any browser shows: replicas never fall over traffic."""
    file = tmp_path / "plan.svg"
    words = ["plan", "capacity", "Llama-3.1-8B", "--gpu", "H100", "--peak", "100", "--plot", str(file)]
    assert RUNNER.invoke(app, words).exit_code == 0
    drawn = ET.fromstring(file.read_text())  # noqa: S314  written by ourselves
    line = drawn.findall("{http://www.w3.org/2000/svg}polyline")[1].attrib["points"]
    heights = [float(point.split(",")[1]) for point in line.split()]
    assert heights == sorted(heights, reverse=True)
    assert len(drawn.findall("{http://www.w3.org/2000/svg}circle")) == 1


def test_a_curve_belongs_to_its_hardware() -> None:
    """H100 is not H200, one GPU is not two, and a CPU is no GPU."""
    curves = [msgspec.to_builtins(curve(name)) for name in ("NVIDIA H100 80GB HBM3 x1", "NVIDIA H200 x2", "Xeon x1")]
    assert [
        found.hardware if (found := curve_on(curves, gpu, gpus)) else None
        for gpu, gpus in (("H100", 1), ("H100", 2), ("H200", 2), ("H200", 1), ("A100-80", 1))
    ] == ["NVIDIA H100 80GB HBM3 x1", None, "NVIDIA H200 x2", None, None]


def test_a_push_takes_the_plans_settings(tmp_path: Path) -> None:
    """Each with its reason; a model that does not fit is refused."""
    (tmp_path / "config.json").write_text(json.dumps(dict(MODELS["Llama-3.1-8B"])))
    said: list[str] = []
    found = settings_for(tmp_path, "L40S", 0.04, 1, said.append)
    assert set(found) >= {"max_num_seqs", "max_num_batched_tokens", "kv_cache_bytes", "kv_cache_dtype"}
    assert len(said) == len(found) + 1
    assert set(found) <= {one.name for one in fields(EngineSettings)}
    with pytest.raises(ArtifactRefused, match="does not fit"):
        settings_for(tmp_path, "T4", 0.04, 1, said.append)
