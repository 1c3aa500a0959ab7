"""vLLM's metrics in our names."""

from prometheus_client.parser import text_string_to_metric_families

from penstock.domain.ids import VersionId
from penstock.worker.engines.translate import exposition, parse

THEIRS = """\
# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="m@1"} 3.0
vllm:num_requests_running{engine="1",model_name="m@1"} 2.0
vllm:num_requests_waiting{engine="0",model_name="m@1"} 1.0
vllm:kv_cache_usage_perc{engine="0",model_name="m@1"} 0.25
vllm:prompt_tokens_cached_by_source_total{engine="0",model_name="m@1",source="device"} 1.184e+03
vllm:prompt_tokens_cached_by_source_total{engine="0",model_name="m@1",source="host"} 0.0
vllm:prompt_tokens_cached_by_source_created{engine="0",model_name="m@1",source="device"} 1.7e+09
vllm:generation_tokens_total{engine="0",model_name="m@1"} 20.0
vllm:iteration_tokens_total_count{engine="0",model_name="m@1"} 7.0
vllm:iteration_tokens_total_sum{engine="0",model_name="m@1"} 91.0
process_cpu_seconds_total 12.5
"""


def test_numbers_are_read_and_added_up_over_engines() -> None:
    """Samples of several engines in one process become one number."""
    numbers = parse(THEIRS)
    assert (numbers.running, numbers.waiting, numbers.kv_used_ratio) == (5, 1, 0.25)


def test_progress_moves_with_each_step_of_the_engine() -> None:
    """A step without a finished token, as in a long prefill, is progress too."""
    later = THEIRS.replace('count{engine="0",model_name="m@1"} 7.0', 'count{engine="0",model_name="m@1"} 8.0')
    assert parse(later).progress != parse(THEIRS).progress
    assert parse(THEIRS.replace("12.5", "13.5")).progress == parse(THEIRS).progress


def test_an_encoder_has_no_kv_blocks() -> None:
    """Of a model without a KV cache vLLM tells one block: the queue took it for all, and let in one at a time."""
    line = 'vllm:cache_config_info{{block_size="16",num_gpu_blocks="{}"}} 1.0\n'
    assert parse(THEIRS + line.format(1)).kv_blocks == 0
    assert parse(THEIRS + line.format(364)).kv_blocks == 364


def test_the_exposition_is_valid_and_in_our_names() -> None:
    """What comes out is read by a Prometheus parser, has our names and the version, and nothing else of theirs."""
    families = {f.name: f for f in text_string_to_metric_families(exposition(parse(THEIRS), VersionId("m@1")))}
    assert set(families) == {
        "penstock_engine_running_requests",
        "penstock_engine_waiting_requests",
        "penstock_engine_steps",
        "penstock_engine_step_tokens",
        "penstock_kv_used_ratio",
        "penstock_prefix_hit_tokens",
    }
    (hits,) = families["penstock_prefix_hit_tokens"].samples
    assert (hits.name, hits.value) == ("penstock_prefix_hit_tokens_total", 1184.0)
    assert hits.labels == {"version": "m@1", "tier": "device"}
    assert families["penstock_prefix_hit_tokens"].type == "counter"


def test_hits_are_told_by_tier_and_added_up_over_engines() -> None:
    """Host memory appears with its first hit; two engines of one process are one number."""
    more = THEIRS.replace('source="host"} 0.0', 'source="host"} 96.0') + (
        'vllm:prompt_tokens_cached_by_source_total{engine="1",model_name="m@1",source="host"} 4.0\n'
    )
    families = {f.name: f for f in text_string_to_metric_families(exposition(parse(more), VersionId("m@1")))}
    hits = {one.labels["tier"]: one.value for one in families["penstock_prefix_hit_tokens"].samples}
    assert hits == {"device": 1184.0, "host": 100.0}


def test_an_engine_that_says_nothing_yields_nothing() -> None:
    """Without samples there are no zeros that could be taken for numbers."""
    assert exposition(parse(""), VersionId("m@1")) == ""
    assert parse("").running == 0


TORCH = """\
torch:items_running 3
torch:items_waiting 1
torch:batches_total 7
torch:tokens_total 91
python_info 1.0
"""


def test_the_torch_engine_is_read_in_its_own_words() -> None:
    """Items are what runs and waits, a batch is progress; it has no KV cache."""
    numbers = parse(TORCH)
    assert (numbers.running, numbers.waiting, numbers.kv_blocks, numbers.kv_used_ratio) == (3, 1, 0, 0.0)
    assert parse(TORCH.replace("batches_total 7", "batches_total 8")).progress != numbers.progress
