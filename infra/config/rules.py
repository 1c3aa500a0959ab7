"""Cross-field judgement of a whole fleet: pure, no cloud, every refusal with key and remedy."""

import re

from infra.config.kinds import LINKED_ROLES
from infra.config.model import Environment, Fleet
from infra.config.problems import Problem
from infra.config.rules_network import judge_networks
from infra.config.rules_pools import judge_pools

SUPPORTED_KUBERNETES = ("1.34", "1.35", "1.36")
"""Versions in EKS standard support when this was written (2026-11); older ones cost six times as much per hour."""

REQUIRED_ADDONS = ("vpc-cni", "coredns", "kube-proxy", "eks-pod-identity-agent", "aws-ebs-csi-driver")
HEALTH_METRICS_REGION = "us-east-1"
"""Route 53 publishes its health metrics here and nowhere else; no environment has to serve from here."""

LONGEST_PREFIX = 15
"""Of `organization-name`: the longest role of ours, in the longest region's name, still keeps AWS's 64 letters."""

MIN_AUDIT_DAYS = 365
MIN_BACKUP_DAYS = 35

_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_EXACT_VERSION = re.compile(r"v?\d+\.\d+\.\d+[\w.+-]*")


def judge(fleet: Fleet) -> list[Problem]:
    """Every fault of the fleet, in reading order; an empty list means that it may be deployed."""
    return [
        *_judge_identity(fleet.environment),
        *_judge_retention(fleet.environment),
        *_judge_pins(fleet.environment),
        *_judge_images(fleet.environment),
        *_judge_sizes(fleet.environment),
        *judge_networks(fleet),
        *judge_pools(fleet),
    ]


def _judge_identity(environment: Environment) -> list[Problem]:
    problems = []
    if not re.fullmatch(r"\d{12}", environment.account_id):
        problems.append(_at("account_id", f"is {environment.account_id!r}", "give the 12 digits of the AWS account"))
    if not environment.regions:
        problems.append(_at("regions", "is empty", "list at least one region; the first is the primary"))
    problems += _judge_names(environment)
    known = {*LINKED_ROLES, *([environment.publisher.issuer] if environment.publisher else [])}
    problems += [
        _at("account_has", f"names {one}", f"name of {', '.join(sorted(known))} what the account has already")
        for one in environment.account_has
        if one not in known
    ]
    if not environment.administrators:
        problems.append(_at("administrators", "is empty", "name a role that may administer keys and clusters"))
    return problems


def _judge_names(environment: Environment) -> list[Problem]:
    """Both names begin the name of almost everything: buckets, roles, load balancers."""
    problems = [
        _at(key, f"is {value!r}", "use small letters, digits and single hyphens, a letter first")
        for key, value in (("organization", environment.organization), ("name", environment.name))
        if not _NAME.fullmatch(value)
    ]
    prefix = f"{environment.organization}-{environment.name}"
    if len(prefix) > LONGEST_PREFIX:
        fault = f"with the name makes {prefix!r}, {len(prefix)} letters"
        problems.append(_at("organization", fault, f"keep both within {LONGEST_PREFIX}, the hyphen included"))
    return problems


def _judge_retention(environment: Environment) -> list[Problem]:
    kept = environment.retention
    problems = []
    if kept.audit_days < MIN_AUDIT_DAYS:
        problems.append(_at("retention.audit_days", f"is {kept.audit_days}", f"keep audit at least {MIN_AUDIT_DAYS} d"))
    if kept.backup_days < MIN_BACKUP_DAYS:
        problems.append(
            _at("retention.backup_days", f"is {kept.backup_days}", f"keep {MIN_BACKUP_DAYS} d, the most RDS has")
        )
    return problems


def _judge_pins(environment: Environment) -> list[Problem]:
    problems = []
    version = environment.kubernetes.version
    if version not in SUPPORTED_KUBERNETES:
        problems.append(_at("kubernetes.version", f"is {version}", f"use one of {', '.join(SUPPORTED_KUBERNETES)}"))
    problems += [
        _at(f"kubernetes.addons.{addon}", "is missing", "pin the add-on's version")
        for addon in REQUIRED_ADDONS
        if addon not in environment.kubernetes.addons
    ]
    for name, chart in environment.charts.items():
        if not _EXACT_VERSION.fullmatch(chart.version):
            problems.append(_at(f"charts.{name}.version", f"is {chart.version!r}", "pin one exact version, no range"))
    return problems


def _judge_images(environment: Environment) -> list[Problem]:
    problems = []
    for name, image in environment.images.items():
        if ":" in image.repository:
            problems.append(
                _at(
                    f"images.{name}.repository",
                    f"carries a tag ({image.repository})",
                    "name the repository, pin `digest`",
                )
            )
        if not _DIGEST.fullmatch(image.digest):
            problems.append(
                _at(f"images.{name}.digest", f"is {image.digest!r}", "give sha256:<64 hex>, as the build prints")
            )
    problems += [
        _at(f"images.{required}", "is missing", "add its repository and digest")
        for required in ("gateway", "controller", "worker")
        if required not in environment.images
    ]
    return problems


def _judge_sizes(environment: Environment) -> list[Problem]:
    """Kubernetes runs one pod if no number is given, and no scaler gives controllers and runners one."""
    sizes = {"controller": environment.controller, "runner": environment.runner}
    return [
        _at(
            f"{name}.max_replicas",
            f"{size.min_replicas} to {size.max_replicas} without a scaler",
            "keep min_replicas and max_replicas the same",
        )
        for name, size in sizes.items()
        if size.min_replicas != size.max_replicas
    ]


def _at(key: str, fault: str, remedy: str) -> Problem:
    return Problem(key=f"environment.{key}", fault=fault, remedy=remedy)
