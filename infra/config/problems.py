"""How the config says no: the key, what is wrong with it, and what to do instead."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One refusal. `key` is the path in the file, `remedy` an instruction."""

    key: str
    fault: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.key}: {self.fault}; {self.remedy}"


class ConfigRefusedError(ValueError):
    """The config was refused before any resource existed."""

    def __init__(self, problems: list[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("config refused:\n" + "\n".join(f"  - {problem}" for problem in problems))
