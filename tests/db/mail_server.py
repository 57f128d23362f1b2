"""A real SMTP server on the loopback, which refuses and waits as a test tells it."""

import asyncio
import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from email import message_from_bytes, policy
from email.message import EmailMessage

from aiosmtpd.controller import Controller

from portal.demo.ports import is_free

PORTS = range(20_000, 30_000)  # below the kernel's own short-lived ones


class MailServer:
    """``rcpt`` and ``data`` are what it answers there by address, such as ``550 no such user``; "" takes it.

    With ``held`` set it takes a mail's text and says nothing; ``reading`` tells that one has come that far.
    """

    def __init__(self, port: int) -> None:
        self.port = port
        self.mails: list[EmailMessage] = []
        self.rcpt: dict[str, str] = {}
        self.data: dict[str, str] = {}
        self.held = threading.Event()
        self.reading = threading.Event()

    def to(self, address: str) -> list[EmailMessage]:
        return [mail for mail in self.mails if mail["To"] == address]

    async def handle_MAIL(self, server, session, envelope, address, options) -> str:
        envelope.mail_from = address
        return "250 OK"

    async def handle_RCPT(self, server, session, envelope, address, options) -> str:
        if refusal := self.rcpt.get(address, ""):
            return refusal
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server, session, envelope) -> str:
        self.reading.set()
        while self.held.is_set():
            await asyncio.sleep(0.01)
            if session.peer is None or server.transport is None or server.transport.is_closing():
                return "451 the peer is gone"
        if refusal := self.data.get(envelope.rcpt_tos[0], ""):
            return refusal
        self.mails.append(message_from_bytes(envelope.content, policy=policy.default))
        return "250 OK"


@contextmanager
def mail_server() -> Iterator[MailServer]:
    handler = MailServer(free_port())
    controller = Controller(handler, hostname="127.0.0.1", port=handler.port)
    controller.start()
    try:
        yield handler
    finally:
        handler.held.clear()
        controller.stop()


def free_port() -> int:
    return next(port for port in random.sample(PORTS, 100) if is_free(port))
