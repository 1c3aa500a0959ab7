"""What no file of the repository may hold, and what every test must say."""

import ast
import re
from pathlib import Path

import pytest

from penstock.connectors.postgres.migrations import known
from tests.support import tree

# Each pattern is written so that it doesn't match itself.
FORBIDDEN = {
    "host of a package index": r"(?i)\b(?:pypi\.org|pythonhosted\.org|download\.pytorch\.org|registry\.npmjs\.org)\b",
    "index of packages in a list": r"(?m)^--?(?:index-url|extra-index-url|find-links|i|f)\b",
    "path of somebody's machine": r"(?<![\w.$~}\])/-])/(?:work|root|Users/\w+|home/(?!nonroot\b)\w+)/",
    "folder of somebody's wheels": r"/opt/(?:wheels|pypi)",
    "private key": r"-----BEGIN (?:[A-Z]+ )*PRIVATE KEY-----\s+[A-Za-z0-9+/]{16}",
    "AWS access key": r"\b(?:AKIA|ASIA)(?!IOSFODNN7EXAMPLE)[0-9A-Z]{16}\b",
    "GitHub token": r"\bgh[pousr]_[A-Za-z0-9]{36}\b",
    "OpenAI-style key": r"\bsk-(?:proj-|ant-)?[A-Za-z0-9_-]{32,}\b",
    "Slack token": r"\bxox[abprs]-[A-Za-z0-9-]{10,}",
    "Hugging Face token": r"\bhf_[A-Za-z0-9]{34}\b",
    "merge conflict": r"(?m)^(?:<{7}|>{7}) ",
}
MAX_FILE_BYTES = 2 << 20


def read(path: Path) -> str:
    try:
        return path.read_text()
    except UnicodeDecodeError:
        return ""


def findings(text: str) -> list[str]:
    """Return what is forbidden in a text, with its line."""
    return [
        f"{text.count(chr(10), 0, match.start()) + 1}: {what}"
        for what, pattern in FORBIDDEN.items()
        for match in re.finditer(pattern, text)
    ]


def docstring_fault(node: tree.Function) -> str:
    """Say what is wrong with a test's docstring; empty when it is one sentence."""
    text = " ".join((ast.get_docstring(node) or "").split())
    if not text:
        return "no docstring"
    if not text.endswith("."):
        return "docstring doesn't end as a sentence"
    return "more than one sentence" if re.search(r"[.!?] +[A-Z]", text) else ""


def test_no_file_holds_what_is_forbidden() -> None:
    """No file names a package index or a developer's machine, or holds a secret."""
    found = [f"{tree.place(path)}:{finding}" for path in tree.files() for finding in findings(read(path))]
    assert found == []


def test_no_file_is_large() -> None:
    """No file weighs more than two MiB: weights and data come from elsewhere."""
    assert [tree.place(path) for path in tree.files() if path.stat().st_size > MAX_FILE_BYTES] == []


def test_every_test_says_what_it_shows() -> None:
    """Each test function has a docstring of one sentence."""
    faults = [
        f"{tree.place(path, node.lineno)} {node.name}: {fault}"
        for path in tree.python_files("tests")
        for node in tree.functions(path)
        if node.name.startswith("test_") and (fault := docstring_fault(node))
    ]
    assert faults == []


@pytest.mark.parametrize(
    "planted",
    [
        "see https://" + "pypi" + ".org/simple",
        "--index" + "-url x",
        'open("/' + 'work/x")',
        "HOME=/" + "root/x",
        "-----BEGIN " + "PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0B",
        "AKIA" + "ABCDEFGHIJKLMNOP",
        "ghp_" + "a" * 36,
        "sk-" + "a" * 40,
        "hf_" + "a" * 34,
        "<" * 7 + " ours",
        "/" + "opt/wheels",
    ],
)
def test_a_forbidden_text_is_found(planted: str) -> None:
    """Each forbidden kind of text is reported with its line."""
    assert [finding.partition(":")[0] for finding in findings(f"first line\n{planted}\n")] == ["2"]


@pytest.mark.parametrize(
    "innocent", ["a/work/b", "~/root/x", "$HOME/work/x", "sk-short", "/home/nonroot/x", "homework/"]
)
def test_an_innocent_text_passes(innocent: str) -> None:
    """A text that only resembles a forbidden one is left alone."""
    assert findings(innocent) == []


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        ('"""It holds."""', ""),
        ('"""It holds\n    in two lines, e.g. here."""', ""),
        ("pass", "no docstring"),
        ('"""It holds"""', "docstring doesn't end as a sentence"),
        ('"""It holds. It really does."""', "more than one sentence"),
    ],
)
def test_a_docstring_that_is_no_sentence_is_found(body: str, fault: str) -> None:
    """A missing, unfinished or talkative docstring is told apart from one sentence."""
    node = ast.parse(f"def test_x():\n    {body}\n").body[0]
    assert isinstance(node, ast.FunctionDef)
    assert docstring_fault(node) == fault


def test_migrations_have_numbers_without_gaps() -> None:
    """Two branches that took one number, or left one out, would break every database at its next start."""
    assert known()


def test_no_http_client_reads_the_authorities_of_the_machine_unasked() -> None:
    """Each client says whether it verifies: httpx else spends 20 ms of CPU on certificates, for plain HTTP, too."""
    clients = {"httpx.Client", "httpx.AsyncClient", "httpx.get", "httpx.post", "httpx.request", "httpx.stream"}
    found = [
        f"{tree.place(path)}:{node.lineno}"
        for path in tree.python_files("platform")
        for node in ast.walk(ast.parse(read(path)))
        if isinstance(node, ast.Call) and ast.unparse(node.func) in clients
        if "verify" not in {one.arg for one in node.keywords}
    ]
    assert found == []


def test_programs_that_tests_hold_as_text_import_what_there_is() -> None:
    """A renamed class is found in them, too: neither types nor the quick tests read a drill's child process."""
    found = [
        f"{tree.place(path, node.lineno)}: {module}.{name}"
        for path in tree.python_files("tests")
        for node in ast.walk(ast.parse(read(path)))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        for module, names in re.findall(r"(?m)^from (penstock[\w.]*) import ([\w, ]+)$", node.value)
        for name in re.split(r", *", names)
        if not is_there(module, name.partition(" as ")[0].strip())
    ]
    assert found == []


def is_there(module: str, name: str) -> bool:
    """Tell whether a module has a name at its top, or a module of that name in it."""
    place = tree.ROOT / "platform" / module.replace(".", "/")
    file = one if (one := place.with_suffix(".py")).exists() else place / "__init__.py"
    if (place / f"{name}.py").exists() or (place / name).is_dir():
        return True
    return file.exists() and bool(
        re.search(rf"(?m)^(?:(?:async )?def|class) {name}\b|^{name}\b|^from .*\b{name}\b", read(file))
    )
