"""One end of a WebSocket, the other being the portal's ASGI application in this process."""

import asyncio

from asgiref.testing import ApplicationCommunicator

CLIENT = ("127.0.0.1", 40000)


class Wire(ApplicationCommunicator):
    """Sends and receives frames. A wait that runs out ends the application, so that no test can hang."""

    def __init__(self, application, path: str, headers: list[tuple[bytes, bytes]]) -> None:
        scope = {"type": "websocket", "path": path, "headers": headers, "query_string": b"", "subprotocols": [],
                 "scheme": "ws", "client": CLIENT}  # fmt: skip
        self._flowing = asyncio.Event()
        self._flowing.set()

        async def held_back(scope, receive, send) -> None:
            async def send_when_flowing(message: dict) -> None:
                await self._flowing.wait()
                await send(message)

            await application(scope, receive, send_when_flowing)

        super().__init__(held_back, scope)

    def hold(self) -> None:
        """Take nothing more, as a peer whose window is full."""
        self._flowing.clear()

    def let_go(self) -> None:
        self._flowing.set()

    async def connect(self) -> bool:
        """Whether it was accepted."""
        await self.send_input({"type": "websocket.connect"})
        return (await self.receive_output(timeout=10))["type"] == "websocket.accept"

    async def send(self, frame: str) -> None:
        await self.send_input({"type": "websocket.receive", "text": frame})

    async def receive(self, within_seconds: float) -> str:
        output = await self.receive_output(timeout=within_seconds)
        assert output["type"] == "websocket.send", f"instead of a frame came {output}"
        return output["text"]

    async def leave(self) -> None:
        await self.send_input({"type": "websocket.disconnect", "code": 1000})
        await self.wait(timeout=10)
