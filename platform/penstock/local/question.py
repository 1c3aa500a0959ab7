"""The last phase of a start: prints how to use the platform, and a first answer."""

import json
import shlex

from penstock.clients.chat import Question, ask_model, breakdown
from penstock.domain.clock import SystemClock
from penstock.local import connections, observing
from penstock.local.screen import Screen
from penstock.settings import Settings

MODEL = "smollm2"
TEXT = "What is the capital of Japan?"
EXAMPLES: dict[str, tuple[str, dict[str, object]]] = {
    MODEL: ("chat/completions", {"messages": [{"role": "user", "content": "Why is the sky blue?"}]}),
    "minilm": ("embeddings", {"input": "A kitten sleeps."}),
    "minilm-torch": ("embeddings", {"input": "A kitten sleeps."}),
    "topics": ("classify", {"input": "How long should I boil an egg?"}),
}
"""Example requests for demo models that take texts; an image does not fit into a line."""


def ask(settings: Settings, screen: Screen) -> None:
    for line in usage(settings):
        screen.say(line)
    if MODEL not in settings.demo_models or settings.workers == 0:
        return
    screen.say(f"\n  {MODEL} ← {TEXT}")
    screen.write(f"  {MODEL} → ")
    with connections.gateway(settings) as http:
        stats = ask_model(http, Question(model=MODEL, text=TEXT, max_tokens=64), screen.write, SystemClock().monotonic)
    screen.say()
    for line in breakdown(stats).splitlines():
        screen.say(f"    {line}")
    screen.say("\n  Ctrl-C drains and ends everything.\n")


def usage(settings: Settings) -> list[str]:
    paths = settings.paths
    url = connections.gateway_address(settings)
    return [
        "",
        f"  address    {url}/v1",
        f"  gRPC       {paths.gateway_grpc_address.read_text().strip()}   (Open Inference Protocol; REST: {url}/v2)",
        f"  demo key   {paths.demo_key.read_text().strip()}   (in {paths.demo_key})",
        f"  admin key  in {paths.admin_key}",
        *(f"  {what:<10} {url}" for what, url in observing.addresses(paths).items()),
        *example(settings, url),
    ]


def example(settings: Settings, url: str) -> list[str]:
    served = settings.demo_models if settings.workers else ()
    model = next((name for name in EXAMPLES if name in served), None)
    if model is None:
        return []
    path, asked = EXAMPLES[model]
    return [
        "",
        f"  curl {url}/v1/{path} -H 'content-type: application/json' \\",
        f'    -H "authorization: Bearer $(cat {shlex.quote(str(settings.paths.demo_key))})" \\',
        f"    -d '{json.dumps({'model': model, **asked})}'",
    ]
