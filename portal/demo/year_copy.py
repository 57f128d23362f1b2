"""Many rows into a table at once, by COPY: several times as fast as INSERT."""

import datetime as dt
import io
import json
from collections.abc import Sequence
from typing import Any

from django.db import connection
from django.db.models import JSONField, Model
from django.db.models.expressions import DatabaseDefault
from psycopg2.extras import Range

_ESCAPES = str.maketrans({"\\": r"\\", "\t": r"\t", "\n": r"\n", "\r": r"\r"})


def copy_rows(rows: Sequence[Model]) -> None:
    """Insert the rows, all of one model, and give them their ids in this order.

    Triggers and constraints judge them as ever. A field that fills itself in when saved must be filled in before; one
    that the database fills in is left to it.
    """
    if not rows:
        return
    meta = type(rows[0])._meta
    fields = [f for f in meta.concrete_fields if not isinstance(getattr(rows[0], f.attname), DatabaseDefault)]
    text = io.StringIO()
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT nextval(pg_get_serial_sequence(%s, 'id')) FROM generate_series(1, %s)", [meta.db_table, len(rows)]
        )
        for row, (pk,) in zip(rows, cursor.fetchall(), strict=True):
            row.pk = pk
            values = (_text(getattr(row, field.attname), isinstance(field, JSONField)) for field in fields)
            text.write("\t".join(values) + "\n")
        text.seek(0)
        columns = ", ".join(f'"{field.column}"' for field in fields)
        cursor.copy_expert(f'COPY "{meta.db_table}" ({columns}) FROM STDIN', text)


def _text(value: Any, is_json: bool) -> str:
    """As COPY's text format has it."""
    if value is None:
        return r"\N"
    if is_json:
        return json.dumps(value).translate(_ESCAPES)
    if isinstance(value, Range):
        return f"[{_text(value.lower, False)},{_text(value.upper, False)})"
    if isinstance(value, dt.datetime):
        return value.isoformat()
    return str(value).translate(_ESCAPES)
