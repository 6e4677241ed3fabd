"""Which parallel layout to train a transformer with, how fast a step will be, whether it fits.

    import trireme
    best = trireme.plan(model="llama-3.1-70b", cluster="dgx-h100x8", global_batch=512, seq=8192).best
    print(best.layout.short, best.time.step_seconds)

Keyword arguments are the options of the program of the same name, with underscores for dashes: what
`trireme estimate --help` says of --micro-batch holds for micro_batch=. Results have the keys of the program's
JSON as attributes (units are in the names: _gib, _seconds, _tflops), and .to_dict().
"""

from ._core import Error, version
from .questions import (ask, calibrate, check, clusters, estimate, model, models, plan, simulate, sweep, whatif)
from .results import (Calibration, Check, Estimate, Layout, Memory, Plan, Result, Simulation, Sweep, Throughput, Time,
                      WhatIf)

__version__ = version()
__all__ = [
    "Calibration", "Check", "Error", "Estimate", "Layout", "Memory", "Plan", "Result", "Simulation", "Sweep",
    "Throughput", "Time", "WhatIf", "ask", "calibrate", "check", "clusters", "estimate", "model", "models", "plan",
    "simulate", "sweep", "version", "whatif"
]
