"""Cuts a byte stream into complete server-sent events (WHATWG HTML, section 9.2). Pure.

Inside an event's JSON a line feed is always escaped, so a blank line can only be the end of an event.
"""

END = b"\n\n"
CHOICE = b'"choices":[{'
"""Contained in each event of an OpenAI stream that has a choice."""
_DATA = b"data: "
MAX_HELD_BYTES = 4 << 20
"""Bytes above which an event is refused (log probabilities of a whole prompt stay below)."""


class EventScanner:
    __slots__ = ("_held",)

    def __init__(self) -> None:
        self._held = b""

    def feed(self, data: bytes) -> bytes:
        """Raises ``ValueError`` if an event is too long."""
        if not self._held and data.endswith(END):
            return data
        data = self._held + data
        cut = data.rfind(END) + len(END)
        if cut < len(END):
            cut = 0
        self._held = data[cut:]
        if len(self._held) > MAX_HELD_BYTES:
            raise ValueError("an event without an end")
        return data[:cut]

    @property
    def held_bytes(self) -> int:
        return len(self._held)


def split(events: bytes) -> list[bytes]:
    return [event + END for event in events.split(END)[:-1]]


def parted(events: bytes, marks: tuple[bytes, ...]) -> tuple[bytes, bytes]:
    first = min((at for at in map(events.find, marks) if at >= 0), default=len(events))
    start = events.rfind(END, 0, first) + len(END)
    if start < len(END):
        start = 0
    return events[:start], events[start:]


def choices_in(events: bytes) -> list[bytes]:
    return [one.removeprefix(_DATA) for one in events.split(END) if CHOICE in one]


def data_of(event: bytes) -> bytes:
    at = event.find(b"data:")
    if at < 0:
        return b""
    return event[at + 5 :].partition(b"\n")[0].strip()
