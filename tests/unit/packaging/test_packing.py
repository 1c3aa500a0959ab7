"""Packing: the same folder gives the same digest; what may not be served is refused with a remedy."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.domain.errors import ArtifactRefused
from penstock.domain.models.model import GoldenPrompt, Manifest, SamplingDefaults, Task, Tier, canonical, digest_of
from penstock.packaging.demo import measured
from penstock.packaging.packing import Choices, describe, measure
from tests.support.models.versions import CHOICES, Home, home_with_model, model_folder, safetensors, sha256


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a model's folder."""
    return model_folder(tmp_path / "model")


def pack(folder: Path, choices: Choices = CHOICES) -> Manifest:
    return describe(folder, measure(folder), choices)


def test_the_manifest_says_what_the_folder_says(folder: Path) -> None:
    """Task, tier, template, special tokens, sampling and context come from the model's own files."""
    manifest = pack(folder)
    assert (manifest.task, manifest.tier) == (Task.GENERATE, Tier.CHAT)
    assert manifest.chat_template == "{{ messages[0]['content'] }}"
    assert manifest.special_tokens == (("bos_token", "<s>"), ("eos_token", "</s>"))
    assert manifest.sampling == SamplingDefaults(temperature=0.7, top_k=20)
    assert manifest.engine.max_model_len == 512
    assert manifest.provenance.licence == "Apache-2.0"


def test_the_digest_depends_on_content_alone(folder: Path, tmp_path: Path) -> None:
    """A copy of the folder, with other times and in another place, is the same version; another byte is another."""
    copy = Path(shutil.copytree(folder, tmp_path / "elsewhere"))
    assert digest_of(pack(copy)) == digest_of(pack(folder))
    (copy / "chat_template.jinja").write_text("other")
    assert digest_of(pack(copy)) != digest_of(pack(folder))


def test_the_canonical_manifest_is_stable(folder: Path) -> None:
    """Keys are sorted, spaces left out, text is UTF-8: the form that digests of stored versions depend on."""
    (folder / "chat_template.jinja").write_text("für")
    text = canonical(pack(folder))
    assert text == json.dumps(json.loads(text), sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
    assert text.startswith(b'{"chat_template":"f\xc3\xbcr","engine":{"block_size":32,')


def test_a_later_field_changes_no_digest(folder: Path) -> None:
    """A manifest at the default is written as before there was the field; another size is another version."""
    one = pack(folder)
    spread = replace(one, engine=replace(one.engine, tensor_parallel_size=2))
    assert b"tensor_parallel_size" not in canonical(one)
    assert b'"tensor_parallel_size":2' in canonical(spread)
    assert digest_of(one) != digest_of(spread)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda f: (f / "model.safetensors").rename(f / "pytorch_model.bin"), r"only pytorch_model\.bin, which can"),
        (lambda f: (f / "model.safetensors").unlink(), "no weights"),
        (lambda f: (f / "tokenizer.json").unlink(), r"tokenizer\.json is missing"),
        (lambda f: (f / "config.json").write_text("{"), r"config\.json: it is no valid JSON"),
        (lambda f: (f / "config.json").write_text("[]"), r"config\.json is not a JSON object"),
        (lambda f: (f / "config.json").write_text("{}"), "say the task, generate or embed"),
    ],
    ids=["pickle", "no weights", "no tokenizer", "broken config", "list config", "no architecture"],
)
def test_a_folder_that_cannot_be_served_is_refused(folder: Path, change: Callable[[Path], object], says: str) -> None:
    """What is missing or wrong is named before anything is signed."""
    change(folder)
    with pytest.raises(ArtifactRefused, match=says):
        pack(folder)


