"""What the functions return. Every key of the program's JSON is an attribute; those declared here are typed."""

import copy
import typing
from typing import Any, Dict, List, Optional

import numpy

from . import _core


class Result:
    """One JSON object: its keys are attributes. docs/json_keys.md says what each means."""

    def __init__(self, data: Dict[str, Any]) -> None:
        object.__setattr__(self, "_data", data)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        try:
            value = self._data[name]
        except KeyError:
            raise AttributeError(f"{type(self).__name__} has no {name}; there are {', '.join(self._data)}") from None
        return _wrapped(value, typing.get_type_hints(type(self)).get(name))

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"{type(self).__name__} is an answer; {name} cannot be changed")

    def __dir__(self) -> List[str]:
        return sorted(set(super().__dir__()) | set(self._data))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Result) and self._data == other._data

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._data!r})"

    def to_dict(self) -> Dict[str, Any]:
        """A copy of the whole answer as plain dicts, lists, numbers and strings."""
        return copy.deepcopy(self._data)


def _wrapped(value: Any, hint: Any) -> Any:
    arguments = typing.get_args(hint)
    if isinstance(value, list):
        return [_wrapped(one, arguments[0] if arguments else None) for one in value]
    if not isinstance(value, dict):
        return value
    kind = next((one for one in (hint, *arguments) if isinstance(one, type) and issubclass(one, Result)), None)
    if kind is None and typing.get_origin(hint) is dict:
        return dict(value)
    return (kind or Result)(value)


class Model(Result):
    """A model: counts of parameters, layers and widths."""
    name: str
    parameters: int
    active_parameters: int
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    vocab: int


class Cluster(Result):
    """One node of a cluster preset."""
    name: str
    gpu: str
    gpus_per_node: int
    peak_tflops: float  # 1e12 FLOP/s, dense, bf16 (fp16 where there is none)
    memory_gib: float
    memory_gbytes_per_second: float
    nvlink_gbytes_per_second: float
    nics: int
    nic_gbps: float  # 1e9 bit/s


class ModelSummary(Result):
    """What is trained: counts of parameters; experts count once in active ones."""
    name: str
    parameters: int
    active_parameters: int


class ClusterSummary(Result):
    """What it runs on."""
    name: str
    gpus: int
    gpu: str


class Layout(Result):
    """A layout: degrees of every axis; gpus = tp * pp * cp * fsdp * dp."""
    short: str  # "tp8.pp4.fsdp2.mb1"
    tp: int
    pp: int
    vpp: int
    dp: int
    fsdp: int
    cp: int
    ep: int
    etp: int
    sharding: str
    micro_batch: int  # sequences
    micro_batches: int
    recompute: str
    schedule: str
    sequence_parallel: bool


class Memory(Result):
    """Memory of the fullest GPU, in GiB (2**30 bytes)."""
    peak_allocated_gib: float  # torch.cuda.max_memory_allocated
    peak_reserved_gib: float  # torch.cuda.max_memory_reserved
    device_gib: float  # nvidia-smi
    capacity_gib: float
    peak_stage: int
    reserved_low_gib: float
    reserved_high_gib: float
    breakdown_gib: Dict[str, float]  # adds up to peak_allocated_gib
    phases_gib: Dict[str, float]


class Time(Result):
    """Time of one training step, in seconds; low to high is the 90 % interval."""
    step_seconds: float
    low_seconds: float
    high_seconds: float
    hidden_communication_seconds: float
    breakdown_seconds: Dict[str, float]  # exposed time; adds up to step_seconds


class Throughput(Result):
    """Rates of a step: tokens per second, 1e12 FLOP/s per GPU, shares of the peak."""
    tokens_per_second: float
    tokens_per_second_per_gpu: float
    model_tflops_per_gpu: float
    mfu: float  # 0 to 1, half the scores of causal attention, no recompute
    hfu: float
    mfu_full_attention: float
    peak_tflops: float


