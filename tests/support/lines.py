"""A line of a test's own program, to the test that started it."""

import sys


def say(what: object) -> None:
    sys.stdout.write(f"{what}\n")
    sys.stdout.flush()
