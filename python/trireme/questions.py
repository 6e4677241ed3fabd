"""The program's commands as functions. None keeps anything; all may be called from any thread at once."""

import json
import os
from typing import Any, Dict, List, Optional, Sequence, Union

import numpy

from . import _core
from .results import (Calibration, Check, Cluster, Estimate, Model, Plan, Result, Simulation, Sweep, WhatIf)
from .words import words_of

# A preset's name, a file, the content of a file as a dict, or a configuration object of transformers.
Source = Union[str, "os.PathLike[str]", Dict[str, Any], Any]


def _answer(command: Sequence[str], options: Dict[str, Any], files: Sequence[Any] = ()) -> Dict[str, Any]:
    words = [os.fspath(one) for one in files if one is not None] + words_of(options)
    return json.loads(_core.ask(list(command), words)[0])


def ask(*command: str, **options: Any) -> Result:
    """Any command that has --json: ask("topo", "show", cluster="dgx-h100x2")."""
    return Result(_answer(command, options))


def models() -> List[Model]:
    """The model presets."""
    return [Model(one) for one in _answer(["models"], {})["models"]]


def model(model: Source) -> Model:
    """One model described."""
    return Model(_answer(["models"], {"model": model}))


def clusters() -> List[Cluster]:
    """The cluster presets, one node of each."""
    return [Cluster(one) for one in _answer(["clusters"], {})["clusters"]]


def estimate(model: Optional[Source] = None, cluster: Optional[Source] = None, *,
             plan_file: Optional["os.PathLike[str]"] = None, **options: Any) -> Estimate:
    """Memory (GiB) and step time (seconds) of one layout, in closed form.

    model, cluster: presets, files, or their content as a dict; model also a configuration of transformers.
    options: those of `trireme estimate`: gpus, seq (tokens), global_batch (sequences), precision, framework,
    set (a dict), tp, pp, dp, fsdp, sharding, micro_batch (sequences), recompute, layout, ...
    A layout that does not fit is an answer (.fits is False); wrong input raises trireme.Error.
    """
    return Estimate(_answer(["estimate"], dict(options, model=model, cluster=cluster), [plan_file]))


def simulate(model: Optional[Source] = None, cluster: Optional[Source] = None, *,
             plan_file: Optional["os.PathLike[str]"] = None, **options: Any) -> Simulation:
    """As estimate, through the discrete-event simulator: links shared, straggler="1.2x@rank3", slow_link=[...]."""
    return Simulation(_answer(["simulate"], dict(options, model=model, cluster=cluster), [plan_file]))


def plan(model: Source, cluster: Source, **options: Any) -> Plan:
    """The best layouts of a job. A layout option (tp=8) fixes its axis; constraint=["tp<=8"]; top, refine, objective,
    output (saves the best as a plan file)."""
    return Plan(_answer(["plan"], dict(options, model=model, cluster=cluster)))


def whatif(model: Optional[Source] = None, cluster: Optional[Source] = None, *,
           plan_file: Optional["os.PathLike[str]"] = None, **options: Any) -> WhatIf:
    """What would change if: vary={"nic_bandwidth": ["0.5x", "2x"], "seq": [4096, 8192]}, straggler, slow_link,
    keep_layout, simulate."""
    return WhatIf(_answer(["whatif"], dict(options, model=model, cluster=cluster), [plan_file]))


def check(file: "os.PathLike[str]", *, words: Sequence[str] = (), **options: Any) -> Check:
    """A launch file's broken rules, what to expect of it, and a better layout. options override the file."""
    return Check(_answer(["check"], options, [file, *words]))


def calibrate(output: "os.PathLike[str]", **options: Any) -> Calibration:
    """Fits a profile to measurements and writes it to `output`: fit=[files], from_points=, from_run=[files];
    without any of them this machine's GPUs are measured."""
    return Calibration(_answer(["calibrate"], dict(options, output=output)))


def sweep(model: Source, cluster: Source, *, constraint: Sequence[str] = (), threads: Optional[int] = None,
          **options: Any) -> Sweep:
    """Every legal layout of a job, estimated, as numpy columns; those that do not fit among them.

    A layout option (tp=8) fixes its axis, constraint=["tp<=8"] narrows one. threads: default all cores.
    """
    constraint = [constraint] if isinstance(constraint, str) else list(constraint)
    columns, seconds = _core.sweep(words_of(dict(options, model=model, cluster=cluster)), constraint, threads)
    return Sweep({name: numpy.frombuffer(held, entry) for name, (entry, held) in columns.items()}, seconds)
