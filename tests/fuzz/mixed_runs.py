#!/usr/bin/env python3
"""Runs of the program as people mistype them: mixed_runs.py PROGRAM SOURCE [RUNS [SEED]].

Good command lines of every command, most of them then spoilt: values replaced by values of other kinds, words left out,
doubled, swapped or cut, options that do not exist, files with bytes flipped, cut out or repeated. Every run ends by
itself with 0, 1 or 2 in under a minute; one that ends with 2 says so in one line on stderr and prints nothing. The same
seed makes the same runs.
"""

import collections
import os
import random
import shlex
import shutil
import subprocess
import sys
import tempfile

JOB = "--model gpt2 --cluster dgx-h100x1 --seq 1024 --global-batch 64"
GOOD = f"""
estimate {JOB} --tp 2 --micro-batch 4
estimate {JOB} --layout fsdp8.mb2.zero2 --json
estimate {JOB} --framework megatron --pp 2 --recompute full --recompute-layers 2
estimate {JOB} --framework deepspeed --sharding full --set overlap_grad_reduce=true
estimate {JOB} --lora-rank 16 --base nf4-double --offload optimizer
estimate --model model.json --cluster dgx-h100x1 --global-batch 64
estimate --model gpt2 --cluster topology.json --global-batch 64
estimate plan.json
estimate plan.json --calibration profile.json
simulate {JOB} --tp 2 --pp 2 --micro-batch 4
simulate plan.json --timeline --straggler 1.2x@rank3
simulate {JOB} --layout dp8.mb8 --slow-link 0.5x@nvlink --json
plan {JOB} --constraint tp<=2 --top 3
plan {JOB} --objective memory --csv all.csv -q
plan {JOB} --framework torchtitan --against fsdp8.mb8 --report page.html
plan {JOB} --refine 2 --pp 2 -o out.json
explain {JOB} --tp 2
explain plan.json --formulas
whatif {JOB} --vary nvlink_bandwidth=0.5x,2x --keep-layout
whatif plan.json --vary seq=512,1024 --price 2.50
budget --model gpt2 --global-batch 64 --seq 1024 --tokens 10B --offer dgx-h100x1=2.50 --mtbf 6h
export plan.json --format megatron -o run.sh
export {JOB} --framework megatron --tp 2 -o run.sh
export --model llama-3.1-8b --cluster dgx-h100x1 --framework torchtitan --seq 8192 --sharding full -o run.toml
check script.sh --cluster dgx-h100x1
check llama.toml --cluster dgx-h100x2 --json
check ds.json --cluster dgx-h100x1 --model gpt2 --seq 1024 --global-batch 64
check fsdp.yaml --cluster dgx-h100x1 --model gpt2 --seq 1024 --global-batch 64
validate --rows rows.json
compare result.json trace.json
calibrate --from-run train.log --model llama-3.1-8b --cluster dgx-h100x1 --framework torchtitan --sharding full --seq 8192 --global-batch 8 -o fitted.json
topo show --cluster dgx-h100x2
topo show --cluster topology.json --json
topo collective --cluster dgx-h100x2 --bytes 64MiB
topo import printed_0.txt --gpu H100 -o made.json
topo lint nvidia-smi.txt --gpu A100
models --model model.json
models --json
clusters
frameworks torchtitan@0.2.2 --settings
manual --shell bash
doctor
--version
"""
VALUES = ["", "0", "-1", "1", "3", "7.5", "8", "1e9", "1e400", "99999999999999999999", "nan", "inf", "true", "none", "full", "x", "8k", "64",
          "gpt2", "dgx-h100x1", "dgx-h100x", "dgx-h100x0", "no-such-file.json", ".", "/", "/dev/null", "model.json", "plan.json", "tp2.dp4", "tp0",
          "tp2.tp2", "a=b", "=", "==", ",", ",,", "1,2,3", "0.5x", "-0.5x", "1.2x@rank3", "1.2x@rank99", "450 GB/s", "6h", "-6h", "a\nb", "é", "\t",
          "$(x)", "'", "\\", "%s%n", "A" * 5000, "tp<=8", "tp<>8", "megatron@2021", "megatron@", "@", "#", "{}", "[]", "{\"a\":1}", "--json", "-o"]
OPTIONS = ["--tp", "--pp", "--cp", "--ep", "--fsdp", "--dp", "--micro-batch", "--seq", "--global-batch", "--gpus", "--model", "--cluster",
           "--framework", "--set", "--precision", "--layout", "--vpp", "--schedule", "--recompute", "--sharding", "--stage-layers", "--threads",
           "--top", "--vary", "--price", "--calibration", "--json", "--no-such", "--lora-rank", "--offload", "--freeze-layers", "--lengths", "-x"]