class Estimate(Result):
    """Memory and step time of one layout."""
    model: ModelSummary
    cluster: ClusterSummary
    layout: Layout
    sequence: int  # tokens
    global_batch: int  # sequences
    framework: str
    fits: bool
    fit: str  # fits, at_risk, no
    memory: Memory
    time: Time
    throughput: Throughput


class RankUse(Result):
    """How busy one rank is: a share, and seconds."""
    rank: int
    stage: int
    busy_fraction: float
    exposed_communication_seconds: float


class Simulation(Estimate):
    """An estimate whose time is the simulator's."""
    events: int
    simulation_seconds: float  # of this machine's time
    ranks: List[RankUse]


class Plan(Result):
    """The best layouts of a job; best is None when nothing fits."""
    best: Optional[Estimate]
    alternatives: List[Estimate]
    space: int  # legal layouts
    evaluated: int
    pruned_by_bound: int
    feasible: int
    search_seconds: float


class WhatIfCase(Result):
    """One case: what changed, its estimate (None: no layout) and its step over the base's."""
    change: Dict[str, str]
    estimate: Optional[Estimate]
    step_ratio: Optional[float]  # to the base
    notes: List[str]


class WhatIf(Result):
    """A base and the cases beside it."""
    base: Estimate
    cases: List[WhatIfCase]


class Violation(Result):
    """A broken rule of a launch file's framework, and what would be right."""
    rule: str
    severity: str  # error, warning
    detail: str
    fix: str


class Check(Result):
    """What a launch file breaks, what to expect of it, and a better layout where there is one."""
    violations: List[Violation]
    estimate: Optional[Estimate]
    better: Optional[Estimate]


class Calibration(Result):
    """A profile fitted to measurements."""
    profile: str  # the file that was written
    remarks: List[str]


class Sweep:
    """Every legal layout of a job, one an entry of each column (a numpy array).

    tp, pp, vpp, dp, fsdp, cp, ep, etp: ranks. micro_batch: sequences; micro_batches: a count.
    sharding, recompute, schedule, fit: indices into SHARDING, RECOMPUTE, SCHEDULE, FIT.
    step_seconds, low_seconds, high_seconds: seconds, the 90 % interval. peak_allocated_gib: GiB of the fullest GPU.
    """

    SHARDING = _core.SHARDING
    RECOMPUTE = _core.RECOMPUTE
    SCHEDULE = _core.SCHEDULE
    FIT = _core.FIT

    tp: numpy.ndarray
    pp: numpy.ndarray
    vpp: numpy.ndarray
    dp: numpy.ndarray
    fsdp: numpy.ndarray
    cp: numpy.ndarray
    ep: numpy.ndarray
    etp: numpy.ndarray
    micro_batch: numpy.ndarray
    micro_batches: numpy.ndarray
    sharding: numpy.ndarray
    recompute: numpy.ndarray
    schedule: numpy.ndarray
    fit: numpy.ndarray
    step_seconds: numpy.ndarray
    low_seconds: numpy.ndarray
    high_seconds: numpy.ndarray
    peak_allocated_gib: numpy.ndarray
    seconds: float  # of this machine's time

    def __init__(self, columns: Dict[str, numpy.ndarray], seconds: float) -> None:
        self.__dict__.update(columns)
        self.seconds = seconds
        self._names = list(columns)

    def __len__(self) -> int:
        return len(self.step_seconds)

    @property
    def fits(self) -> numpy.ndarray:
        """Which layouts fit, those at risk left out."""
        return self.fit == self.FIT.index("fits")

    def to_dict(self) -> Dict[str, numpy.ndarray]:
        """The columns by name: pandas.DataFrame(sweep.to_dict())."""
        return {name: getattr(self, name) for name in self._names}

    def __repr__(self) -> str:
        return f"Sweep({len(self)} layouts)"
