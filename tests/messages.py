"""Renew the catalogues from the sources, as makemessages and compilemessages do, but without GNU gettext.

``python -m tests.messages`` adds what is new, drops what is gone, compiles, and names what has no translation yet.
"""

import ast
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from babel.messages.catalog import Catalog
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po, write_po
from django.utils.translation.template import templatize

ROOT = Path(__file__).resolve().parents[1]
CATALOGUES = {"zh_Hant": ROOT / "portal" / "locale" / "zh_Hant" / "LC_MESSAGES" / "django.po"}
# How many leading arguments each function takes for the context, and how many for the message.
FUNCTIONS = {"gettext": (0, 1), "ngettext": (0, 2), "pgettext": (1, 1), "npgettext": (1, 2)}
CALL = re.compile(r"\b(n?p?gettext)\(")
LITERAL = re.compile(r"""\s*u?('(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*")\s*,?""", re.DOTALL)


class Renewed(Catalog):
    """A catalogue whose head says what its readers need, and no date: the same texts are the same file."""

    @property  # type: ignore[misc]
    def mime_headers(self) -> list[tuple[str, str]]:
        return [
            ("Project-Id-Version", "Berth"),
            ("Language", str(self.locale)),
            ("MIME-Version", "1.0"),
            ("Content-Type", "text/plain; charset=UTF-8"),
            ("Content-Transfer-Encoding", "8bit"),
            ("Plural-Forms", self.plural_forms),
        ]


@dataclass(frozen=True)
class Message:
    """``texts`` is the message, or singular and plural."""

    texts: tuple[str, ...]
    context: str | None = None


def messages_in_python(source: str) -> Iterator[Message]:
    """Calls of gettext and its kin under whatever name the file imports them."""
    tree = ast.parse(source)
    names = {
        alias.asname or alias.name: re.sub(r"_(?:lazy|noop)$", "", alias.name)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module == "django.utils.translation"
        for alias in node.names
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and names.get(node.func.id) in FUNCTIONS:
            given = [arg.value for arg in node.args if isinstance(arg, ast.Constant) and isinstance(arg.value, str)]
            yield from _message(names[node.func.id], given)


def messages_in_template(source: str) -> Iterator[Message]:
    python = templatize(source)
    for call in CALL.finditer(python):
        given, at = [], call.end()
        while literal := LITERAL.match(python, at):
            given.append(ast.literal_eval(literal[1]))
            at = literal.end()
        yield from _message(call[1], given)


def _message(function: str, given: list[str]) -> Iterator[Message]:
    contexts, texts = FUNCTIONS[function]
    if len(given) >= contexts + texts:
        yield Message(tuple(given[contexts : contexts + texts]), given[0] if contexts else None)


def sources() -> list[Path]:
    modules = [path for folder in ("portal", "scheduler") for path in (ROOT / folder).rglob("*.py")]
    templates = [path for path in (ROOT / "templates").rglob("*") if path.suffix in {".html", ".txt"}]
    return sorted(path for path in [*modules, *templates] if "migrations" not in path.parts)


def extract() -> Catalog:
    """Every message of the sources, each with the files that use it."""
    catalogue = Catalog(charset="utf-8")
    for path in sources():
        messages_in = messages_in_python if path.suffix == ".py" else messages_in_template
        for message in messages_in(path.read_text()):
            name = message.texts[0] if len(message.texts) == 1 else message.texts
            catalogue.add(name, context=message.context, locations=[(path.relative_to(ROOT).as_posix(), 1)])
    return catalogue


def read(path: Path, locale: str) -> Catalog:
    with path.open("rb") as file:
        return read_po(file, locale=locale)


def renewed(old: Catalog, template: Catalog) -> Catalog:
    """The messages of the sources with the translations that are there; nothing is guessed from what is alike."""
    new = Renewed(locale=old.locale, header_comment="# The texts of Berth. Renewed by: make messages", fuzzy=False)
    for message in template:
        if message.id:
            known = old.get(message.id, message.context)
            translation = known.string if known and not known.fuzzy else None
            new.add(message.id, translation, message.locations, context=message.context)
    return new


def untranslated(catalogue: Catalog) -> list[str]:
    """The messages without a whole translation, in the words of the source."""
    return [
        str(message.id)
        for message in catalogue
        if message.id
        and (message.fuzzy or not all(message.string if isinstance(message.string, tuple) else [message.string]))
    ]


def write(catalogue: Catalog, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        write_po(file, catalogue, width=120, sort_by_file=True, include_lineno=False)
    with path.with_suffix(".mo").open("wb") as file:
        write_mo(file, catalogue)


def main() -> int:
    missing = 0
    template = extract()
    for locale, path in CATALOGUES.items():
        catalogue = renewed(read(path, locale), template)
        write(catalogue, path)
        lacking = untranslated(catalogue)
        missing += len(lacking)
        sys.stdout.write(f"{locale}: {len(catalogue)} texts, {len(lacking)} without translation\n")
        sys.stdout.writelines(f"  {text}\n" for text in lacking)
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
