"""Who asks, and which tenants they may see."""

from drf_spectacular.utils import extend_schema
from rest_framework.response import Response
from rest_framework.views import APIView

from portal.accounts.models import User
from portal.accounts.requests import SignedInApiRequest
from portal.api.pages import listed, page_of
from portal.api.shapes.people import MeShape, TenantShape
from portal.tenants.models import ROLE_RANK, Membership, Role, Tenant
from portal.tenants.selectors import is_platform_admin, tenants_of


class MeView(APIView):
    @extend_schema(operation_id="me", responses=MeShape)
    def get(self, request: SignedInApiRequest) -> Response:
        """The person whose token or session this is."""
        return Response(MeShape(request.user, context={"platform_admin": is_platform_admin(request.user)}).data)


class TenantsView(APIView):
    @extend_schema(operation_id="tenants", responses=page_of(TenantShape))
    def get(self, request: SignedInApiRequest) -> Response:
        """Every tenant that the asker may see, the asker's role in each."""
        tenants = tenants_of(request.user)
        return listed(
            self,
            request,
            tenants,
            lambda page: TenantShape(page, many=True, context={"roles": roles_in(request.user, page)}).data,
        )


def roles_in(user: User, tenants: list[Tenant]) -> dict[int, Role]:
    """The strongest role in each, in one query."""
    held = list(Membership.objects.filter(user=user).values_list("tenant__path", "role"))
    found = {}
    for tenant in tenants:
        roles = [Role(role) for path, role in held if tenant.path.startswith(path)]
        if roles:
            found[tenant.pk] = max(roles, key=ROLE_RANK.__getitem__)
    return found
