"""Run-books of the first day and of upgrades, read from the pages: what can run here runs, the rest has models."""

import json
import re
import shlex
import subprocess
from pathlib import Path

import botocore.session
import pytest
from botocore import xform_name

from infra.capture.fleet import REGIONAL
from infra.capture.run import SECRET_CONFIG
from infra.components.labels import ROLE
from infra.components.secrets_manager import WRITTEN
from infra.components.site import Site
from infra.config.kinds import StackKind
from infra.config.model import Fleet
from infra.contract import processes
from infra.kube.first_start import ADMIN_KEY
from infra.kube.images import BILL, signatures
from infra.kube.pods import SAFE_CONTAINER, SAFE_POD
from infra.rendered.checked_in import facts
from infra.stacks.exports import project_name

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "infra/README.md").read_text(encoding="utf-8")
BLOCKS = [block.splitlines() for block in re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)]
LATER = (ROOT / "infra/UPGRADES.md").read_text(encoding="utf-8")
REFERENCE = (ROOT / "docs/reference/cli.md").read_text(encoding="utf-8")
UPGRADES = [block.splitlines() for block in re.findall(r"```sh\n(.*?)```", LATER, re.DOTALL)]
SHELL = ("cd", "export", "source")
BETWEEN = [
    part
    for page in (PAGE, LATER)
    for part in re.findall(r"`([^`\n]+)`", re.sub(r"```.*?```", "", page, flags=re.DOTALL))
]
"""What stands between words as code, commands among it."""
OF_THE_TOOL = {"region", "query", "output"}
WITHOUT_A_MODEL = {("ecr", "get-login-password"), ("eks", "update-kubeconfig")}
"""Commands that the tool adds to the service's own."""
PULUMI = {
    "login": set(),
    "stack init": {"secrets-provider"},
    "stack output": {"stack"},
    "stack select": set(),
    "config set": {"secret"},
    "up": {"policy-pack"},
    "import": {"parent", "provider", "stack"},
    "state delete": set(),
    "cancel": {"stack"},
    "refresh": {"stack"},
    "destroy": {"stack"},
}
"""https://www.pulumi.com/docs/iac/cli/commands/: the commands and options that the page uses."""
KUBECTL = {
    "apply": {"server-side", "filename"},
    "delete": {"all", "selector"},
    "exec": set(),
    "get": {"all-namespaces", "ignore-not-found", "label-columns", "output", "selector"},
    "logs": set(),
    "port-forward": set(),
    "rollout": set(),
    "run": {"restart", "image", "overrides"},
    "scale": {"replicas"},
    "wait": {"for"},
}
"""https://kubernetes.io/docs/reference/kubectl/generated/: beside `--namespace`, which all have."""
OTHERS = {
    "crane": {"auth", "push", "copy", "digest"},
    "cosign": {"sign", "attest"},
    "docker": {"save"},
    "helm": {"registry", "pull", "push"},
    "terraform": {"providers"},
    "git": {"diff"},
    "pip": {"install"},
    "kubectl": set(KUBECTL),
    "curl": set(),
    "dig": {"NS"},
    "penstock": set(),
    "python3": {"-c"},
    "tee": set(),
    "tr": {"-d"},
}
TOOLS = {"aws", "make", "openssl", "pulumi", *OTHERS}
PLAIN = {"AWS", "ENV", "REGION", "ALL", "DER", "URN"}
"""Capitals that are no placeholders, or that the page begins with."""


def typed(line: str) -> list[list[str]]:
    """Return the words of each program of a line, without files that it writes."""
    return [shlex.split(part.partition(" > ")[0]) for part in line.split(" | ")]


COMMANDS = [
    words for block in (*BLOCKS, *UPGRADES) for line in block if line.split()[0] not in SHELL for words in typed(line)
]
NAMED = [words for part in BETWEEN if part.split()[0] in TOOLS and " " in part for words in typed(part)]
"""Commands between words: they are typed, too."""


def of(tool: str) -> list[list[str]]:
    return [words[1:] for words in COMMANDS if words[0] == tool]


def every(tool: str) -> list[list[str]]:
    """Return a tool's commands in blocks and between words, each once."""
    return [list(one) for one in dict.fromkeys(tuple(words[1:]) for words in (*COMMANDS, *NAMED) if words[0] == tool)]


