"""Locust in a process of its own: started, watched and waited for from one that has never seen gevent."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from loadtests.drive.run import Keys, RunFolder

LOCUSTFILE = Path(__file__).with_name("locustfile.py")
REPOSITORY = Path(__file__).parents[2]
KEYS_VARIABLE = "LOADTEST_KEYS"
"""Keys go by the environment: what a process is started with, everybody may read."""
LOOK_EVERY_S = 10.0


def drive(folder: RunFolder, keys: Keys, told: Callable[[int], None] = lambda _: None) -> None:
    """Play a run's plan and wait for its end; ``told`` hears now and then how many requests have ended."""
    command = [sys.executable, "-m", "locust", "--locustfile", str(LOCUSTFILE), "--run-folder", str(folder.path)]
    command += ["--headless", "--users", "1", "--spawn-rate", "1", "--exit-code-on-error", "0", "--only-summary"]
    env = {**os.environ, KEYS_VARIABLE: json.dumps(dict(keys))}
    with (folder.path / "locust.log").open("wb") as log:
        process = subprocess.Popen(command, env=env, cwd=REPOSITORY, stdout=log, stderr=subprocess.STDOUT)
        try:
            while not _ended(process):
                told(folder.answered())
        finally:
            process.terminate()
            process.wait()


def _ended(process: subprocess.Popen[bytes]) -> bool:
    try:
        process.wait(LOOK_EVERY_S)
    except subprocess.TimeoutExpired:
        return False
    return True
