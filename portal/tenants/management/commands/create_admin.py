"""The first platform admin, and any later one when nobody can sign in any more."""

import os
import sys
from getpass import getpass
from typing import Any

from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.core.validators import validate_email
from django.db import transaction

from portal.accounts.links import reset_link
from portal.accounts.models import User
from portal.accounts.services import change_password, create_person, enable
from portal.audit.services import record_change
from portal.tenants.models import Membership, Role, Tenant
from portal.tenants.selectors import root_tenant
from portal.tenants.services import plant_root


class Command(BaseCommand):
    help = (
        "Make a platform admin, and the organisation if there is none. The password is taken from "
        "BERTH_ADMIN_PASSWORD, from standard input with --password-stdin, or asked on a terminal; "
        "else a link to set it is printed."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--email", required=True)
        parser.add_argument("--name", required=True)
        parser.add_argument(
            "--organisation", default="Berth", help="name of the root tenant, used when there is none yet"
        )
        parser.add_argument("--password-stdin", action="store_true", help="read the password from standard input")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            validate_email(options["email"])
            password = self._password(from_stdin=options["password_stdin"])
            if password:
                validate_password(password, User(email=options["email"], name=options["name"]))
        except ValidationError as error:
            raise CommandError(" ".join(error.messages)) from error
        with transaction.atomic():
            root = root_tenant() or plant_root(name=options["organisation"])
            person = make_admin(options["email"], options["name"], password, root)
        self.stdout.write(f"{person.email} is admin of {root.name}.")
        if not password:
            self.stdout.write(f"Set the password here: {reset_link(person)}")

    def _password(self, *, from_stdin: bool) -> str:
        if from_stdin:
            return sys.stdin.readline().rstrip("\n")
        given = os.environ.get("BERTH_ADMIN_PASSWORD", "")
        return given or (getpass("Password (empty for a link): ") if sys.stdin.isatty() else "")


def make_admin(email: str, name: str, password: str, root: Tenant) -> User:
    person = User.objects.filter(email__iexact=email).first()
    if person is None:
        person = create_person(email=email, name=name, password=password or None)
    elif password:
        change_password(person=person, password=password, actor=person)
    enable(person=person, actor=person)
    held = Membership.objects.filter(user=person, tenant=root).first()
    before = {"role": str(held.role)} if held else {}
    Membership.objects.update_or_create(user=person, tenant=root, defaults={"role": Role.ADMIN})
    record_change(
        actor=person, action="member.role_set", subject=f"user {person.pk}", tenant_id=root.pk,
        before=before, after={"role": "admin"},
    )  # fmt: skip
    return person
