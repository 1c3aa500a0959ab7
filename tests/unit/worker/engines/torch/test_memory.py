"""What the engine's process keeps between batches, in processes of their own: it holds for a whole process."""

import subprocess
import sys

import pytest

MODEL = """
import os, resource, sys, threading
from concurrent.futures import ThreadPoolExecutor
import torch
from penstock.worker.engines.torch import memory
from penstock.worker.engines.torch.handlers.efficientnet_lite import EfficientNetLite
for thread in [threading.Thread(target=bytearray, args=(200_000,)) for _ in range(3)]:
    thread.start()
    thread.join()
if os.fork():
    sys.exit(os.waitstatus_to_exitcode(os.wait()[1]))
if "kept" in sys.argv:
    assert memory.keep()
torch.set_num_threads(1)
network, image = EfficientNetLite().eval().to(memory_format=torch.channels_last), torch.zeros(1, 3, 224, 224)

def batch():
    with torch.inference_mode():
        network(image.contiguous(memory_format=torch.channels_last))
    return resource.getrusage(resource.RUSAGE_THREAD).ru_minflt

most = 0
for _ in range(4):
    with ThreadPoolExecutor(1) as threads:
        counted = [threads.submit(batch).result() for _ in range(8)]
        most = max(most, counted[-1] - counted[-2])
print(most)
"""


def faults(*argv: str) -> int:
    """Return the page faults of a batch like the one before it, on the worst of some threads, in a forked process."""
    done = subprocess.run([sys.executable, "-c", MODEL, *argv], check=True, capture_output=True, text=True)
    return int(done.stdout)


@pytest.mark.skipif(sys.platform != "linux", reason="the C library's own function")
def test_the_next_batch_finds_the_memory_of_the_last() -> None:
    """Without it each batch asks the kernel for its pages anew; with arenas of the parent's threads too."""
    assert faults() > 1_000
    assert faults("kept") < 100
