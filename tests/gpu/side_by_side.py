"""side_by_side.py FOLDER: the table of what side_by_side.sh measured there."""

import json
import pathlib
import sys


CASES = ("fsdp", "tp", "pp", "fsdp8b")


def read(path):
    try:
        text = path.read_text(encoding="utf-8").strip()
        return json.loads(text if text.startswith("{\n") else text.splitlines()[-1])
    except (OSError, ValueError, IndexError):
        return None


def show_speed(folder):
    print("case      ours s   MFU    GiB   eager s  ratio   GiB   compiled s  ratio")
    for name in CASES:
        ours = read(folder / f"{name}.ours.json")
        row = f"{name:8}"
        seconds = ours["median_step_seconds"] if ours else float("nan")
        memory = max(ours["peak_allocated_gib"]) if ours else float("nan")
        mfu = ours["mfu"] if ours and ours.get("mfu") is not None else float("nan")
        row += f"{seconds:8.4f} {100 * mfu:5.1f} {memory:6.2f}"
        for suffix in ("eager", "compiled"):
            theirs = read(folder / f"{name}.{suffix}.json")
            if theirs is not None:
                row += f"  {theirs['step_seconds']:8.4f} {theirs['step_seconds'] / seconds:6.2f}"
                row += f" {theirs['peak_allocated_gib']:6.2f}"
        print(row)


def show_traces(folder):
    print("\ncase      exposed communication  unattributed  joined ops  op time of each category, predicted over measured")
    for name in CASES:
        compared = read(folder / f"{name}.compare.json")
        if compared is None:
            continue
        errors = ", ".join(f"{row['category']} {100 * row['error']:+.1f} %" for row in compared["categories"]
                           if row["error"] is not None)
        print(f"{name:8} {100 * compared['exposed_communication_share']['measured']:21.1f} % "
              f"{100 * compared['unattributed']['measured_share']:12.1f} % {compared['joined_ops']:11}  {errors}")


def main():
    folder = pathlib.Path(sys.argv[1])
    show_speed(folder)
    show_traces(folder)


if __name__ == "__main__":
    main()
