"""Whether an image can run on a node, before anything is started: CUDA against driver, code against GPU."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from scheduler.advisor.requirements import Machine, unmet
from scheduler.advisor.versions import (
    Version,
    Wheel,
    bundled_driver,
    capability_least,
    driver_told,
    family_driver,
    reaches,
    told,
    version,
    wheel,
)

COMPAT_PACKAGE = "NV_CUDA_COMPAT_PACKAGE"


class Verdict(StrEnum):
    OK = "ok"
    WARN = "warn"
    REFUSE = "refuse"


class Reason(StrEnum):
    FITS = "fits"
    LIMITED = "limited"
    DRIVER_TOO_OLD = "driver_too_old"
    REQUIREMENT = "requirement"
    NO_CODE = "no_code"
    CODE_IS_COMPILED_FIRST = "code_is_compiled_first"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Fitness:
    """``params``: the numbers of the reason, for its sentence. ``instead``: CUDA versions that would run here."""

    verdict: Verdict
    reason: Reason
    params: dict[str, str] = field(default_factory=dict)
    instead: tuple[str, ...] = ()


def image_fits_driver(
    environment: Mapping[str, str], machine: Machine, framework: str | None = None, release: str | None = None
) -> Fitness:
    """The most serious of: the image's own requirement, its CUDA against the driver, its framework's code for this GPU.

    ``environment`` is the image's. The framework is what the image's label or the person names; its CUDA is that of the
    default index, unless the image says which it has. Nothing known: ok, with the reason ``unknown``.
    """
    shipped = wheel(framework, release) if framework and release else None
    named = environment.get("CUDA_VERSION")
    cuda = version(named) if named else shipped.cuda if shipped else None
    found = [_requirement(environment, machine), _driver(environment, machine, cuda), _code(machine, cuda, shipped)]
    told_of = [one for one in found if one]
    if not told_of:
        return Fitness(Verdict.OK, Reason.UNKNOWN)
    worst = max(told_of, key=lambda one: list(Verdict).index(one.verdict))
    if worst.reason in (Reason.DRIVER_TOO_OLD, Reason.REQUIREMENT) and shipped:
        return Fitness(worst.verdict, worst.reason, worst.params, _others(shipped, machine))
    return worst


def nodes_that_bar(machines: Mapping[str, Machine], releases: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """For the fleet: node -> current frameworks whose default build its driver refuses."""
    wanted = list(releases)
    barred = {
        node: [
            f"{name} {release}"
            for name, release in wanted
            if image_fits_driver({}, machine, name, release).verdict is Verdict.REFUSE
        ]
        for node, machine in machines.items()
    }
    return {node: names for node, names in barred.items() if names}


def _requirement(environment: Mapping[str, str], machine: Machine) -> Fitness | None:
    """A requirement on CUDA within its major is a warning: the family runs, with limits. cuda-compat lifts it."""
    text = unmet(environment, machine)
    if text is None:
        return None
    if _brings_compat(environment, machine):
        return Fitness(Verdict.WARN, Reason.REQUIREMENT, {"requirement": text})
    cuda = environment.get("CUDA_VERSION")
    family = family_driver(version(cuda)[0]) if cuda else None
    mild = family is not None and reaches(machine.driver, family) and text.split()[0].startswith("cuda>=")
    return Fitness(Verdict.WARN if mild else Verdict.REFUSE, Reason.REQUIREMENT, {"requirement": text})


def _driver(environment: Mapping[str, str], machine: Machine, cuda: Version | None) -> Fitness | None:
    family = family_driver(cuda[0]) if cuda else None
    if cuda is None or family is None:
        return None
    params = {"cuda": told(cuda[:2]), "driver": driver_told(machine.driver), "needs": driver_told(family)}
    if not reaches(machine.driver, family):
        verdict = Verdict.WARN if _brings_compat(environment, machine) else Verdict.REFUSE
        return Fitness(verdict, Reason.DRIVER_TOO_OLD, params)
    bundled = bundled_driver(cuda)
    if bundled and not reaches(machine.driver, bundled):
        return Fitness(Verdict.WARN, Reason.LIMITED, params | {"needs": driver_told(bundled)})
    return Fitness(Verdict.OK, Reason.FITS, params)


def _code(machine: Machine, cuda: Version | None, shipped: Wheel | None) -> Fitness | None:
    """Native code runs on later minors of its major; a newer major needs code that the driver compiles at the start."""
    have = machine.capability
    least = (shipped.capability_least if shipped else None) or (capability_least(cuda) if cuda else None)
    params = {"capability": told(have), "needs": told(least) if least else ""}
    if least and not reaches(have, least):
        return Fitness(Verdict.REFUSE, Reason.NO_CODE, params)
    if shipped and shipped.native and not any(one[0] == have[0] and one <= have for one in shipped.native):
        params |= {"needs": told(max(shipped.native))}
        runs = shipped.portable is not None and shipped.portable <= have
        return Fitness(Verdict.WARN if runs else Verdict.REFUSE,
                       Reason.CODE_IS_COMPILED_FIRST if runs else Reason.NO_CODE, params)  # fmt: skip
    return None


def _brings_compat(environment: Mapping[str, str], machine: Machine) -> bool:
    """Forward compatibility is for GPUs of the data-centre class alone."""
    return machine.data_centre and bool(environment.get(COMPAT_PACKAGE))


def _others(shipped: Wheel, machine: Machine) -> tuple[str, ...]:
    """Other official builds of the release that this driver takes."""
    families = ((cuda, family_driver(version(cuda)[0])) for cuda in shipped.other_cuda)
    return tuple(cuda for cuda, family in families if family and reaches(machine.driver, family))
