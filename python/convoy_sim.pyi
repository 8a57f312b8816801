"""convoy's simulator of platforms that share IPsec cryptography between a CPU and accelerators on a bus."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from os import PathLike
from typing import Any, Literal, TypedDict, final

class Percentiles(TypedDict):
    p50: float
    p90: float
    p99: float
    p999: float

class ProcessorReport(TypedDict):
    name: str
    packets: int
    multi_packets: int
    bytes: int
    utilisation: float

class Load(TypedDict):
    packets: int
    payload_bytes: int
    pps: float
    mbps: float

class StageReport(TypedDict):
    name: str
    packets: int
    utilisation: float
    service_us: float
    sojourn_us: float

class CoresReport(TypedDict):
    name: str
    count: int
    utilisation: float

class BusReport(TypedDict):
    name: str
    requests: int
    conflicts: int
    utilisation: float

# "class" is a keyword of Python, so this one cannot be written as a class.
ClassReport = TypedDict(
    "ClassReport", {"class": int, "packets": int, "latency_ms": float, "sojourn_ms": float}
)

class Report(TypedDict):
    packets: int
    share: list[float]
    average_length: list[float]
    average_length_scheduled: float
    packets_per_multipacket: float
    throughput_mbps: float
    latency_ms: float
    sojourn_ms: float
    bus_conflicts: float
    latency_percentiles_ms: Percentiles
    sojourn_percentiles_ms: Percentiles
    multi_packets: int
    bytes: int
    packets_out: int
    end_ms: float
    source_waited_ms: float
    offered: Load
    carried: Load
    dropped: Load
    success_ratio: float
    processors: list[ProcessorReport]
    buses: list[BusReport]
    stages: list[StageReport]
    cores: list[CoresReport]
    classes: list[ClassReport]

class Trial(TypedDict):
    offered: Load
    dropped_packets: int
    is_good: bool

class Ndr(TypedDict):
    throughput: Load
    line: Load
    trials: list[Trial]
    report: Report

class RateTrial(TypedDict):
    rate: float
    loss_ratio: float
    is_good: bool

class FoundRate(TypedDict):
    rate: float | None
    fails_at: float | None
    trials: list[RateTrial]

class ReadingVerdict(TypedDict):
    reading: str
    verdict: Literal["shown", "not shown", "undecided", "by construction"]
    measured: str

class ClaimVerdict(TypedDict):
    source: str
    claim: str
    verdict: Literal["shown", "not shown", "undecided", "by construction"]
    measured: str
    compared: str
    noise: str
    basis: str
    read_as: str
    range_shown: int
    range_undecided: int
    range_of: int
    range: str
    readings: list[ReadingVerdict]

class Figures(TypedDict):
    claims: list[ClaimVerdict]
    runs: tuple[int, int]
    packets: tuple[int, int]
    repetitions: tuple[int, int]
    noise: str
    chosen: str
    trace: str | None
    best: tuple[int, list[str]]
    seconds: float
    files: list[str]

# Rows of bytes, sa and optionally gap_us and class; or columns of these names.
Traffic = Iterable[Iterable[float]] | Mapping[str, Iterable[float]]

@final
class View:
    now_ps: int
    multi_packets: tuple[MultiPacket, ...]
    processors: tuple[Processor, ...]
    # By multi-packet, then by processor.
    offers: tuple[tuple[Offer | None, ...], ...]

@final
class MultiPacket:
    packets: int
    blocks: int
    bytes: int

@final
class Processor:
    wait_ps: int
    queued: int
    is_cpu: bool

@final
class Offer:
    processing_ps: int
    has_room: bool

# The indices of a multi-packet and of a processor, or None to wait.
Policy = Callable[[View], tuple[int, int] | None]

def figures(
    out: str | PathLike[str],
    *,
    trace: str | PathLike[str] | None = None,
    packets: int = 500_000,
    range_packets: int = 30_000,
    jobs: int | None = None,
) -> Figures: ...
def load_platform(path: str | PathLike[str]) -> dict[str, Any]: ...
def simulate(
    platform: str | PathLike[str] | dict[str, Any],
    *,
    pattern: str | None = None,
    trace: str | PathLike[str] | None = None,
    traffic: Traffic | None = None,
    packets: int | None = None,
    window: int | None = None,
    accelerators: int | None = None,
    init_ratio: float | None = None,
    enc_ratio: float | None = None,
    depth: int | None = None,
    t_init_us: float | None = None,
    policy: str | Policy | None = None,
    reach: int | None = None,
    full_queue: str | None = None,
    depth_unit: str | None = None,
    ageing: int | None = None,
    credits: int | None = None,
    pool: int | None = None,
    transfers: int | None = None,
    predicts_transfers: bool | None = None,
    prefetch: bool | None = None,
    write_buffer: bool | None = None,
    byte_limit: int | None = None,
    window_bytes: int | None = None,
    max_wait_us: float | None = None,
    aggregation: int | None = None,
    classes: int | None = None,
    weights: Sequence[int] | None = None,
    class_shares: Sequence[float] | None = None,
    class_credits: int | None = None,
    variant: str | None = None,
    rate_mbps: float | None = None,
    queue_packets: int | None = None,
    queue_bytes: int | None = None,
    sas: int | None = None,
    popularity: float | None = None,
    locality: float | None = None,
    seed: int = 1,
    arrivals: Literal["back-to-back", "paced", "poisson", "captured"] = "back-to-back",
    rate: float | None = None,
) -> Report: ...
def ndr(
    platform: str | PathLike[str] | dict[str, Any],
    *,
    loss_ratio: float = 0.0,
    resolution: float = 0.001,
    poisson: bool = False,
    pattern: str | None = None,
    trace: str | PathLike[str] | None = None,
    traffic: Traffic | None = None,
    packets: int | None = None,
    window: int | None = None,
    accelerators: int | None = None,
    init_ratio: float | None = None,
    enc_ratio: float | None = None,
    depth: int | None = None,
    t_init_us: float | None = None,
    policy: str | Policy | None = None,
    reach: int | None = None,
    full_queue: str | None = None,
    depth_unit: str | None = None,
    ageing: int | None = None,
    credits: int | None = None,
    pool: int | None = None,
    transfers: int | None = None,
    predicts_transfers: bool | None = None,
    prefetch: bool | None = None,
    write_buffer: bool | None = None,
    byte_limit: int | None = None,
    window_bytes: int | None = None,
    max_wait_us: float | None = None,
    aggregation: int | None = None,
    classes: int | None = None,
    weights: Sequence[int] | None = None,
    class_shares: Sequence[float] | None = None,
    class_credits: int | None = None,
    variant: str | None = None,
    rate_mbps: float | None = None,
    queue_packets: int | None = None,
    queue_bytes: int | None = None,
    sas: int | None = None,
    popularity: float | None = None,
    locality: float | None = None,
    seed: int = 1,
) -> Ndr: ...
def find_ndr(
    trial: Callable[[float], float],
    *,
    high: float,
    low: float = 0.0,
    loss_ratio: float = 0.0,
    resolution: float = 0.001,
) -> FoundRate: ...
