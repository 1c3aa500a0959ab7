"""Virtual time for tests."""


class ManualClock:
    """A `Clock` that stands still until a test moves it."""

    def __init__(self, epoch_s: float = 1_800_000_000.0) -> None:
        self.elapsed_s = 0.0
        self.epoch_s = epoch_s

    def monotonic(self) -> float:
        return self.elapsed_s

    def now(self) -> float:
        return self.epoch_s + self.elapsed_s

    def advance(self, seconds: float) -> None:
        if seconds < 0:
            raise ValueError("time only goes forward")
        self.elapsed_s += seconds
