"""Pagination by cursor: stable while rows are added, at most 200 a page."""

from collections.abc import Callable
from typing import Any

from django.db.models import QuerySet
from drf_spectacular.utils import inline_serializer
from rest_framework import serializers
from rest_framework.pagination import CursorPagination
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView


class NewestFirst(CursorPagination):
    ordering = "-id"
    page_size_query_param = "limit"
    max_page_size = 200


def listed(view: APIView, request: Request, rows: QuerySet, show: Callable[[list], Any]) -> Response:
    """One page of ``rows`` as ``show`` writes them, with the addresses of the next and the previous."""
    pages = NewestFirst()
    page = pages.paginate_queryset(rows, request, view=view)
    return pages.get_paginated_response(show(page or []))


def page_of(shape: type[serializers.Serializer]) -> serializers.Serializer:
    """One page of this shape, for the schema."""
    return inline_serializer(
        name=f"PageOf{shape.__name__.removesuffix('Shape')}s",
        fields={
            "next": _address(),
            "previous": _address(),
            "results": shape(many=True),
        },
    )


def _address() -> serializers.URLField:
    return serializers.URLField(allow_null=True, help_text="address of that page")
