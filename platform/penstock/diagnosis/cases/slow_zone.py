"""A slow zone: its workers answer later than those of the other zones.

One slow worker raises the mean of its zone; so the zone's quickest worker must be slow as well.
"""

from statistics import fmean

from penstock.diagnosis.evidence import Case, Cost, Judgement, any_of, at_least, remedy
from penstock.diagnosis.snapshot import FEW, Snapshot, ZoneFigures
from penstock.domain.serving.slo import Indicator
from penstock.telemetry import names

TIMES = 2.0
"""Factor relative to other zones: less may be chance or distance."""
QUICKEST_TIMES = 1.5
OPEN_RATIO = 0.1
"""Part of the time for which a circuit is open."""
SEVERAL = 2

REMEDIES = (
    remedy("See how the zone's workers are, and what its breakers say.", Cost.NOTHING, "penstock status"),
    remedy(
        "Replace the zone's workers: the scheduler puts the new ones where there is room.",
        Cost.ROLLING,
        "penstock restart workers",
    ),
    remedy(
        "Run workers in the other zones instead, while its provider mends it.",
        Cost.CAPACITY,
        setting="PENSTOCK_POOLS_FILE",
    ),
)


def judge(snapshot: Snapshot) -> Judgement:
    zones = [one for one in snapshot.zones if one.streams >= FEW and one.ttft_mean_s is not None]
    slowest = max(zones, key=lambda one: one.ttft_mean_s or 0.0, default=None)
    return Judgement(
        case=Case.SLOW_ZONE,
        says="One zone answers later than the others.",
        subject=slowest.name if slowest else "",
        harms=(Indicator.TTFT, Indicator.AVAILABILITY),
        evidence=(
            at_least(
                "the workers are in several zones",
                names.WORKER_INFO.name,
                float(len({one.zone for one in snapshot.workers})) if snapshot.workers else None,
                SEVERAL,
            ),
            any_of(
                at_least(
                    "its first tokens come later than the other zones', times",
                    names.ZONE_TTFT_SECONDS.name,
                    _times(zones, slowest),
                    TIMES,
                ),
                at_least(
                    "gateways leave a zone alone",
                    f'{names.BREAKERS_OPEN.name}{{level="zone"}}',
                    snapshot.faults.zones_open,
                    OPEN_RATIO,
                ),
            ),
            at_least(
                "its quickest worker is slow, too, times",
                names.GATE_SECONDS.name,
                _quickest_times(snapshot, slowest.name if slowest else ""),
                QUICKEST_TIMES,
                needed=False,
            ),
        ),
        remedies=REMEDIES,
    )


def _times(zones: list[ZoneFigures], slowest: ZoneFigures | None) -> float | None:
    others = [one for one in zones if one is not slowest]
    streams = sum(one.streams for one in others)
    waited = sum((one.ttft_mean_s or 0.0) * one.streams for one in others)
    if slowest is None or slowest.ttft_mean_s is None or not streams or not waited:
        return None
    return slowest.ttft_mean_s / (waited / streams)


def _quickest_times(snapshot: Snapshot, zone: str) -> float | None:
    """Prefill time relative to other zones' mean. None for a zone with one worker, or with workers as quick as others:
    the network may still be slow.
    """
    here = [one.prefill_mean_s for one in snapshot.workers if one.zone == zone and one.prefill_mean_s is not None]
    there = [one.prefill_mean_s for one in snapshot.workers if one.zone != zone and one.prefill_mean_s is not None]
    if len(here) < SEVERAL or not there or max(here) < QUICKEST_TIMES * fmean(there):
        return None
    return min(here) / fmean(there)
