"""How many kernels a framework launches, by kind and pass, and how long its host takes: out of a trace of PyTorch's profiler.

trace_counts.py TRACE[.gz] [--layers N]
A pass is a run of launches from one thread (PyTorch's backward has a thread of its own); the last one is the optimizer's.
Numbers are of one pass, or of one layer of it with --layers (embedding, head and loss included). What --trace of start.py
leaves can be read, and any trace of one step.
"""

import argparse
import collections
import gzip
import json
import re

KINDS = (("collective", r"nccl"), ("matmul", r"gemm|cutlass|nvjet|splitk|xmma|cublas"),
         ("attention", r"flash|fmha|attention|sdpa|cudnn::fusion"), ("softmax", r"softmax"),
         ("norm", r"layer_?norm|rms_?norm|GammaBeta|CuApply|cuCompute"), ("optimizer", r"multi_tensor|adam"),
         ("fused", r"triton"), ("reduce", r"reduce|lpnorm"), ("concatenate", r"CatArray|chunk_cat"), ("copy", r"copy"),
         ("elementwise", r"elementwise"))
SMALLEST_PASS = 40  # launches; fewer lie between passes


def kind_of(name):
    return next((kind for kind, pattern in KINDS if re.search(pattern, name, re.IGNORECASE)), "other")


def read_events(path):
    opened = gzip.open if path.endswith(".gz") else open
    with opened(path, "rt", encoding="utf-8") as file:
        return [event for event in json.load(file)["traceEvents"] if event.get("ph") == "X"]


def launches_of(events):
    """(start, end, thread, kind) of each launch, in order; copies and fills of memory are launches too."""
    kernels = {event["args"].get("correlation"): event["name"] for event in events if event.get("cat") == "kernel"}
    launches = []
    for event in events:
        if event.get("cat") not in ("cuda_runtime", "cuda_driver"):
            continue
        kernel = kernels.get(event["args"].get("correlation"))
        memory = re.search(r"Mem(cpy|set)", event["name"])
        if kernel is not None or memory:
            kind = kind_of(kernel) if kernel is not None else "memory"
            launches.append((event["ts"], event["ts"] + event["dur"], event["tid"], kind))
    return sorted(launches)


def passes_of(launches):
    """Runs of launches from one thread."""
    passes = []
    for launch in launches:
        if not passes or passes[-1][-1][2] != launch[2]:
            passes.append([])
        passes[-1].append(launch)
    return [each for each in passes if len(each) >= SMALLEST_PASS]


def waited(events, begin, end):
    """Seconds in which the host waited for the GPU between two times."""
    return sum(event["dur"] for event in events if event.get("cat") == "cuda_runtime" and "Synchronize" in event["name"]
               and begin <= event["ts"] < end) * 1e-6


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trace")
    parser.add_argument("--layers", type=int, default=1)
    arguments = parser.parse_args()
    events = read_events(arguments.trace)
    for each in passes_of(launches_of(events)):
        begin, end = each[0][0], each[-1][1]
        wait = waited(events, begin, end)
        counts = collections.Counter(launch[3] for launch in each)
        kinds = ", ".join(f"{kind} {count / arguments.layers:.4g}" for kind, count in counts.most_common())
        print(f"thread {each[0][2]}: {len(each) / arguments.layers:.4g} launches ({kinds}); {(end - begin) / 1e3:.1f} ms of which "
              f"{1e3 * wait:.1f} wait for the GPU, {((end - begin) * 1e-6 - wait) / len(each) * 1e6:.0f} us a launch")


if __name__ == "__main__":
    main()