def options(words: list[str]) -> set[str]:
    return {word.removeprefix("--") for word in words if word.startswith("--")}


def waiters(service: str) -> list[str]:
    names: list[str] = botocore.session.get_session().get_waiter_model(service).waiter_names
    return names


def stacks(fleet: Fleet) -> list[str]:
    """Return the projects in the order in which each finds what it reads, as the capture proves it."""
    assert fleet.environment.regions
    return [one.value for one in (StackKind.GLOBAL, *(kind for kind, _ in REGIONAL), StackKind.MESH)]


def test_stacks_come_after_what_they_read(fleet: Fleet) -> None:
    """Steps go through the projects in the order of their dependencies, each in a folder that is its project."""
    raised, ended = (
        [block[0].removeprefix("cd infra/projects/") for block in BLOCKS if any(act in line for line in block)]
        for act in ("pulumi up", "pulumi destroy")
    )
    assert raised == stacks(fleet)
    assert ended == raised[::-1]
    for kind in raised:
        assert project_name(StackKind(kind)) in (ROOT / "infra/projects" / kind / "Pulumi.yaml").read_text()


def test_stacks_are_named_as_the_programs_read_them() -> None:
    """Regional projects have a stack per region, the others one per environment, as their readers name them."""
    for block in BLOCKS:
        for line in block:
            named = re.search(r"pulumi stack init (\S+)|pulumi .*--stack (\S+)", line)
            if named:
                kind = StackKind(block[0].removeprefix("cd infra/projects/"))
                assert (named[1] or named[2]) == ("ENV.REGION" if kind in dict(REGIONAL) else "ENV")
            assert "--stack" in line or not line.startswith("pulumi destroy")


def test_every_folder_of_a_step_is_there() -> None:
    """Each block begins in a folder of the infrastructure, or in the repository's root."""
    for block in (*BLOCKS, *UPGRADES):
        folder = block[0].removeprefix("cd ")
        assert block[0].startswith("cd "), block
        assert (ROOT / folder).is_dir(), folder


def test_configuration_and_secrets_are_those_of_the_code() -> None:
    """The page sets each secret that a program requires and writes each that stands empty, and no other."""
    told = [word for words in of("pulumi") if words[:2] == ["config", "set"] for word in words if ":" in word]
    assert sorted(told) == sorted(SECRET_CONFIG)
    put = {words[words.index("--secret-id") + 1] for words in of("aws") if words[1] == "put-secret-value"}
    assert sorted(put) == sorted(f"penstock/ENV/{name}" for name in WRITTEN)


@pytest.mark.parametrize("words", every("make"), ids=" ".join)
def test_make_knows_its_targets(words: list[str]) -> None:
    """Each target is one that make can plan."""
    done = subprocess.run(["make", "--question", *words], cwd=ROOT, capture_output=True, text=True, check=False)
    assert "No rule" not in done.stderr


@pytest.mark.parametrize("words", [one for one in every("openssl") if one[0] == "rand"], ids=" ".join)
def test_what_can_run_here_runs(words: list[str]) -> None:
    """A key is 32 random bytes as hex, as the platform wants them."""
    made = subprocess.run(["openssl", *words], capture_output=True, text=True, check=True).stdout.strip()
    assert len(bytes.fromhex(made)) == 32


def test_keys_are_written_as_the_cluster_extracts_them(tmp_path: Path) -> None:
    """Step 5's own lines, typed in a folder: three JSON texts by their own name, two passwords without a line's end."""
    (block,) = [block for block in BLOCKS if any("put-secret-value" in line for line in block)]
    made = [line for line in block if " > SECRETS/" in line]
    (tmp_path / "SECRETS").mkdir()
    (tmp_path / "public.pem").write_text("-----BEGIN PUBLIC KEY-----\nMFkw\n-----END PUBLIC KEY-----\n")
    subprocess.run("\n".join(["set -e", *made]), cwd=tmp_path, shell=True, check=True)  # noqa: S602 - our own page
    files = {path.name: path.read_text() for path in (tmp_path / "SECRETS").iterdir()}
    whole = {one.name for process in processes().values() for one in process.secrets if one.exchangeable}
    for name in whole:
        assert set(json.loads(files[name])) == {name}
    assert len(bytes.fromhex(json.loads(files["platform-key"])["platform-key"])) == 32
    assert json.loads(files["signing-public-key"])["signing-public-key"] == (tmp_path / "public.pem").read_text()
    assert all(len(bytes.fromhex(files[name])) == 32 and files[name].isalnum() for name in set(files) - whole)


