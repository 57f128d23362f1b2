"""How a node joins, once, over HTTP: POST /agent/v1/enrol."""

import msgspec

from agents.protocol import VERSION, Name


class Enrol(msgspec.Struct, frozen=True):
    token: Name
    hostname: Name
    version: int = VERSION


class Enrolled(msgspec.Struct, frozen=True):
    node_id: int
    node_name: str
    credential: str
