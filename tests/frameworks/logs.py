"""What a started case's log says: step time, memory, or why it did not run."""

import json
import pathlib
import re
import statistics

COLOUR = re.compile(r"\x1b\[[0-9;]*m")
OUT_OF_MEMORY = re.compile(r"CUDA out of memory|torch\.OutOfMemoryError|CUDA error: out of memory")
TROUBLE = re.compile(r"^\s*(?:\[[^\]]*\]:?\s*)*((?:[A-Za-z_.]*(?:Error|Exception|Exit)\b|error:|usage:|pretrain_gpt.py: error)[^\n]*)", re.MULTILINE)
OTHERS = ("ChildFailedError", "torch.distributed.elastic", "SignalException", "DistNetworkError")


def number(text):
    return float(text.replace(",", ""))


def steady(seconds):
    """Median without the first fifth and the first two steps, which hold compilation, first allocations and states."""
    warm = max(2, len(seconds) // 5) if len(seconds) >= 4 else 0
    return statistics.median(seconds[warm:]) if seconds else None


def megatron(text, case):
    seconds = [number(found) / 1e3 for found in re.findall(r"elapsed time per iteration \(ms\): ([\d.,]+)", text)]
    if re.search(r"use_pytorch_profiler \.+ True", text):  # the last two steps are the traced one and the writing of its trace
        seconds = seconds[:-2]
    pattern = r"max allocated: ([\d.]+) \| reserved: [\d.]+ \| max reserved: ([\d.]+)"
    memory = [(float(a) / 1024, float(b) / 1024) for a, b in re.findall(pattern, text)]
    return seconds, [each[0] for each in memory], [each[1] for each in memory]


def own_line(text):
    found = [json.loads(line) for line in text.splitlines() if line.startswith('{"schema": "trireme.start/1"')]
    return found[-1] if found else {}


def torchtitan(text, case):
    estimate = case["predicted"]
    tokens = float(case["words"][case["words"].index("--global-batch") + 1]) * float(case["words"][case["words"].index("--seq") + 1])
    rates = {int(step): number(rate) for step, rate in re.findall(r"step:\s*(\d+) .*?tps: ([\d,]+)", text)}  # one rank's
    seconds = [tokens / (rate * estimate["cluster"]["gpus"]) for rate in rates.values()]
    own = own_line(text)
    return seconds, own.get("peak_allocated_gib", []), own.get("peak_reserved_gib", [])


def own_program(text, case):
    own = own_line(text)
    return own.get("step_seconds", []), own.get("peak_allocated_gib", []), own.get("peak_reserved_gib", [])


def end_in_log(text):
    """0 or 1 where the log shows the last step or an error that ends the job, else None."""
    if '{"schema": "trireme.start/1"' in text or "[after training is done]" in text:
        return 0
    return 1 if OUT_OF_MEMORY.search(text) else None


READERS = {"megatron": megatron, "torchtitan": torchtitan, "accelerate": own_program, "deepspeed": own_program}


def trouble_of(text):
    """The last line that names an error of the program, not of its launcher."""
    found = [line for line in TROUBLE.findall(text) if not any(other in line for other in OTHERS)]
    return found[-1].strip() if found else text.strip().splitlines()[-1][:200]


def outcome(folder: pathlib.Path):
    """One started case: its name, what was predicted, what was measured, and how it ended."""
    case = json.loads((folder / "case.json").read_text(encoding="utf-8"))
    ended = json.loads((folder / "ended.json").read_text(encoding="utf-8"))
    text = COLOUR.sub("", (folder / "log.txt").read_text(encoding="utf-8", errors="replace"))
    seconds, allocated, reserved = READERS[case["format"]](text, case)
    if OUT_OF_MEMORY.search(text):
        kind, detail = "oom", ""
    elif ended["code"] == 0 and seconds:
        kind, detail = "ok", ""
    elif ended["code"] is None:
        kind, detail = "timeout", f"{len(seconds)} steps in {ended['seconds']:.0f} s"
    else:
        kind, detail = "failed", trouble_of(text)
    return {"case": case, "outcome": kind, "detail": detail, "step_seconds": steady(seconds), "steps": seconds,
            "peak_allocated_gib": allocated, "peak_reserved_gib": reserved}
