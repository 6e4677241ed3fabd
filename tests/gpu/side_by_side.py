"""side_by_side.py FOLDER: the table of what side_by_side.sh measured there."""

import json
import pathlib
import sys


def read(path):
    try:
        text = path.read_text(encoding="utf-8").strip()
        return json.loads(text if text.startswith("{\n") else text.splitlines()[-1])
    except (OSError, ValueError, IndexError):
        return None


def main():
    folder = pathlib.Path(sys.argv[1])
    print("case      ours s   MFU    GiB   eager s  ratio   GiB   compiled s  ratio")
    for name in ("fsdp", "tp", "pp", "fsdp8b"):
        ours = read(folder / f"{name}.ours.json")
        row = f"{name:8}"
        seconds = ours["median_step_seconds"] if ours else float("nan")
        memory = max(ours["peak_allocated_gib"]) if ours else float("nan")
        mfu = ours.get("mfu", 0) if ours else float("nan")
        row += f"{seconds:8.4f} {100 * mfu:5.1f} {memory:6.2f}"
        for suffix in ("eager", "compiled"):
            theirs = read(folder / f"{name}.{suffix}.json")
            if theirs is not None:
                row += f"  {theirs['step_seconds']:8.4f} {theirs['step_seconds'] / seconds:6.2f}"
                row += f" {theirs['peak_allocated_gib']:6.2f}"
        print(row)


if __name__ == "__main__":
    main()
