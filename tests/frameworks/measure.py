"""Times steps and reads the allocator inside the programs that the start test brings: train_accelerate.py,
train_deepspeed.py. Prints one JSON line for all ranks."""

import json
import os
import time

import torch
import torch.distributed as dist

STEPS = int(os.environ.get("TRIREME_STEPS", "8"))


def model_config():
    """The transformers configuration of the model to train, which start.py has written beside the launch file."""
    from transformers import AutoConfig

    with open(os.environ["TRIREME_MODEL"], encoding="utf-8") as file:
        fields = json.load(file)
    return AutoConfig.for_model(fields.pop("model_type"), **fields)


def random_tokens(config, batch, sequence):
    return torch.randint(config.vocab_size, (batch, sequence), device="cuda")


def forget_start():
    """Peaks of building the model and moving it are not those of training; tokens are the same on every rank, as the
    ranks of a tensor-parallel group need them."""
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    torch.manual_seed(1)


def is_first():
    return not dist.is_initialized() or dist.get_rank() == 0


def measure(step):
    """Runs `step` some times and prints the seconds of each and the largest memory of each rank."""
    seconds = []
    for _ in range(STEPS):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        loss = step()
        torch.cuda.synchronize()
        seconds.append(time.perf_counter() - begin)
    own = (torch.cuda.max_memory_allocated() / 2**30, torch.cuda.max_memory_reserved() / 2**30)
    profile(step)
    every = [own]
    if dist.is_initialized():  # one process of accelerate's has no group
        every = [None] * dist.get_world_size()
        dist.all_gather_object(every, own)
    if is_first():
        print(json.dumps({"schema": "trireme.start/1", "step_seconds": seconds, "loss": float(loss) if loss is not None else None,
                          "peak_allocated_gib": [each[0] for each in every],
                          "peak_reserved_gib": [each[1] for each in every]}), flush=True)


def profile(step):
    """Two more steps when TRIREME_TRACE names a file: one under PyTorch's profiler, and one whose allocations are kept
    beside the trace as snapshot.pickle."""
    path = os.environ.get("TRIREME_TRACE")
    if not path:
        return
    from torch.profiler import ProfilerActivity, profile as profiler

    with profiler(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as trace:
        step()
        torch.cuda.synchronize()
    torch.cuda.memory._record_memory_history(context="alloc", stacks="python", max_entries=1000000)
    step()
    torch.cuda.synchronize()
    if is_first():
        trace.export_chrome_trace(path)
        torch.cuda.memory._dump_snapshot(os.path.join(os.path.dirname(path), "snapshot.pickle"))
    torch.cuda.memory._record_memory_history(enabled=None)
