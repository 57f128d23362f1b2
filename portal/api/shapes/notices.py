"""What the API says of a notice: what it is about, its facts, and its words in the reader's language and zone."""

from rest_framework import serializers

from portal.notices.models import Kind
from portal.notices.wording import as_reader, words_of


class NoticeShape(serializers.Serializer):
    """``title`` and ``text`` are plain text; ``facts`` is what they are made of, times in UTC."""

    id = serializers.IntegerField(source="pk")
    kind = serializers.ChoiceField(choices=Kind.choices)
    title = serializers.CharField()
    text = serializers.CharField(allow_blank=True)
    reservation = serializers.IntegerField(source="reservation_id", allow_null=True)
    tenant = serializers.IntegerField(source="tenant_id", allow_null=True)
    url = serializers.CharField(help_text="path of the page that it is about")
    facts = serializers.DictField()
    created_at = serializers.DateTimeField()
    read_at = serializers.DateTimeField(allow_null=True)


def notices_shown(notices: list, reader) -> list[dict]:
    """As the person ``reader`` reads them."""
    with as_reader(reader):
        for notice in notices:
            words = words_of(notice)
            notice.title, notice.text = words.title, words.text
        return [dict(shown) for shown in NoticeShape(notices, many=True).data]
