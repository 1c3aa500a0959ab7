"""Messages between a process and its children: frames of bytes, each preceded by its length."""

from asyncio import StreamReader, StreamWriter
from collections.abc import Callable, Sequence
from typing import BinaryIO

LENGTH_BYTES = 8


async def exchange(reader: StreamReader, writer: StreamWriter, pieces: Sequence[bytes]) -> bytes:
    """One frame; ``EOFError`` if no answer arrives."""
    writer.write(sum(map(len, pieces)).to_bytes(LENGTH_BYTES, "big"))
    for piece in pieces:
        writer.write(piece)
    await writer.drain()
    return await reader.readexactly(int.from_bytes(await reader.readexactly(LENGTH_BYTES), "big"))


def serve(incoming: BinaryIO, outgoing: BinaryIO, answer: Callable[[bytes], Sequence[bytes]]) -> None:
    while len(length := incoming.read(LENGTH_BYTES)) == LENGTH_BYTES:
        pieces = answer(incoming.read(int.from_bytes(length, "big")))
        outgoing.write(sum(map(len, pieces)).to_bytes(LENGTH_BYTES, "big"))
        outgoing.writelines(pieces)
        outgoing.flush()
