"""What the API says about the asker and their tenants."""

from rest_framework import serializers

from portal.tenants.models import Role


class TenantShape(serializers.Serializer):
    """``role`` is the asker's strongest there, own or inherited."""

    id = serializers.IntegerField(source="pk", read_only=True)
    name = serializers.CharField(read_only=True)
    code = serializers.CharField(read_only=True)
    hue = serializers.IntegerField(read_only=True)
    # Fields are taken off the class, so this is not what the library calls the parent of a field.
    parent = serializers.IntegerField(source="parent_id", read_only=True, allow_null=True)  # type: ignore[assignment]
    depth = serializers.IntegerField(read_only=True)
    time_zone = serializers.CharField(read_only=True)
    closed_at = serializers.DateTimeField(read_only=True, allow_null=True)
    role = serializers.SerializerMethodField()

    def get_role(self, tenant) -> Role | None:
        return self.context["roles"].get(tenant.pk)


class MeShape(serializers.Serializer):
    id = serializers.IntegerField(source="pk", read_only=True)
    email = serializers.EmailField(read_only=True)
    name = serializers.CharField(read_only=True)
    language = serializers.CharField(read_only=True)
    time_zone = serializers.CharField(read_only=True)
    platform_admin = serializers.SerializerMethodField()

    def get_platform_admin(self, user) -> bool:
        return self.context["platform_admin"]