def spoilt_file(data, random):
    data = bytearray(data)
    for _ in range(random.randint(1, 6)):
        at, length = random.randrange(len(data) + 1), random.randint(1, 40)
        kind = random.randrange(6)
        if kind == 0 and at < len(data):
            data[at] ^= 1 << random.randrange(8)
        elif kind == 1:
            del data[at:at + length]
        elif kind == 2:
            data[at:at] = data[at:at + length]
        elif kind == 3:
            data[at:at] = random.choice(VALUES).encode()
        elif kind == 4:
            del data[at:]
        else:
            other = random.randrange(len(data) + 1)
            data[at:at + length] = data[other:other + length]
    return bytes(data)


def spoilt_words(words, random):
    words = list(words)
    for _ in range(random.randint(1, 3)):
        at, kind = random.randrange(len(words)), random.randrange(7)
        if kind == 0:
            words[at] = random.choice(VALUES)
        elif kind == 1 and len(words) > 1:
            del words[at]
        elif kind == 2:
            words.insert(at, words[at])
        elif kind == 3:
            other = random.randrange(len(words))
            words[at], words[other] = words[other], words[at]
        elif kind == 4:
            words[at] = words[at][:random.randrange(len(words[at]) + 1)]
        elif kind == 5:
            words += [random.choice(OPTIONS), random.choice(VALUES)]
        else:
            words.append(random.choice(OPTIONS))
    return words


def collect_files(program, source, folder):
    """Everything that the good command lines name."""
    for place in ("tests/docs/files", "tests/fuzz/corpus"):
        for here, _, names in os.walk(os.path.join(source, place)):
            for name in names:
                shutil.copy(os.path.join(here, name), folder)
    named = {"model.json": "model/config_0.json", "topology.json": "topology/small.json", "profile.json": "profile/fitted.json",
             "plan.json": "plan/gpt2.json", "trace.json": "trace/result.json", "script.sh": "megatron/script.sh"}
    for name, place in named.items():
        shutil.copy(os.path.join(source, "tests/fuzz/corpus", place), os.path.join(folder, name))


def judged(done):
    """What is wrong with how a run ended, or None."""
    if done.returncode not in (0, 1, 2):
        return f"exit code {done.returncode}"
    if done.returncode == 2 and len(done.stderr.strip().splitlines()) != 1:
        return f"{len(done.stderr.strip().splitlines())} lines on stderr"
    if done.returncode == 2 and done.stdout:
        return "prints although it refuses"
    if any(word in done.stderr for word in ("Assertion", "terminate called", "check failed")):
        return "a fault of its own"
    return None


def main():
    program, source = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
    runs, seed = int((sys.argv[3:4] or ["500"])[0]), int((sys.argv[4:5] or ["1"])[0])
    numbers = random.Random(seed)
    good = [shlex.split(line) for line in GOOD.strip().splitlines()]
    codes, faults = collections.Counter(), 0
    with tempfile.TemporaryDirectory() as kept, tempfile.TemporaryDirectory() as folder:
        collect_files(program, source, kept)
        for run in range(runs):
            for name in os.listdir(folder):
                path = os.path.join(folder, name)
                shutil.rmtree(path) if os.path.isdir(path) else os.remove(path)
            words = good[numbers.randrange(len(good))]
            kind = numbers.choice(("good", "words", "words", "words", "file", "file", "both"))
            for name in sorted(set(words) & set(os.listdir(kept))):
                with open(os.path.join(kept, name), "rb") as file:
                    data = file.read()
                with open(os.path.join(folder, name), "wb") as file:
                    file.write(spoilt_file(data, numbers) if kind in ("file", "both") else data)
            if kind in ("words", "both"):
                words = spoilt_words(words, numbers)
            if "serve" in words or "tune" in words or "\0" in "".join(words):
                continue
            try:
                done = subprocess.run([program, *words], cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
                                      timeout=60, check=False)
                wrong = judged(done)
                codes[kind, done.returncode] += 1
            except subprocess.TimeoutExpired:
                wrong, done = "not done after a minute", None
            if wrong:
                faults += 1
                print(f"run {run} of seed {seed}: {wrong}: {shlex.join(words)}\n{(done.stderr if done else '')[:600]}", flush=True)
                for name in os.listdir(folder):
                    if kind in ("file", "both") and os.path.isfile(os.path.join(folder, name)):
                        shutil.copy(os.path.join(folder, name), os.path.join(tempfile.gettempdir(), f"mixed_{seed}_{run}_{name}"))
    for (kind, code), count in sorted(codes.items()):
        print(f"{kind}: exit {code}: {count}")
    print(f"{sum(codes.values())} runs, {faults} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
