"""What agents of one group say to each other while it runs: a line of JSON each, of a few hundred bytes at most."""

import asyncio
import hmac

import msgspec

from agents.groups.trouble import Trouble

HELLO, READY, GO, PING, DONE, OVER = "hello", "ready", "go", "ping", "done", "over"


class Word(msgspec.Struct, frozen=True):
    """``done``: the workload on this node ended well, the others go on. ``over``: the group is at its end."""

    kind: str
    reason: str = ""
    about: str = ""
    secret: str = ""
    epoch: int = 0
    node_rank: int = 0
    running: bool = False

    def is_hello_of(self, secret: str, epoch: int) -> bool:
        return self.kind == HELLO and self.epoch == epoch and hmac.compare_digest(self.secret, secret)

    @property
    def trouble(self) -> Trouble:
        return Trouble(self.reason[:32], self.about[:1000])


_decoder = msgspec.json.Decoder(Word)


def farewell(trouble: Trouble | None) -> Word:
    """``None``: it ended well here."""
    return Word(DONE) if trouble is None else Word(OVER, trouble.reason, trouble.about)


async def hear(reader: asyncio.StreamReader) -> Word | None:
    """The next word; None at the end of the connection and for what is none, after which nothing is to be heard."""
    try:
        return _decoder.decode(await reader.readuntil(b"\n"))
    except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, msgspec.MsgspecError, UnicodeDecodeError):
        return None


def say(writer: asyncio.StreamWriter, word: Word) -> None:
    """Without waiting: one who reads nothing holds up nobody, and is found silent."""
    if not writer.is_closing():
        writer.write(msgspec.json.encode(word) + b"\n")
