"""Predicts and runs the layouts of several models on this machine's GPUs: error and regret before and after calibration.

experiment.py measure TRIREME FOLDER [--gpus 2] [--models NAME,NAME] [--layouts FORM,FORM]
    trains every layout that fits for some steps; FOLDER/<model>.<layout>.json. What is there already is kept.
experiment.py report TRIREME FOLDER --profile PROFILE [--cluster hgx-h200x1] [--gpus 2]
    predicts each run without a profile, with PROFILE (made by `trireme calibrate`), and with PROFILE corrected by three
    runs, which are then left out of every figure; prints a table and writes FOLDER/report.json. Needs no GPU.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
MODELS = {  # name: (what --model takes, sequence, global batch)
    "llama-3.2-1b": ("llama-3.2-1b", 4096, 8),
    "gpt3-1.3b": ("gpt3-1.3b", 2048, 16),
    "llama-8b-12-layers": (str(HERE / "models" / "llama-8b-12-layers.json"), 4096, 4),
    "qwen2.5-1.5b": ("qwen2.5-1.5b", 4096, 4),
    "gpt3-350m": ("gpt3-350m", 1024, 8),  # for slow links
    "llama-3.2-1b-32k": ("llama-3.2-1b", 32768, 8),
    "experts-2b": (str(HERE / "models" / "experts-2b.json"), 4096, 8),
}
STEPS = 9


def layouts_of(gpus):
    """Every kind of layout of two GPUs; on more, the products of two kinds too."""
    half = gpus // 2
    forms = [f"tp{gpus}.mb1", f"tp{gpus}.mb4", f"tp{gpus}.mb2.rc-full", f"tp{gpus}.mb2.rc-selective", f"pp{gpus}.mb1",
             f"pp{gpus}.mb2", f"pp{gpus}.vpp2.mb1", f"fsdp{gpus}.mb1", f"fsdp{gpus}.mb2", f"fsdp{gpus}.mb2.rc-full",
             f"fsdp{gpus}.mb1.zero1", f"fsdp{gpus}.mb2.zero2", f"dp{gpus}.mb1", f"dp{gpus}.mb2"]
    if half > 1:
        forms += [f"tp{half}.fsdp2.mb2", f"tp2.fsdp{half}.mb1", f"tp{half}.pp2.mb1", f"pp2.fsdp{half}.mb1",
                  f"fsdp{half}.dp2.mb1", f"tp2.dp{half}.mb1"]
    return list(dict.fromkeys(forms))


def job_flags(name):
    model, sequence, batch = MODELS[name]
    return ["--model", model, "--seq", str(sequence), "--global-batch", str(batch)]


def estimate(arguments, name, layout, profile=None):
    """The estimate as JSON, or None when the layout is not legal for the model."""
    command = [arguments.trireme, "estimate", *job_flags(name), "--cluster", arguments.cluster, "--gpus", str(arguments.gpus),
               "--layout", layout, "--json"]
    if profile is not None:
        command += ["--calibration", str(profile)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return json.loads(done.stdout) if done.returncode in (0, 1) and done.stdout else None


def measure(arguments):
    failures = 0
    for name in arguments.models:
        for layout in arguments.layouts or layouts_of(arguments.gpus):
            result = arguments.folder / f"{name}.{layout}.json"
            predicted = estimate(arguments, name, layout)
            if result.exists() or predicted is None or not predicted["fits"]:
                continue
            command = [arguments.trireme, "run", "--backend", "cuda", *job_flags(name), "--layout", layout, "--steps", str(STEPS),
                       "--lr", "1e-5", "--timeout", "40", "--trace", str(arguments.traces / f"{name}.{layout}.trace.json"),
                       "-o", str(result), "-q"]
            try:
                done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
                trouble = done.stderr.strip().splitlines()[-1:] if done.returncode != 0 else None
            except subprocess.TimeoutExpired:
                trouble = "did not end in 120 s"
            if trouble is not None:
                failures += 1
                print(f"{name} {layout}: {trouble}", flush=True)
                continue
            run = json.loads(result.read_text(encoding="utf-8"))
            print(f"{name:20} {layout:20} {run['median_step_seconds']:8.4f} s  {max(run['peak_allocated_gib']):7.2f} GiB  "
                  f"losses {run['steps'][0]['loss']:.4f} to {run['steps'][-1]['loss']:.4f}", flush=True)
    return 1 if failures else 0


def measured_runs(arguments):
    runs = {}
    for name in arguments.models:
        for path in sorted(arguments.folder.glob(f"{name}.*.json")):
            run = json.loads(path.read_text(encoding="utf-8"))
            if run.get("schema") == "trireme.run/1":
                runs[name, path.name[len(name) + 1:-len(".json")]] = (path, run)
    return runs


def three_runs(arguments, runs):
    """What a user would run first: the best predicted layout of tensor, pipeline and fully sharded data parallelism
    each, of different models where there are several."""
    names = list(dict.fromkeys(name for name, _ in runs))
    chosen = []
    for index, kind in enumerate(("tp", "pp", "fsdp")):
        of_kind = [key for key in runs if key[1].startswith(kind) and "zero" not in key[1]]
        wanted = names[index % len(names)]
        own = [key for key in of_kind if key[0] == wanted] or of_kind
        own.sort(key=lambda key: estimate(arguments, *key, arguments.profile)["time"]["step_seconds"])
        chosen += own[:1]
    return chosen


def score(rows, state):
    errors = [abs(row[state] / row["measured"] - 1) for row in rows]
    inside = [row[state + "_low"] <= row["measured"] <= row[state + "_high"] for row in rows]
    width = statistics.median((row[state + "_high"] - row[state + "_low"]) / 2 / row[state] for row in rows)
    regrets = {}
    for name in dict.fromkeys(row["model"] for row in rows):
        own = [row for row in rows if row["model"] == name]
        chosen = min(own, key=lambda row: row[state])
        regrets[name] = chosen["measured"] / min(row["measured"] for row in own) - 1
    return {"mean": statistics.mean(errors), "worst": max(errors),
            "signed": statistics.mean(row[state] / row["measured"] - 1 for row in rows),
            "inside": sum(inside) / len(inside), "half_width": width, "regret": regrets}


def report(arguments):
    runs = measured_runs(arguments)
    chosen = three_runs(arguments, runs)
    corrected = arguments.folder / "corrected.profile"
    subprocess.run([arguments.trireme, "calibrate", "--from-run", *(str(runs[key][0]) for key in chosen), "--cluster",
                    arguments.cluster, "--gpus", str(arguments.gpus), "--calibration", str(arguments.profile), "-o",
                    str(corrected), "-q"], check=True, stdout=subprocess.DEVNULL)
    states = {"shipped": None, "microbench": arguments.profile, "three_runs": corrected}
    rows = []
    for (name, layout), (_, run) in runs.items():
        row = {"model": name, "layout": layout, "measured": run["median_step_seconds"],
               "measured_gib": max(run["peak_allocated_gib"]), "used_to_correct": (name, layout) in chosen}
        for state, profile in states.items():
            predicted = estimate(arguments, name, layout, profile)
            row[state] = predicted["time"]["step_seconds"]
            row[state + "_low"] = predicted["time"]["low_seconds"]
            row[state + "_high"] = predicted["time"]["high_seconds"]
            row["predicted_gib"] = predicted["memory"]["peak_allocated_gib"]
        rows.append(row)
    print(f"{'model':19} {'layout':19} measured s  shipped  micro-benchmarks  three runs   GiB  predicted")
    for row in rows:
        shares = "".join(f"{100 * (row[state] / row['measured'] - 1):+11.1f} %" for state in states)
        mark = " *" if row["used_to_correct"] else ""
        print(f"{row['model']:19} {row['layout']:19} {row['measured']:9.4f} {shares} {row['measured_gib']:8.2f} "
              f"{100 * (row['predicted_gib'] / row['measured_gib'] - 1):+6.1f} %{mark}")
    scored = [row for row in rows if not row["used_to_correct"]]
    memory = [abs(row["predicted_gib"] / row["measured_gib"] - 1) for row in rows]
    result = {"rows": rows, "memory_mean": statistics.mean(memory), "memory_worst": max(memory)}
    for state in states:
        result[state] = score(scored, state)
        found = result[state]
        regrets = ", ".join(f"{name} {100 * regret:.1f} %" for name, regret in found["regret"].items())
        print(f"{state:11} mean {100 * found['mean']:.1f} %, signed {100 * found['signed']:+.1f} %, worst {100 * found['worst']:.1f} %; "
              f"{100 * found['inside']:.0f} % inside the interval of half-width {100 * found['half_width']:.1f} %; regret {regrets}")
    print(f"memory: mean {100 * result['memory_mean']:.2f} %, worst {100 * result['memory_worst']:.2f} %; * corrected by these, not scored")
    (arguments.folder / "report.json").write_text(json.dumps(result, indent=1), encoding="utf-8")
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("verb", choices=("measure", "report"))
    parser.add_argument("trireme")
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--cluster", default="hgx-h200x1")
    parser.add_argument("--gpus", type=int, default=2)
    parser.add_argument("--models", type=lambda text: text.split(","), default=list(MODELS)[:4])
    parser.add_argument("--layouts", type=lambda text: text.split(","))
    parser.add_argument("--profile", type=pathlib.Path)
    parser.add_argument("--traces", type=pathlib.Path, help="where traces go (default: FOLDER)")
    arguments = parser.parse_args()
    arguments.traces = arguments.traces or arguments.folder
    arguments.folder.mkdir(parents=True, exist_ok=True)
    arguments.traces.mkdir(parents=True, exist_ok=True)
    if arguments.verb == "report" and arguments.profile is None:
        parser.error("report needs --profile")
    return measure(arguments) if arguments.verb == "measure" else report(arguments)


if __name__ == "__main__":
    sys.exit(main())
