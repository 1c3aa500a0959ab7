"""The capture sees what an engine would see, and fails where it does not know an answer."""

import pulumi
import pulumi_aws as aws
import pytest

from infra.capture.fleet import capture_fleet
from infra.capture.run import CaptureFailedError, run
from infra.config.model import Fleet
from infra.graph.captured import Capture
from infra.graph.nodes import Graph
from infra.graph.values import Json, dig, items, mapping, number, parsed, text, texts


def captured(program: object) -> Graph:
    return run(program, project="p", stack="s", account="111122223333", producers={})  # type: ignore[arg-type]


def test_an_unknown_question_to_the_cloud_fails() -> None:
    """A program that asks the cloud for its zones is refused by name."""
    with pytest.raises(CaptureFailedError, match="getAvailabilityZones"):
        captured(lambda: pulumi.export("zones", aws.get_availability_zones().names))


def test_an_unknown_stack_fails() -> None:
    """Reading a stack that nobody captured is refused by name."""
    with pytest.raises(CaptureFailedError, match="stack reference org/x/y"):
        captured(lambda: pulumi.StackReference("org/x/y"))


def test_two_resources_of_one_urn_fail() -> None:
    """A second resource under the same URN is refused."""

    def program() -> None:
        aws.sns.Topic("a")
        aws.sns.Topic("a")

    with pytest.raises(CaptureFailedError, match=r"Topic::a|Duplicate"):
        captured(program)


def test_secrets_are_unwrapped_and_remembered() -> None:
    """A secret input is kept in plain for the checks, and its place is noted."""
    graph = captured(lambda: aws.ssm.Parameter("a", type="SecureString", value=pulumi.Output.secret("x")))
    node = next(iter(graph.of("aws:ssm/parameter:Parameter")))
    assert (node.inputs["value"], node.secrets) == ("x", ("value",))


def test_the_graph_keeps_chain_references_and_options() -> None:
    """URNs hold the whole chain of parents, references name their origin, options survive, numbers are whole."""

    def program() -> None:
        outer = pulumi.ComponentResource("t:x:Outer", "o")
        inner = pulumi.ComponentResource("t:x:Inner", "i", opts=pulumi.ResourceOptions(parent=outer))
        key = aws.kms.Key("k", deletion_window_in_days=30, opts=pulumi.ResourceOptions(parent=inner, protect=True))
        aws.sns.Topic("t", kms_master_key_id=key.arn)

    graph = captured(program)
    key = next(iter(graph.of("aws:kms/key:Key")))
    assert key.urn == "urn:pulumi:s::p::t:x:Outer$t:x:Inner$aws:kms/key:Key::k"
    assert key.options.protect
    assert key.inputs["deletionWindowInDays"] == 30
    assert isinstance(key.inputs["deletionWindowInDays"], int)
    assert next(iter(graph.of("aws:sns/topic:Topic"))).references["kmsMasterKeyId"] == (key.urn,)


def test_a_program_that_raises_says_why() -> None:
    """The program's own message comes through."""

    def program() -> None:
        raise ValueError("no such pool")

    with pytest.raises(CaptureFailedError, match="no such pool"):
        captured(program)


def test_captures_repeat(small: Fleet, small_captures: tuple[Capture, ...]) -> None:
    """Two captures of one config are equal, node by node."""
    assert capture_fleet(small) == small_captures


def test_values_are_reached_without_a_cast() -> None:
    """Reaching into plain values never raises and says nothing where there is nothing."""
    value: Json = {"a": [{"b": 1, "c": "x"}], "d": "e"}
    assert (dig(value, "a.0.b"), dig(value, "a.9.b"), dig(value, "d.z")) == (1, None, None)
    assert (text(value, "a.0.b"), text(value, "a"), number(value, "d")) == ("1", "", 0.0)
    assert (items(value, "d"), items(value, "z"), dict(mapping(value, "d"))) == (["e"], [], {})
    assert list(texts(value)) == [("a.0.c", "x"), ("d", "e")]
    assert (parsed('{"a": 1}'), parsed("no json")) == ({"a": 1}, None)
