"""Series: listed, read, booked, given back. What is not the asker's is 404, as if it did not exist."""

from django.db.models import Prefetch, QuerySet
from django.http import Http404
from django.shortcuts import get_object_or_404
from django.utils.translation import gettext as _
from drf_spectacular.utils import extend_schema
from rest_framework.exceptions import ValidationError
from rest_framework.response import Response
from rest_framework.views import APIView

from portal.accounts.requests import SignedInApiRequest
from portal.api.booking import key_of
from portal.api.pages import listed, page_of
from portal.api.series_asking import (
    HoursRequest,
    RestRequest,
    RosterRequest,
    SeriesListRequest,
    SeriesRequest,
    SkipRequest,
    asked_by,
)
from portal.api.shapes.reservations import RefusalShape
from portal.api.shapes.series import SeriesAnswerShape, SeriesShape, SeriesWholeShape
from portal.api.views.reservations import KEY, REFUSALS
from portal.reservations.models import Reservation, Series
from portal.reservations.series_booking import book_series
from portal.reservations.series_changing import cancel_series, remove_person, skip_occurrence
from portal.reservations.series_listing import may_change_series, mine_among, people_of, series_of
from portal.reservations.series_moving import add_person, change_series
from portal.reservations.series_preview import preview_series
from portal.tenants.selectors import tenants_of


class SeriesListView(APIView):
    @extend_schema(operation_id="series_list", parameters=[SeriesListRequest], responses=page_of(SeriesShape))
    def get(self, request: SignedInApiRequest) -> Response:
        """The series of all tenants that the asker may see, newest first."""
        said = SeriesListRequest(data=request.query_params)
        said.is_valid(raise_exception=True)
        rows = series_of(request.user).prefetch_related("roster")
        if "tenant" in said.validated_data:
            top = get_object_or_404(tenants_of(request.user), pk=said.validated_data["tenant"])
            rows = rows.filter(tenant__path__startswith=top.path)
        if said.validated_data["mine"]:
            rows = mine_among(rows, request.user)
        return listed(self, request, rows, lambda page: SeriesShape(page, many=True).data)

    @extend_schema(
        operation_id="book_series",
        parameters=[KEY],
        request=SeriesRequest,
        responses={200: SeriesAnswerShape, 201: SeriesAnswerShape, **REFUSALS},
    )
    def post(self, request: SignedInApiRequest) -> Response:
        """Book every occurrence that is not skipped, for everybody, or none. 200 instead of 201: a dry run, which books
        nothing, or a key that was used before for this same request."""
        said = SeriesRequest(data=request.data)
        said.is_valid(raise_exception=True)
        asked, skip = asked_by(request, said.validated_data), frozenset(said.validated_data["skip"])
        if said.validated_data["dry_run"]:
            return Response(SeriesAnswerShape({"series": None, "preview": preview_series(asked, skip=skip)}).data)
        series = book_series(asked, skip=skip, key=key_of(request))
        found = {"series": _whole(request).get(pk=series.pk), "preview": None}
        return Response(SeriesAnswerShape(found).data, status=200 if series.was_booked_before else 201)


class SeriesView(APIView):
    @extend_schema(operation_id="series", responses={200: SeriesWholeShape, 404: RefusalShape})
    def get(self, request: SignedInApiRequest, series_id: int) -> Response:
        return _shown(request, series_id)

    @extend_schema(operation_id="change_series", request=HoursRequest, responses={200: SeriesWholeShape, **REFUSALS})
    def patch(self, request: SignedInApiRequest, series_id: int) -> Response:
        """Other hours for every occurrence from a date on, all of them or none."""
        series = _changeable(request, series_id)
        said = HoursRequest(data=request.data)
        said.is_valid(raise_exception=True)
        change_series(series=series, actor=request.user, **said.validated_data)
        return _shown(request, series_id)

    @extend_schema(
        operation_id="cancel_series", parameters=[RestRequest], responses={200: SeriesWholeShape, **REFUSALS}
    )
    def delete(self, request: SignedInApiRequest, series_id: int) -> Response:
        """Cancel what has not begun, as one object: a series is never forgotten."""
        said = RestRequest(data=request.query_params)
        said.is_valid(raise_exception=True)
        cancel_series(series=_changeable(request, series_id), actor=request.user, **said.validated_data)
        return _shown(request, series_id)


class SeriesSkipView(APIView):
    @extend_schema(operation_id="skip_occurrence", request=SkipRequest, responses={200: SeriesWholeShape, **REFUSALS})
    def post(self, request: SignedInApiRequest, series_id: int) -> Response:
        """Give one occurrence back, for everybody, unless it has begun."""
        series = _changeable(request, series_id)
        said = SkipRequest(data=request.data)
        said.is_valid(raise_exception=True)
        skip_occurrence(series=series, date=said.validated_data["date"], actor=request.user)
        return _shown(request, series_id)


class RosterView(APIView):
    @extend_schema(operation_id="add_to_roster", request=RosterRequest, responses={200: SeriesWholeShape, **REFUSALS})
    def post(self, request: SignedInApiRequest, series_id: int) -> Response:
        """A place for one more person in everything ahead, or in nothing."""
        series = _changeable(request, series_id)
        said = RosterRequest(data=request.data)
        said.is_valid(raise_exception=True)
        typed = said.validated_data["email"].lower()
        person = next((one for one in people_of(series.tenant) if one.email.lower() == typed), None)
        if person is None:
            raise ValidationError({"email": [_("Nobody here has that address. Invite them first.")]})
        add_person(series=series, person=person, actor=request.user)
        return _shown(request, series_id)


class RosterPersonView(APIView):
    @extend_schema(operation_id="take_off_roster", request=None, responses={200: SeriesWholeShape, **REFUSALS})
    def delete(self, request: SignedInApiRequest, series_id: int, user_id: int) -> Response:
        """What this person has ahead in the series is given back."""
        series = _changeable(request, series_id)
        person = get_object_or_404(series.roster, pk=user_id)
        remove_person(series=series, person=person, actor=request.user)
        return _shown(request, series_id)


def _whole(request: SignedInApiRequest) -> QuerySet[Series]:
    parts = Reservation.objects.select_related("owner").order_by("occurrence", "pk")
    return series_of(request.user).prefetch_related("roster", Prefetch("reservations", queryset=parts))


def _shown(request: SignedInApiRequest, series_id: int) -> Response:
    return Response(SeriesWholeShape(get_object_or_404(_whole(request), pk=series_id)).data)


def _changeable(request: SignedInApiRequest, series_id: int) -> Series:
    series = get_object_or_404(series_of(request.user), pk=series_id)
    if not may_change_series(request.user, series):
        raise Http404
    return series
