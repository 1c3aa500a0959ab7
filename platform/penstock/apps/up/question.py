"""The end of a start: how to use the platform, and a first real answer."""

import json
import shlex

from penstock.apps import connections
from penstock.apps.settings import Settings
from penstock.apps.up.screen import Screen
from penstock.clients.chat import Question, ask_model, breakdown
from penstock.domain.clock import SystemClock

MODEL = "smollm2"
TEXT = "What is the capital of Japan?"


def ask(settings: Settings, screen: Screen) -> None:
    """Print address, key and a curl line; then ask the platform its first question and print the answer as it comes."""
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
    """Return what a person needs to know to call the platform."""
    paths = settings.paths
    url = connections.gateway_address(settings)
    body = json.dumps({"model": MODEL, "messages": [{"role": "user", "content": "Why is the sky blue?"}]})
    return [
        "",
        f"  address    {url}/v1",
        f"  demo key   {paths.demo_key.read_text().strip()}   (in {paths.demo_key})",
        f"  admin key  in {paths.admin_key}",
        "",
        f"  curl {url}/v1/chat/completions -H 'content-type: application/json' \\",
        f'    -H "authorization: Bearer $(cat {shlex.quote(str(paths.demo_key))})" \\',
        f"    -d '{body}'",
    ]
