"""What if there were more GPUs: the own history and a small trace, replayed on the fleet of the database."""

import datetime as dt
import io
import json

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone, translation

from portal.reservations.models import Reservation, State
from tests.factories import HOUR, make_org, make_pool_with_gpus, make_quota, make_reservation, window

pytestmark = pytest.mark.django_db
TRACE = """start,end,profile,ranks
0,7200,7g.80gb,2
3600,7200,3g.40gb,1
3600,9000,1g.10gb,1
10800,10800,1g.10gb,1
14400,18000,9g.90gb,1
"""
OPENB = """name,num_gpu,gpu_milli,creation_time,deletion_time
a,1,140,0,3600
b,1,430,0,3600
c,0,0,0,3600
d,2,1000,1800,3600
"""


@pytest.fixture
def pool():
    return make_pool_with_gpus("H100", gpus=2, nodes=2, name="vision")


def told(**options) -> list[list[str]]:
    """Lines of the table below its head, in cells."""
    out = io.StringIO()
    call_command("whatif", stdout=out, **options)
    lines = out.getvalue().splitlines()[1:-1]
    return [[cell.strip() for cell in line.split("  ") if cell.strip()] for line in lines]


def trace_in(folder, text: str | bytes):
    path = folder / "trace.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_a_trace_on_more_nodes_waits_less(pool, tmp_path):
    here, there = told(trace=trace_in(tmp_path, TRACE), nodes=1)
    model = pool.gpu_model.removeprefix("NVIDIA ")
    assert here[:7] == ["vision", f"2 nodes, 2 × {model}", "berth", "4", "75.0%", "0.7 h", "1.0 h"]
    assert there[:7] == ["vision", f"3 nodes, 3 × {model}", "berth", "4", "75.0%", "0.0 h", "0.0 h"]
    assert (here[8], there[8]) == ("2 capacity, 1 too large", "1 too large")


def test_programs_read_the_same_as_json_in_every_language(pool, tmp_path):
    out = io.StringIO()
    with translation.override("zh-hant"):
        call_command("whatif", "--json", nodes=1, trace=trace_in(tmp_path, TRACE), stdout=out)
    document = json.loads(out.getvalue())
    here, there = document["runs"]
    assert (document["days"], document["patience_seconds"], document["trace"][-9:]) == (None, 86400, "trace.csv")
    assert (here["pool"], here["nodes"], there["nodes"], here["model"]) == ("vision", 2, 3, pool.gpu_model)
    assert (here["asked"], here["begun"], here["accepted"]) == (4, 3, 0.75)
    assert here["wait_mean_seconds"] == pytest.approx(7200 / 3) and here["wait_p95_seconds"] == 3600
    assert here["bound_by"] == {"too_large": 1, "quota": 0, "capacity": 2, "layout": 0}
    assert 0 < there["allocated"] < here["allocated"] < 1


def test_the_openb_trace_is_read_as_it_is_and_whole_gpus_hold_less(pool, tmp_path):
    cut, whole = told(trace=trace_in(tmp_path, OPENB), policy="whole")
    assert cut[3:5] == ["3", "100.0%"] and whole[3:5] == ["3", "100.0%"]
    assert (cut[8], whole[8]) == ("1 capacity", "1 capacity")


def test_the_own_history_names_the_quota_that_binds_and_another_model_by_memory(pool):
    root, _team, project = make_org()
    make_quota(root, pool, limit=10)
    make_pool_with_gpus("A30", gpus=1, name="small")
    first, second = pool.gpus.all()
    start = timezone.now() - dt.timedelta(days=2)
    for gpu in (first, second):
        make_reservation(project, pool, "7g.80gb", window(start, 4), places=((gpu, 0),), state=State.ENDED)
    make_reservation(project, pool, "1g.10gb", window(start - 40 * 24 * HOUR), places=((first, 0),), state=State.ENDED)
    Reservation.objects.filter(state=State.ENDED).update(ended_at=start + HOUR)
    (row,) = told(pool="vision")
    assert row[3:7] == ["2", "100.0%", "0.5 h", "1.0 h"]
    assert row[8] == "1 quota"
    _as_it_is, on_a30 = told(pool="vision", model="NVIDIA A30")
    assert on_a30[3:5] == ["2", "0.0%"] and on_a30[8] == "2 too large"


def test_its_words_are_translated(pool):
    out = io.StringIO()
    with translation.override("zh-hant"):
        call_command("whatif", stdout=out)
    assert "資源池" in out.getvalue().splitlines()[0]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"pool": "nowhere"}, "no such pool"),
        ({"model": "Abacus"}, "No node has reported"),
        ({"nodes": -2}, "no more than 2 nodes"),
        ({"trace": "start,end\n1,2\n"}, "needs the columns"),
        ({"trace": "start,end,profile\nsoon,2,1g.10gb\n"}, "Line 2: “soon” is no start"),
        ({"trace": "start,end,profile\n1,2,1g.10gb\n,2,1g.10gb\n"}, "Line 3: start is missing"),
        ({"trace": "start,end,profile\n1,2,1g.10gb\n\n2,1,1g.10gb\n"}, "Line 4: it ends before it begins"),
        ({"trace": "start,end,profile,ranks\n1,2,1g.10gb,inf\n"}, "Line 2: “inf” is no ranks"),
        ({"trace": "start,end,profile,ranks\n1,2,1g.10gb,1.5\n"}, "Line 2: “1.5” is no ranks"),
        ({"trace": "start,end,share\n1,2,1.5\n"}, "Line 2: a share of a GPU is above 0 and at most 1, not 1.5"),
        ({"trace": "start,end,share\n1,2,nan\n"}, "Line 2: “nan” is no share"),
        ({"trace": "start,end,profile\n1,2,1g.10gb,4\n"}, "Line 2: it has more values than there are columns"),
        ({"trace": 'start,end,profile\n1,2,"1g.10gb\n'}, "Line 2: it is no CSV"),
        ({"trace": b"start,end,profile\n1,2,\xff\n"}, "trace.csv is not in UTF-8"),
        ({"trace": None}, "No such file"),
    ],
)
def test_what_cannot_be_replayed_is_said(pool, tmp_path, options, said):
    if "trace" in options:
        text = options["trace"]
        options = {"trace": trace_in(tmp_path, text) if text else tmp_path / "none.csv"}
    with pytest.raises(CommandError, match=said):
        call_command("whatif", stdout=io.StringIO(), **options)