def test_no_secret_is_typed() -> None:
    """A secret in a command stays in the shell's history: each comes from a file of its name, or from a pipe."""
    for words in of("aws"):
        if words[1] == "put-secret-value":
            name = words[words.index("--secret-id") + 1].rpartition("/")[2]
            later = {f"file://SECRETS/{name}"}
            assert words[words.index("--secret-string") + 1] in later
    lines = [line for block in BLOCKS for line in block if "config set --secret" in line]
    assert lines
    assert all(" | pulumi config set --secret " in line and len(typed(line)[-1]) == 5 for line in lines)


def test_every_quota_has_its_code(fleet: Fleet, small: Fleet) -> None:
    """Whatever the regions' files want of EC2 is asked for by a code."""
    wanted = {quota for one in (fleet, small) for region in one.regions for quota in region.quotas_vcpu}
    codes = dict(re.findall(r"`(L-[0-9A-F]{8})` \(`([a-z-]+)`\)", PAGE))
    assert set(codes.values()) == wanted


def test_what_is_installed_is_there() -> None:
    """A `pip install` of this repository names a folder with a project, and extras that it has."""
    for words in every("pip"):
        folder, _, extras = words[-1].partition("[")
        assert (ROOT / folder / "pyproject.toml").is_file()
        for extra in extras.rstrip("]").split(","):
            assert (ROOT / "requirements" / f"{extra}.in").is_file()


def test_penstock_has_these_commands() -> None:
    """Each command of the platform, in blocks and between words, is in its reference, with the options that it has."""
    parts = dict(re.findall(r"^##+ (penstock [^\n]+)\n(.*?)(?=^##|\Z)", REFERENCE, re.DOTALL | re.MULTILINE))
    for words in every("penstock"):
        name = next(
            " ".join(["penstock", *words[:depth]])
            for depth in (2, 1)
            if " ".join(["penstock", *words[:depth]]) in parts
        )
        assert [one for one in options(words) if f"`--{one}" not in parts[name]] == []


@pytest.mark.parametrize("words", every("aws"), ids=lambda words: " ".join(words[:2]))
def test_aws_has_these_operations_and_parameters(words: list[str]) -> None:
    """Each call is an operation of its service's model, with parameters that it has and all those that it requires."""
    service, operation = words[:2]
    if (service, operation) in WITHOUT_A_MODEL:
        return
    if operation == "wait":
        assert words[2] in {xform_name(one, "-") for one in waiters(service)}
        return
    model = botocore.session.get_session().get_service_model(service.removesuffix("api"))
    name = {xform_name(one, "-"): one for one in model.operation_names}[operation]
    shape = model.operation_model(name).input_shape
    assert shape is not None
    known = {xform_name(one, "-") for one in shape.members}
    switches = {xform_name(one, "-") for one, member in shape.members.items() if member.type_name == "boolean"}
    given = {one.removeprefix("no-") if one.removeprefix("no-") in switches else one for one in options(words)}
    given -= OF_THE_TOOL
    assert given <= known
    assert not given or {xform_name(one, "-") for one in shape.required_members} <= given  # a bare name is a mention


def test_pulumi_is_called_as_it_is_documented() -> None:
    """Each call is a command of the page's list, with options that it has; every update runs under the policies."""
    for words in every("pulumi"):
        command = next(one for one in PULUMI if words[: len(one.split())] == one.split())
        assert options(words) <= PULUMI[command]
    assert all(words[-2:] == ["--policy-pack", "../../policy/pack"] for words in of("pulumi") if words[0] == "up")


def test_kubectl_is_called_as_it_is_documented() -> None:
    """Each call is a verb of the list, with options that it has."""
    for words in every("kubectl"):
        verb = next(one for one in words if one in KUBECTL)
        own = words[: words.index("--")] if "--" in words else words
        assert options(own) - {"namespace"} <= KUBECTL[verb]


