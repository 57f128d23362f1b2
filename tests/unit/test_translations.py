"""Traditional Chinese is complete, true to the source and compiled. Needs no GNU gettext."""

import ast
import re
from collections.abc import Iterator

import pytest
from babel.messages.catalog import Catalog
from babel.messages.catalog import Message as Entry
from babel.messages.mofile import read_mo
from django.utils import translation
from django.utils.translation import gettext, ngettext, pgettext

from tests.messages import (
    CATALOGUES,
    ROOT,
    extract,
    messages_in_python,
    messages_in_template,
    read,
    renewed,
    sources,
    untranslated,
)

PLACEHOLDER = re.compile(r"%\(\w+\)[sd]|\{\w+\}|%%|<[^<>]+>")
HAN = r"[\u3400-\u4dbf\u4e00-\u9fff]"
# What stands for a Latin word, a digit or a name where a Chinese sentence is read.
LATIN = r"(?:[A-Za-z0-9]|%\(\w+\)[sd]|\{\w+\})"
NO_SPACE = re.compile(f"{HAN}{LATIN}|{LATIN}{HAN}")
NEEDLESS_SPACE = re.compile(f"{HAN} {HAN}|[，。：；（）「」、] | [，。：；（）「」、]")
HALF_WIDTH = re.compile(f"{HAN}[,;:!?()]|[,;:!?()]{HAN}|{HAN}\\.(?!\\w)")
# Without a word in Chinese: names, what is typed, and forms where a sign says enough.
SAME = {
    "CPU", "English", "Rank %(rank)s", "python train.py --epochs 20", "D j M", "D j M Y",
    "of %(nodes)s", "of %(limit)s", "of %(running)s", "%(held)s of %(limit)s", "%(left)s of %(amount)s",
    "%(observed)s of %(generation)s", "%(node)s GPU %(index)d, %(slices)s", "%(node)s GPU %(gpu)s, %(slices)s",
    "%(node)s, GPU %(gpu)s, %(slices)s", "API", "%(given)s of %(promise)s",
}  # fmt: skip
WORD = re.compile(r"[A-Za-z]{2,}")
# A number stands before the unit here, not an amount with its unit.
BARE = {"%(hours)s 切片小時"}
# How values end that are not plain words or numbers: lengths and amounts with their unit, days with their weekday.
VALUES = {
    "role": "員", "why": "。", "span": "1 天", "length": "1 天", "back": "1 切片小時", "hours": "1 切片小時",
    "day": "1/1（一）", "date": "1/1（一）", "until": "1/1（一）", "first": "1/1（一）",
}  # fmt: skip


@pytest.fixture(scope="module")
def template() -> Catalog:
    return extract()


@pytest.fixture(scope="module")
def chinese() -> Catalog:
    return read(CATALOGUES["zh_Hant"], "zh_Hant")


def _texts(entry: Entry) -> list[tuple[str, str]]:
    """Source and translation; of a plural its general form, which is the only one that Chinese has."""
    if isinstance(entry.id, tuple):
        return [(entry.id[1], text) for text in entry.string]
    return [(entry.id, entry.string)]


def _texts_of(told: str | tuple[str, ...] | list[str]) -> tuple[str, ...]:
    return (told,) if isinstance(told, str) else tuple(told)


def _pairs(catalogue: Catalog) -> list[tuple[str, str]]:
    return [pair for entry in catalogue if entry.id for pair in _texts(entry)]


def _names(catalogue: Catalog) -> set[tuple]:
    return {(entry.context, entry.id) for entry in catalogue if entry.id}


def test_the_extraction_knows_every_way_to_say_a_text():
    python = (
        "from django.utils.translation import gettext as _, gettext_lazy as later, npgettext\n"
        "_('Book'); later('Later'); npgettext('size', 'one', '%(n)d', 2); other('Not this')\n"
    )
    assert [(one.texts, one.context) for one in messages_in_python(python)] == [
        (("Book",), None), (("Later",), None), (("one", "%(n)d"), "size"),
    ]  # fmt: skip
    html = (
        '{% load i18n %}{% trans "It\'s" context \'a\' %}{% trans "Kept" as kept %}'
        "{% blocktrans count n=n with a=b %}One (1) {{ a }}{% plural %}{{ n }}, {{ a }}{% endblocktrans %}"
    )
    assert {(one.texts, one.context) for one in messages_in_template(html)} == {
        (("It's",), "a"), (("Kept",), None), (("One (1) %(a)s", "%(n)s, %(a)s"), None),
    }  # fmt: skip


SENTENCE = re.compile(r"[A-Z“%]\S* [^\n]*[.?!]")
# Agents and programs hear English: the socket of the nodes, the schema of the API, commands, the demo.
IN_ENGLISH = ("portal/live/agent_", "portal/api/", "portal/demo/", "/management/")


