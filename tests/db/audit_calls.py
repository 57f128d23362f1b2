"""Which functions of the portal change something, and what each records: read from the sources, call by call."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# What only shows, asks or makes up data: their changes go through the services.
NO_SERVICES = {"migrations", "management", "views", "demo", "api", "audit"}
WRITES = {"save", "bulk_create", "bulk_update", "update_or_create", "get_or_create", "create_user"}
ACTION = re.compile(r"[a-z_]+\.[a-z_*]+")
# What passes facts and names of tasks on.
SENDERS = ("tell_", "push_", "send_", "partial", "connect")


@dataclass
class Function:
    """``calls`` are names as the module knows them; ``actions`` what it tells ``record_change`` itself."""

    module: str
    name: str
    calls: set[str] = field(default_factory=set)
    actions: set[str] = field(default_factory=set)
    writes: bool = False

    @property
    def path(self) -> str:
        return f"{self.module}.{self.name}"


@cache
def functions() -> dict[str, Function]:
    found = {}
    for path in sorted((ROOT / "portal").rglob("*.py")):
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        tree = ast.parse(path.read_text())
        names = _imports(tree)
        for node in tree.body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                found[f"{module}.{node.name}"] = _function(module, node.name, node, names)
            elif isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:  # a table of functions
                target = node.targets[0] if isinstance(node, ast.Assign) else node.target
                if isinstance(target, ast.Name):
                    found[f"{module}.{target.id}"] = _function(module, target.id, node.value, names)
    return found


def services() -> set[str]:
    """Public functions that write rows, themselves or by private ones of their own module."""
    return {
        path for path, one in functions().items()
        if not one.name.startswith("_") and not NO_SERVICES & set(path.split(".")) and _changes(path, set())
    }  # fmt: skip


def actions_of(path: str) -> set[str]:
    """Every action that can be recorded while this function runs, whoever of the portal records it."""
    return {action for each in _reached(path, set()) for action in functions()[each].actions}


def _changes(path: str, seen: set[str]) -> bool:
    one = functions().get(path)
    if one is None or path in seen:
        return False
    seen.add(path)
    own = {call for call in one.calls if call.startswith(f"{one.module}._")}
    return one.writes or any(_changes(call, seen) for call in own)


def _reached(path: str, seen: set[str]) -> set[str]:
    if path in functions() and path not in seen:
        seen.add(path)
        for call in functions()[path].calls:
            _reached(call, seen)
    return seen


def _imports(tree: ast.Module) -> dict[str, str]:
    """Names that the module knows: its own functions, what it imports, and modules it imports by name."""
    names = {}
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("portal"):
            names |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
    return names


def _function(module: str, name: str, node: ast.AST, names: dict[str, str]) -> Function:
    one = Function(module, name)
    one.writes = any("transaction.atomic" in ast.unparse(each) for each in getattr(node, "decorator_list", []))
    for part in ast.walk(node):
        if isinstance(part, ast.Name):  # called, or handed on to be called
            one.calls.add(names.get(part.id, f"{module}.{part.id}"))
        elif isinstance(part, ast.Attribute) and isinstance(part.value, ast.Name) and part.value.id in names:
            one.calls.add(f"{names[part.value.id]}.{part.attr}")
        if isinstance(part, ast.Call):
            one.writes = one.writes or ast.unparse(part.func) == "transaction.atomic"
            one.actions |= set(_actions(part))
            one.writes = one.writes or _writes(part)
    return one


def _actions(call: ast.Call) -> Iterator[str]:
    """Texts like ``pool.created`` that are handed on; facts for sockets look the same and are left out."""
    if ast.unparse(call.func).split(".")[-1].startswith(SENDERS):
        return
    for value in [*call.args, *(keyword.value for keyword in call.keywords)]:
        for part in [value.body, value.orelse] if isinstance(value, ast.IfExp) else [value]:
            text = part.value if isinstance(part, ast.Constant) else _pattern(part)
            if isinstance(text, str) and ACTION.fullmatch(text):
                yield text


def _pattern(part: ast.expr) -> str:
    """What is put together when it runs, with a star for each piece: ``reservation.approval_*``."""
    pieces = part.values if isinstance(part, ast.JoinedStr) else []
    return "".join(str(piece.value) if isinstance(piece, ast.Constant) else "*" for piece in pieces)


def _writes(call: ast.Call) -> bool:
    """Of ``update`` only what takes names, of ``delete`` what takes nothing: dictionaries and hashes do otherwise."""
    if not isinstance(call.func, ast.Attribute):
        return False
    verb = call.func.attr
    if verb == "update":
        return bool(call.keywords) and not call.args
    if verb == "delete":
        return not call.args
    return verb in WRITES or (verb == "create" and ".objects" in ast.unparse(call.func.value))
