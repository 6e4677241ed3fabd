#!/usr/bin/env python3
"""The JSON of every command beside that of the last release: schemas_test.py [--update] PROGRAM SOURCE.

tests/docs/schemas.json holds, by schema ("trireme.estimate/1"), every key with the kind of its value. A key that is gone or is of
another kind breaks who reads it: the schema's number must then rise, and a changed file be a new entry. Keys may be added.
tests/docs/last_release holds files that the last release wrote (plans, profiles, topologies, models, checkpoints): each is read.
--update writes the keys of today, for a release.
"""

import json
import os
import subprocess
import sys
import tempfile

JOB = "--model gpt2 --cluster dgx-h100x1 --seq 1024 --global-batch 64"
COMMANDS = [
    f"estimate {JOB} --layout tp2.dp4.mb1 --json", f"plan {JOB} --top 3 --json", f"simulate {JOB} --layout tp2.pp2.dp2.mb1 --json",
    f"whatif {JOB} --layout dp8.mb1 --keep-layout --vary nvlink_bandwidth=0.5x --json",
    f"whatif {JOB} --scaling 4,8 --break-even memory --faster 5% --price 2 --json", f"explain {JOB} --json",
    "budget --model gpt2 --global-batch 512 --seq 1024 --tokens 10B --offer dgx-h100x1=2.50 --json", "models --json",
    "models --model gpt2 --json", "clusters --json", "frameworks --json", "doctor --json", "topo show --cluster dgx-h100x2 --json",
    "topo collective --cluster dgx-h100x1 --gpus 8 --op all_reduce --bytes 1MiB --json", "check train_llama3_8b.sh --cluster dgx-h100x2 --json",
    "validate --rows rows.json --json", "topo lint nvidia-smi.txt --gpu A100 --json",
    "calibrate --from-run train.log --model llama-3.1-8b --cluster dgx-h100x1 --framework fsdp2 --sharding full --seq 8192 --global-batch 8 -o p.json --json",
]
# Files of the last release, and what reads each.
FILES = [
    "estimate plan.json --json", f"estimate {JOB} --calibration profile.json --json",
    "estimate --model gpt2 --cluster topology.json --seq 1024 --global-batch 64 --json",
    "estimate --model model.json --cluster dgx-h100x1 --seq 64 --global-batch 64 --json",
    "run --model config.json --backend cpu --seq 8 --steps 1 --resume checkpoint --json",
    "compare result.json result.json --json",
]


def kind(value):
    if value is None or isinstance(value, bool):
        return "null" if value is None else "boolean"
    return "number" if isinstance(value, (int, float)) else "text"


def keys(value, path, found):
    """Every key's path with the kinds of its values; the entries of a list are one."""
    if isinstance(value, dict):
        for key, inner in value.items():
            keys(inner, f"{path}.{key}" if path else key, found)
    elif isinstance(value, list):
        for inner in value:
            keys(inner, path + "[]", found)
    else:
        found.setdefault(path, set()).add(kind(value))
    return found


# Objects whose keys are the user's own words, not the schema's.
OWN_WORDS = ("settings.", "change.", "elasticity.", "corrections.")


def is_fixed(path):
    return not any(word in path for word in OWN_WORDS)


def main():
    program, source = [os.path.abspath(word) for word in sys.argv[1:] if not word.startswith("--")]
    recorded = os.path.join(source, "tests/docs/schemas.json")
    faults, today = [], {}
    with tempfile.TemporaryDirectory() as folder:
        for place in ("tests/docs/files", "tests/docs/last_release"):
            subprocess.run(["cp", "-r", os.path.join(source, place) + "/.", folder], check=True)
        for command in COMMANDS + FILES:
            done = subprocess.run([program, *command.split()], cwd=folder, capture_output=True, text=True, check=False)
            if done.returncode not in (0, 1):
                faults.append(f"{command}: {done.stderr.strip()}")
                continue
            answer = json.loads(done.stdout)
            found = today.setdefault(answer["schema"], {})
            for path, kinds in keys(answer, "", {}).items():
                if is_fixed(path):
                    found.setdefault(path, set()).update(kinds)
    if "--update" in sys.argv:
        with open(recorded, "w", encoding="utf-8") as file:
            json.dump({name: {path: " or ".join(sorted(kinds)) for path, kinds in sorted(paths.items())}
                       for name, paths in sorted(today.items())}, file, indent=1)
            file.write("\n")
    with open(recorded, encoding="utf-8") as file:
        last = json.load(file)
    for name, paths in last.items():
        if name not in today:
            faults.append(f"{name}: no command answers with it")
            continue
        for path, kinds in paths.items():
            now = today[name].get(path)
            # What was null then may have keys of its own now.
            if now is None and not (kinds == "null" and any(key.startswith(path + ".") for key in today[name])):
                faults.append(f"{name}: {path} is gone")
            elif now is not None and not now - {"null"} <= set(kinds.split(" or ")) and kinds != "null":
                faults.append(f"{name}: {path} was {kinds}, is {' or '.join(sorted(now))}")
    for fault in faults:
        print(fault)
    print(f"{len(last)} schemas, {sum(len(paths) for paths in last.values())} keys, {len(FILES)} files of the last release, {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
