"""Who of the demo holds what now and in the days ahead. Imports no Django."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Wish:
    """``weight`` picks the profile, whose name differs between models; ``after_hours`` 0 starts now."""

    person: str
    tenant: str
    pool: str
    weight: int
    workload: str
    after_hours: float
    hours: float
    ranks: int = 1


WISHES = (
    Wish("rosa", "segmentation", "H100 MIG", 2, "Training run", 0, 6),
    Wish("emil", "nlp-team", "H100 MIG", 3, "Load in waves", 0, 8),
    Wish("jonas", "bio-imaging", "A100 MIG", 2, "Idle notebook", 0, 7),
    Wish("petra", "teaching", "A100 MIG", 1, "Memory ladder", 0, 5),
    Wish("tomas", "segmentation", "H100 MIG", 1, "Training run", 3, 4),
    Wish("mei", "robotics", "H100 MIG", 2, "Training run", 4, 10),
    Wish("noor", "nlp-team", "H100 MIG", 4, "Training run", 9, 12),
    Wish("lin", "vision-lab", "H100 MIG", 3, "Load in waves", 20, 6),
    Wish("rosa", "segmentation", "H100 whole", 7, "Training run", 5, 9),
    Wish("emil", "nlp-team", "H100 whole", 7, "Training run", 26, 20),
    Wish("mei", "robotics", "L40S", 7, "Load in waves", 6, 8),
    Wish("ines", "bio-imaging", "L40S", 7, "Training run", 30, 12),
    Wish("ines", "bio-imaging", "A100 MIG", 3, "Training run", 2.5, 10),
    Wish("petra", "teaching", "A100 MIG", 1, "Idle notebook", 24, 3, 2),
    Wish("lin", "vision-lab", "A100 MIG", 4, "Training run", 16, 9),
    Wish("noor", "nlp-team", "A100 MIG", 3, "Load in waves", 28, 14),
    Wish("tomas", "segmentation", "H100 MIG", 7, "Training run", 44, 18),
    Wish("jonas", "bio-imaging", "A100 MIG", 2, "Training run", 50, 12),
    Wish("emil", "nlp-team", "H100 MIG", 2, "Training run", 72, 24, 2),
)
