"""A gateway's child process: parses and counts large requests, frame by frame, until its parent ends."""

import asyncio
import gc
import os
import signal
import sys
from collections.abc import Sequence

from penstock.apps.stores import open_store
from penstock.connectors.offload.pool import Program, serve
from penstock.domain.clock import SystemClock
from penstock.gateway.oip import asked
from penstock.gateway.oip.grpc import message_reader
from penstock.gateway.openai import reading
from penstock.gateway.preprocess import offload
from penstock.gateway.preprocess.prepare import PromptPreprocessor
from penstock.gateway.preprocess.tokenizer_cache import TokenizerCache
from penstock.settings import environment, load
from penstock.settings.pipeline import PipelineSettings

NICENESS = 5
"""Lower priority than the gateway's event loop, which all tokens pass through."""
PATIENCE_S = 10.0
"""Seconds after which a child is killed for one body; the largest takes a second."""
READ, TENSORS, MESSAGES, PREPARE = b"R", b"T", b"M", b"P"
"""The first byte of a frame: the kind of work."""


def program(settings: PipelineSettings) -> Program:
    return Program(arguments=(sys.executable, "-m", __name__), environment=environment(settings))


def main() -> None:
    """Answer frames until the input ends. Signals are for the parent: a drain must not end a working child."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.nice(NICENESS)
    frames = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # whoever prints does not write into them
    gc.freeze()
    gc.disable()  # a body leaves no cycles, and walking millions of its objects takes longer than reading it
    preprocessor = PromptPreprocessor(TokenizerCache(open_store(load())), SystemClock())
    with asyncio.Runner() as runner:

        def answer(frame: bytes) -> Sequence[bytes]:
            return runner.run(_answer(preprocessor, frame))

        serve(sys.stdin.buffer, frames, answer)
        preprocessor.close()


async def _answer(preprocessor: PromptPreprocessor, frame: bytes) -> Sequence[bytes]:
    task, payload = frame[:1], memoryview(frame)[1:]
    try:
        if task == READ:
            return reading.read(payload)
        if task == TENSORS:
            return asked.read(payload)
        if task == MESSAGES:
            return message_reader.read(payload)
        return await offload.prepared(preprocessor, payload)
    except Exception as error:  # noqa: BLE001  whatever it is, the request it belongs to hears of it
        return (offload.refusal(error),)


if __name__ == "__main__":
    main()
