"""Pagination by cursor: stable while rows are added, at most 200 a page."""

from rest_framework.pagination import CursorPagination


class NewestFirst(CursorPagination):
    ordering = "-id"
    page_size_query_param = "limit"
    max_page_size = 200