def _bare_sentences(source: str) -> Iterator[str]:
    """Sentences outside gettext, docstrings, the log and errors of the programmer."""
    tree = ast.parse(source)
    aside: set[int] = set()
    for node in ast.walk(tree):
        called = node.func if isinstance(node, ast.Call) else None
        name = getattr(called, "id", getattr(called, "attr", ""))
        logged = isinstance(called, ast.Attribute) and getattr(called.value, "id", "") == "log"
        if logged or name in {"ValueError", "RuntimeError"} or re.fullmatch(r"_|_?lazy|n?p?gettext(_\w+)?", name):
            aside |= {id(inner) for inner in ast.walk(node)}
        if isinstance(node, ast.Expr):
            aside.add(id(node.value))
    for node in ast.walk(tree):
        text = node.value if isinstance(node, ast.Constant) and id(node) not in aside else None
        if isinstance(text, str) and SENTENCE.fullmatch(text):
            yield text


def test_no_sentence_passes_gettext_by():
    assert list(_bare_sentences("raise Refused('The pool is full.')\nsay(_('It fits now.'))")) == ["The pool is full."]
    paths = [path.relative_to(ROOT).as_posix() for path in sources() if path.suffix == ".py"]
    bare = {
        path: found
        for path in paths
        if not any(part in path for part in IN_ENGLISH)
        if (found := list(_bare_sentences((ROOT / path).read_text())))
    }
    assert bare == {}


def test_the_catalogue_holds_exactly_the_texts_of_the_sources(template: Catalog, chinese: Catalog):
    assert len(template) > 500
    assert _names(template) - _names(chinese) == set(), "run: make messages"
    assert _names(chinese) - _names(template) == set(), "run: make messages"


def test_every_text_has_a_translation(template: Catalog, chinese: Catalog):
    assert untranslated(chinese) == []


def test_a_new_text_is_missed_and_an_unsure_translation_is_none(chinese: Catalog):
    wanted = Catalog()
    wanted.add("Home")
    wanted.add("A text that nobody has translated")
    assert untranslated(renewed(chinese, wanted)) == ["A text that nobody has translated"]
    unsure = Catalog(locale="zh_Hant")
    unsure.add("Home", "首頁", flags=["fuzzy"])
    assert untranslated(unsure) == ["Home"]


def test_every_translation_is_chinese(chinese: Catalog):
    english = [
        source
        for source, text in _pairs(chinese)
        if WORD.search(PLACEHOLDER.sub("", source)) and not re.search(HAN, text) and source not in SAME
    ]
    assert english == []


def test_placeholders_and_marks_are_those_of_the_source(chinese: Catalog):
    differ = {
        source: text
        for source, text in _pairs(chinese)
        if sorted(PLACEHOLDER.findall(source)) != sorted(PLACEHOLDER.findall(text))
    }
    assert differ == {}


def _filled(text: str) -> str:
    """As it is read: the values whose ends matter in place, marks away."""
    plain = re.sub(r"<[^<>]+>", "", text)
    return re.sub(r"%\((\w+)\)s", lambda found: VALUES.get(found[1], found[0]), plain)


def test_a_space_stands_between_han_and_latin_and_nowhere_else(chinese: Catalog):
    texts = [text for _source, text in _pairs(chinese) if text not in BARE]
    assert [text for text in texts if NO_SPACE.search(_filled(text)) or NEEDLESS_SPACE.search(_filled(text))] == []
    assert NO_SPACE.search("%(n)d個") and NO_SPACE.search("張GPU") and not NO_SPACE.search("3 張 GPU")
    assert NEEDLESS_SPACE.search(_filled("%(span)s 前")) and NEEDLESS_SPACE.search(_filled("%(day)s 起"))


def test_punctuation_is_full_width(chinese: Catalog):
    seen = [(text, PLACEHOLDER.sub("x", text)) for _source, text in _pairs(chinese)]
    assert [text for text, plain in seen if HALF_WIDTH.search(plain)] == []
    assert HALF_WIDTH.search("預約, 再") and HALF_WIDTH.search("完成.")


def test_what_is_compiled_is_what_is_written(chinese: Catalog):
    with CATALOGUES["zh_Hant"].with_suffix(".mo").open("rb") as file:
        compiled = read_mo(file)

    def told(catalogue: Catalog) -> dict:
        return {(entry.context, *_texts_of(entry.id)): _texts_of(entry.string) for entry in catalogue if entry.id}

    assert told(compiled) == told(chinese)


def test_django_speaks_both_languages():
    with translation.override("zh-hant"):
        assert gettext("Home") == "首頁"
        assert pgettext("of a person", "Profile") == "個人資料" != gettext("Profile")
        assert ngettext("%(n)d day", "%(n)d days", 1) % {"n": 1} == "1 天"
        assert ngettext("%(n)d day", "%(n)d days", 2) % {"n": 2} == "2 天"
    with translation.override("en"):
        assert gettext("Home") == "Home"
        assert [ngettext("%(n)d day", "%(n)d days", n) % {"n": n} for n in (1, 2)] == ["1 day", "2 days"]
