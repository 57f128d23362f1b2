"""What the asker was told."""

from django.shortcuts import get_object_or_404
from drf_spectacular.utils import extend_schema
from rest_framework.response import Response
from rest_framework.views import APIView

from portal.accounts.requests import SignedInApiRequest
from portal.api.asking import NoticesAsked
from portal.api.pages import listed, page_of
from portal.api.shapes.notices import NoticeShape, notices_shown
from portal.api.shapes.reservations import RefusalShape
from portal.notices.selectors import notices_of
from portal.notices.services import mark_read


class NoticesView(APIView):
    @extend_schema(operation_id="notices", parameters=[NoticesAsked], responses=page_of(NoticeShape))
    def get(self, request: SignedInApiRequest) -> Response:
        """The asker's own, newest first. Listing them marks nothing as read."""
        asked = NoticesAsked(data=request.query_params)
        asked.is_valid(raise_exception=True)
        rows = notices_of(request.user.pk)
        if asked.validated_data["unread"]:
            rows = rows.filter(read_at__isnull=True)
        if "kind" in asked.validated_data:
            rows = rows.filter(kind=asked.validated_data["kind"])
        return listed(self, request, rows, lambda page: notices_shown(page, request.user))


class NoticeReadView(APIView):
    @extend_schema(operation_id="read_notice", request=None, responses={200: NoticeShape, 404: RefusalShape})
    def post(self, request: SignedInApiRequest, notice_id: int) -> Response:
        """Mark one as read; doing so again changes nothing."""
        rows = notices_of(request.user.pk)
        get_object_or_404(rows, pk=notice_id)
        mark_read(user_id=request.user.pk, notice_id=notice_id)
        return Response(notices_shown([rows.get(pk=notice_id)], request.user)[0])