def test_a_state_is_named_as_the_network_lets_it_through(fleet: Fleet) -> None:
    """The bucket that the page makes and enters is the one that the endpoint's policy knows."""
    one = fleet.environment
    told = {word.removeprefix("s3://") for words in of("pulumi") if words[0] == "login" for word in words[1:]}
    told |= {words[words.index("--bucket") + 1] for words in of("aws") if "--bucket" in words}
    (name,) = told
    filled = name.replace("ORGANIZATION", one.organization).replace("ENV", one.name).replace("ACCOUNT", one.account_id)
    assert filled == one.state_bucket


def test_no_other_tool_is_used_than_the_named() -> None:
    """Every tool is among those that the page asks for, and used in the way that is checked."""
    assert {words[0] for words in COMMANDS} <= TOOLS
    for tool, first in OTHERS.items():
        assert all(first & set(words[:3]) for words in every(tool) if first), tool


def test_every_word_of_a_command_is_explained() -> None:
    """Each word in capitals that a reader must replace stands in the text, which says from where it comes."""
    told = {word for part in BETWEEN for word in WORD.findall(part)}
    asked = {word for block in BLOCKS for line in block for word in WORD.findall(line)}
    assert asked - told - PLAIN == set()


WORD = re.compile(r"(?<![A-Za-z_.$-])[A-Z]+(?:_[A-Z]+)*(?![A-Za-z_=])")


def test_a_password_goes_into_a_login() -> None:
    """A registry's password is of no use on the screen."""
    lines = [line for block in BLOCKS for line in block if "get-login-password" in line]
    assert lines
    assert all(" | " in line and "--password-stdin" in line for line in lines)


def test_what_does_not_end_comes_last() -> None:
    """A forwarded port holds its terminal: nothing of its block comes after it."""
    for block in BLOCKS:
        held = [index for index, line in enumerate(block) if "port-forward" in line]
        assert held in ([], [len(block) - 1])


def test_the_pod_that_reads_the_first_key_is_admitted() -> None:
    """It mounts the job's claim, on nodes of the claim's zones, as safe as every pod of ours, by digest."""
    (words,) = [one for one in of("kubectl") if "run" in one]
    spec = json.loads(words[words.index("--overrides") + 1])["spec"]
    (container,) = spec["containers"]
    assert spec["volumes"][0]["persistentVolumeClaim"] == {"claimName": ADMIN_KEY.name}
    assert spec["nodeSelector"] == {ROLE: "cpu"}
    assert spec["securityContext"] == SAFE_POD
    assert container["securityContext"].items() <= SAFE_CONTAINER.items()
    assert {"allowPrivilegeEscalation", "capabilities"} == set(container["securityContext"])
    assert container["image"].endswith("/penstock/controller@DIGEST")


def test_images_are_signed_as_the_admission_controller_reads() -> None:
    """policy-controller 0.13.1 finds signatures of the old format alone, which cosign 3 writes only on request."""
    # https://github.com/sigstore/policy-controller/issues/1899: "no signatures found" with the new bundles.
    assert facts()["policy-controller"]["read"]["app_version"] == "0.13.1"  # of a later one, read its release notes
    signed, listed = of("cosign")
    for words in (signed, listed):
        assert {"--new-bundle-format=false", "--use-signing-config=false", "--tlog-upload=false", "--yes"} <= set(words)
    assert (signed[0], listed[0]) == ("sign", "attest")


def test_the_bill_that_is_signed_is_the_one_that_the_cluster_asks_for(fleet: Fleet) -> None:
    """The page signs the file that `make images` writes, of the type and with the key of an enforced policy."""
    (folder,) = re.findall(r'^FOLDER = ROOT / "(.*)"$', (ROOT / "scripts/bills.py").read_text(), re.MULTILINE)
    _, words = of("cosign")
    assert words[words.index("--predicate") + 1] == f"{folder}/IMAGE.cdx.json"
    assert words[words.index("--type") + 1] == "cyclonedx"
    site = Site(environment=fleet.environment, region=fleet.environment.primary)
    alias = fleet.environment.signing_alias
    attested = [
        (one["attestations"][0]["predicateType"], one["key"]["kms"].endswith(alias))
        for policy in signatures(site)
        for one in policy.body["spec"]["authorities"]  # type: ignore[index]
        if "attestations" in one
    ]
    assert attested == [(BILL, True)]  # cosign's in-toto type of CycloneDX