@pytest.mark.parametrize(
    ("choices", "says"),
    [
        (replace(CHOICES, price=None), "needs a price: give --price"),
        (replace(CHOICES, licence=""), "needs a licence: give --licence"),
    ],
    ids=["price", "licence"],
)
def test_terms_are_required(folder: Path, choices: Choices, says: str) -> None:
    """Nothing is served that nobody put a price and a licence to."""
    with pytest.raises(ArtifactRefused, match=says):
        pack(folder, choices)


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("config.json", '{"architectures": ["XForCausalLM"], "auto_map": {"AutoModel": "x.X"}}', "needs its own code"),
        ("tokenizer_config.json", '{"auto_map": {"AutoTokenizer": ["x.X", null]}}', "needs its own code"),
        ("model.safetensors", safetensors({"w": 1}, b""), "not a sound safetensors file"),
    ],
    ids=["model code", "tokenizer code", "bad header"],
)
def test_unsound_contents_are_never_signed(tmp_path: Path, name: str, content: str | bytes, says: str) -> None:
    """Code of its own and lying headers are refused, and the store stays empty."""
    folder = model_folder(tmp_path / "model")
    (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    home = Home(tmp_path / "home")
    home.root.mkdir()
    with pytest.raises(ArtifactRefused, match=says):
        home.publish(folder)
    assert not (home.root / "artifacts").exists()


def test_unknown_files_stay_behind(folder: Path) -> None:
    """Documentation, optimiser states and code next to the weights are not part of the version."""
    for name in ("README.md", "optimizer.pt", "modeling.py", "onnx/model.safetensors"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("x")
    assert {file.path for file in pack(folder).files} == {
        "chat_template.jinja", "config.json", "generation_config.json",
        "model.safetensors", "tokenizer.json", "tokenizer_config.json",
    }  # fmt: skip


def test_an_embedding_model_is_known_by_its_modules(folder: Path) -> None:
    """A sentence-transformers folder is served as embeddings, with its pooling and a golden pair."""
    (folder / "modules.json").write_text("[]")
    (folder / "sentence_bert_config.json").write_text('{"max_seq_length": 256}')
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling/config.json").write_text("{}")
    manifest = pack(folder)
    assert (manifest.task, manifest.tier, manifest.engine.max_model_len) == (Task.EMBED, Tier.EMBEDDING, 256)
    assert manifest.chat_template == ""
    assert [bool(golden.near and golden.far) for golden in manifest.golden] == [True]
    assert "1_Pooling/config.json" in {file.path for file in manifest.files}


def test_the_template_may_stand_in_the_tokenizer_settings(folder: Path) -> None:
    """Older folders keep the template, or several named ones, in ``tokenizer_config.json``."""
    (folder / "chat_template.jinja").unlink()
    for stored, expected in (("plain", "plain"), ([{"name": "default", "template": "one"}, {"name": "tool"}], "one")):
        (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": stored}))
        assert pack(folder).chat_template == expected


def test_publishing_again_changes_nothing(tmp_path: Path) -> None:
    """A version that is stored and signed by this key is left as it is; ECDSA would sign differently each time."""
    home, packed = home_with_model(tmp_path)
    assert home.publish(tmp_path / "model") == packed
    assert sha256(home.store.signature(packed.digest) or b"") == packed.signature_sha256


def test_a_new_key_signs_again(tmp_path: Path) -> None:
    """After the key pair was replaced, publishing signs the same version anew, and workers accept it."""
    home, packed = home_with_model(tmp_path)
    shutil.rmtree(tmp_path / "signing")
    again = home.publish(tmp_path / "model")
    assert again.digest == packed.digest
    assert again.signature_sha256 != packed.signature_sha256
    assert home.node().obtain(packed.digest).manifest == packed.manifest


def test_a_model_from_a_cache_of_links_is_packed(folder: Path, tmp_path: Path) -> None:
    """Folders whose files are links, as download caches make them, are packed as plain files."""
    linked = tmp_path / "linked"
    linked.mkdir()
    for path in folder.iterdir():
        (linked / path.name).symlink_to(path)
    home = Home(tmp_path)
    packed = home.publish(linked)
    assert home.node().obtain(packed.digest).manifest == packed.manifest


def test_digests_are_remembered_until_a_file_changes(folder: Path) -> None:
    """A warm start trusts size and time; a changed file is hashed again, and a broken record is no record."""
    first = measured(folder)
    assert measured(folder) == first == measure(folder)
    (folder / "tokenizer.json").write_text('{"model": {"x": 1}}')
    assert measured(folder) == measure(folder) != first
    folder.with_name(".model.measured.json").write_text("{")
    assert measured(folder) == measure(folder)
    (folder / "tokenizer_config.json").unlink()
    assert measured(folder) == measure(folder)


def test_given_golden_prompts_are_kept(folder: Path) -> None:
    """What the pusher knows about right answers is part of the version."""
    golden = (GoldenPrompt(prompt="1+1?", expect="2"),)
    assert pack(folder, replace(CHOICES, golden=golden)).golden == golden


def test_an_engines_settings_may_be_changed_by_name(folder: Path) -> None:
    """What is named becomes part of the version, and what is not stays what the folder and the defaults say."""
    plain = pack(folder)
    changed = pack(folder, replace(CHOICES, engine_changes={"max_num_seqs": 64}))
    assert changed.engine == replace(plain.engine, max_num_seqs=64)
    assert digest_of(changed) != digest_of(plain)
