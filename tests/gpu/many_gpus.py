"""many_gpus.py TRIREME FOLDER CLUSTER GPUS: what many_gpus.sh measured, beside its predictions; FOLDER/many_gpus.json.

Collectives: every point of the quick calibration against the `nccl` family without the profile. Weak scaling: the step
time of FSDP on N GPUs over one GPU's, measured and predicted with the profile.
"""

import json
import pathlib
import re
import statistics
import subprocess
import sys

MIB = 1 << 20


def ask(trireme, *arguments):
    done = subprocess.run([trireme, *arguments, "--json"], capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1) or not done.stdout:
        raise RuntimeError(f"{' '.join(arguments)}: {done.stderr.strip()}")
    return json.loads(done.stdout)


def read(path):
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None


def collectives(trireme, folder, cluster):
    points = read(folder / "points.json")
    tables = {}
    for point in (points or {}).get("collectives", []):
        tables.setdefault((point["operation"], point["ranks"]), []).append(point)
    rows = []
    for (operation, ranks), measured in sorted(tables.items()):
        predicted = ask(trireme, "topo", "collective", "--cluster", cluster, "--gpus", str(ranks), "--op", operation,
                        "--bytes", ",".join(str(point["bytes"]) for point in measured), "--family", "nccl")["points"]
        pairs = [(point["bytes"], abs(other["seconds"] / point["seconds"] - 1)) for point, other in zip(measured, predicted)]
        row = {"operation": operation, "ranks": ranks, "points": len(pairs)}
        for name, wanted in (("large", lambda size: size >= MIB), ("small", lambda size: size < MIB)):
            errors = [error for size, error in pairs if wanted(size)]
            row[f"median_error_{name}"] = statistics.median(errors) if errors else None
        rows.append(row)
    return rows


def scaling(trireme, folder, cluster):
    rows = []
    for path in sorted(folder.glob("scaling.*.json"), key=lambda path: int(path.name.split(".")[1])):
        ranks = int(path.name.split(".")[1])
        layout = f"fsdp{ranks}.mb2" if ranks > 1 else "mb2"
        predicted = ask(trireme, "estimate", "--model", "llama-3.2-1b", "--seq", "4096", "--global-batch", str(2 * ranks),
                        "--cluster", cluster, "--gpus", str(ranks), "--layout", layout, "--calibration",
                        str(folder / "machine.profile"))["time"]["step_seconds"]
        run = read(path)
        rows.append({"ranks": ranks, "measured_seconds": run["median_step_seconds"], "predicted_seconds": predicted,
                     "mfu": run.get("mfu"), "peak_allocated_gib": max(run["peak_allocated_gib"]),
                     "exposed_communication_share": run.get("exposed_communication_share")})
    for row in rows:
        for side in ("measured", "predicted"):
            row[f"{side}_efficiency"] = rows[0][f"{side}_seconds"] / row[f"{side}_seconds"]
        row["efficiency_error"] = row["predicted_efficiency"] / row["measured_efficiency"] - 1
    return rows


def correctness(folder):
    log = folder / "correct.log"
    lines = log.read_text(encoding="utf-8").splitlines() if log.exists() else []
    found = [re.match(r"(\S+): losses .* at most (\S+) from", line) for line in lines]
    return ([{"layout": match[1], "worst_relative_difference": float(match[2])} for match in found if match],
            [line for line, match in zip(lines, found) if not match])


def percent(value):
    return "-" if value is None else f"{100 * value:.1f} %"


def main():
    trireme, folder, cluster, gpus = sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3], int(sys.argv[4])
    layouts, troubles = correctness(folder)
    result = {"cluster": cluster, "gpus": gpus, "machine": (read(folder / "points.json") or {}).get("machine"),
              "correctness": layouts, "correctness_troubles": troubles, "collectives": collectives(trireme, folder, cluster),
              "weak_scaling": scaling(trireme, folder, cluster), "experiment": read(folder / "experiment" / "report.json")}
    (folder / "many_gpus.json").write_text(json.dumps(result, indent=1), encoding="utf-8")
    worst = max((row["worst_relative_difference"] for row in layouts), default=None)
    print(f"\n{len(layouts)} layouts compared with the CPU: losses at most {worst} apart; {len(troubles)} failed")
    print("collective       ranks  points  median error >= 1 MiB      below")
    for row in result["collectives"]:
        print(f"{row['operation']:16} {row['ranks']:5} {row['points']:7} {percent(row['median_error_large']):>22} "
              f"{percent(row['median_error_small']):>10}")
    large = [row["median_error_large"] for row in result["collectives"] if row["median_error_large"] is not None]
    print(f"median over tables, 1 MiB and up: {percent(statistics.median(large) if large else None)}")
    print("FSDP ranks  measured s  predicted s  efficiency  predicted    error      MFU  exposed")
    for row in result["weak_scaling"]:
        print(f"{row['ranks']:10} {row['measured_seconds']:11.4f} {row['predicted_seconds']:12.4f} "
              f"{percent(row['measured_efficiency']):>11} {percent(row['predicted_efficiency']):>10} "
              f"{100 * row['efficiency_error']:+7.1f} % {percent(row['mfu']):>7} {percent(row['exposed_communication_share']):>8}")
    return 1 if troubles else 0


if __name__ == "__main__":
    sys.exit(main())
