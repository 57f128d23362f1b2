"""Templates: every text through gettext, nothing that the content security policy would refuse."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TEMPLATES = sorted(
    path.relative_to(ROOT) for path in (ROOT / "templates").rglob("*") if path.suffix in {".html", ".txt"}
)
PAGES = [path for path in TEMPLATES if path.suffix == ".html"]

HIDDEN = re.compile(
    r"\{#.*?#\}|<!--.*?-->|<script\b.*?</script>"
    r"|\{%-?\s*comment\b.*?endcomment\s*%\}"
    r"|\{%\s*blocktrans(late)?\b.*?\{%\s*endblocktrans(late)?\s*%\}",
    re.DOTALL,
)
CODE = re.compile(r"\{%.*?%\}|\{\{.*?\}\}", re.DOTALL)
TAG = re.compile(r"<[^<>]*>", re.DOTALL)
TYPED = re.compile(r"(<(code|kbd)\b[^<>]*>)[^<>]*(</\2>)")  # what a terminal or a key is told in no language
ENTITY = re.compile(r"&#?\w+;")
SPOKEN_ATTRIBUTE = re.compile(r"\b(?:title|alt|placeholder|aria-label|aria-description|data-label)\s*=\s*\"([^\"]*)\"")
WORD = re.compile(r"[A-Za-z]{2,}")
# Names and units that are the same in every language.
SAME_EVERYWHERE = re.compile(r"\b(Berth|GPU|GiB|MiB|GB|CSV|API|UTC|MIG|XID|kB|Bearer|curl|id)\b")


def _untranslated(text: str) -> list[str]:
    visible = HIDDEN.sub(" ", text)
    visible = TYPED.sub(r"\1\3", CODE.sub(" ", visible))
    spoken = [*SPOKEN_ATTRIBUTE.findall(visible), *ENTITY.sub(" ", TAG.sub("\n", visible)).splitlines()]
    return [part.strip() for part in spoken if WORD.search(SAME_EVERYWHERE.sub("", part))]


def _breaks(path: Path, pattern: str) -> list[str]:
    markup = re.sub(r"\{#.*?#\}", "", (ROOT / path).read_text())
    return re.findall(pattern, markup, re.IGNORECASE)


def test_the_search_for_texts_can_fail():
    assert _untranslated('<p title="Free now">{% trans "Book" %} a slice &amp; go</p>') == ["Free now", "a slice   go"]
    assert (
        _untranslated('<a href="/x">{% blocktrans with n=1 %}{{ n }} slices{% endblocktrans %} GPU {{ gpu.name }}</a>')
        == []
    )
    assert _untranslated('<code aria-label="Command">python -m agents run</code> <kbd>Esc</kbd>') == ["Command"]


@pytest.mark.parametrize("path", TEMPLATES, ids=str)
def test_every_text_goes_through_gettext(path: Path):
    assert _untranslated((ROOT / path).read_text()) == []


@pytest.mark.parametrize("path", PAGES, ids=str)
def test_no_template_needs_inline_style_or_script(path: Path):
    assert _breaks(path, r"\sstyle\s*=") == []
    assert _breaks(path, r"\son[a-z]+\s*=\s*\"") == []
    assert _breaks(path, r"<script(?![^>]*\bsrc=)(?![^>]*application/json)[^>]*>") == []
    assert _breaks(path, r"javascript:") == []


@pytest.mark.parametrize("path", PAGES, ids=str)
def test_no_template_asks_another_host(path: Path):
    assert _breaks(path, r"(?:src|href|action)\s*=\s*\"(?:https?:)?//") == []


@pytest.mark.parametrize("path", PAGES, ids=str)
def test_no_template_switches_escaping_off(path: Path):
    assert _breaks(path, r"\|\s*safe\b|autoescape\s+off") == []
