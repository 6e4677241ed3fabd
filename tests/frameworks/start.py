"""Starts what `trireme export` writes with the real frameworks, and compares what they log with the prediction.

start.py export TRIREME FOLDER   writes the launch file and the prediction of each case; needs no GPU and no framework
start.py start FOLDER            starts each on the GPUs of this machine and keeps its log; needs no trireme; what takes
                                 more GPUs than there are is skipped by name
start.py report FOLDER [--rows FILE]   table of predicted and measured; rows in the format that `trireme validate` reads
start.py all TRIREME FOLDER      the three after each other; exit code 77 where nothing can be started

Where the frameworks are: MEGATRON_LM, TORCHTITAN, DEEPSPEED name folders of their repositories; accelerate and
transformers are those installed. A package that a framework imports and the machine lacks is taken from standins/.
Cases are in cases.json, logs in FOLDER/NAME/log.txt. Files are started as exported; only traces add arguments to them.
"""

import argparse
import json
import pathlib
import shutil
import sys
import time

import logs
import table
from exported import cases_of, export_case, gpus_of, run
from processes import begin, finish, why_not

NOTHING_STARTED = 77
FIRST_PORT = 29600


def export_all(options):
    for case in cases_of(options.only, options.gpus):
        export_case(options.trireme, case, options.folder / case["name"], options.steps)
    return 0


def startable_cases(options, gpus):
    """Those that were exported and that this machine has everything for; the rest is named with its reason."""
    wanted, reasons = [], {}
    for name in (case["name"] for case in cases_of(options.only, options.gpus)):
        path = options.folder / name / "case.json"
        case = json.loads(path.read_text(encoding="utf-8")) if path.exists() else None
        if case is None or case["refused"]:
            continue
        reason = reasons.setdefault(case["format"], why_not(case))
        if gpus_of(case) > gpus:
            reason = f"takes {gpus_of(case)} GPUs, of which this machine has {gpus}"
        if reason:
            print(f"{name:36} skipped: {reason}")
        else:
            wanted.append(case)
    return wanted


def start_all(options):
    gpus = run(["nvidia-smi", "-L"]).stdout.count("GPU ") if shutil.which("nvidia-smi") else 0
    if gpus < (options.gpus or 1):
        print(f"skipped: the cases take {options.gpus or 1} GPUs, of which this machine has fewer")
        return NOTHING_STARTED
    wanted = startable_cases(options, gpus)
    end = time.monotonic() + options.seconds
    begun = []  # processes of the case at hand and of those that import ahead of it
    for index, case in enumerate(wanted):
        while len(begun) < min(index + 1 + options.ahead, len(wanted)):
            then = wanted[len(begun)]
            begun.append(begin(then, options.folder / then["name"], FIRST_PORT + len(begun), options))
        folder = options.folder / case["name"]
        (folder / "gate").touch()
        start = time.monotonic()
        code = finish(begun[index], folder, min(options.each, end - start), options.hurry)
        (folder / "ended.json").write_text(json.dumps({"code": code, "seconds": time.monotonic() - start}), encoding="utf-8")
        print(f"{case['name']:36} exit {code} after {time.monotonic() - start:.1f} s", flush=True)
        if time.monotonic() > end:
            break
    for process in begun:
        if process.poll() is None:
            finish(process, options.folder, 0, False)
    return 0 if begun else NOTHING_STARTED


def report_all(options):
    found = [logs.outcome(path.parent) for path in sorted(options.folder.glob("*/ended.json"))]
    cases = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(options.folder.glob("*/case.json"))]
    return table.report(found, [case for case in cases if case["refused"]], options.rows)


VERBS = {"export": [export_all], "start": [start_all], "report": [report_all], "all": [export_all, start_all, report_all]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("verb", choices=VERBS)
    parser.add_argument("places", nargs="+", help="[TRIREME] FOLDER")
    parser.add_argument("--only", default="", help="a regular expression of names of cases")
    parser.add_argument("--gpus", type=int, choices=(1, 2, 4, 8), help="cases of so many; of any number when left out")
    parser.add_argument("--steps", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=3600, help="of all cases together")
    parser.add_argument("--each", type=float, default=90, help="seconds after which a case is ended")
    parser.add_argument("--ahead", type=int, default=1, help="cases that import while one trains")
    parser.add_argument("--hurry", action="store_true", help="end a case once its last step is logged")
    parser.add_argument("--trace", default="", help="a regular expression: these leave a trace of PyTorch's profiler too")
    parser.add_argument("--rows", type=pathlib.Path)
    options = parser.parse_args()
    exports = options.verb in ("export", "all")
    if len(options.places) != (2 if exports else 1):
        parser.error(f"{options.verb} takes {'TRIREME FOLDER' if exports else 'FOLDER'}")
    options.folder = pathlib.Path(options.places[-1]).resolve()
    options.trireme = options.places[0]
    for step in VERBS[options.verb]:
        code = step(options)
        if code:
            return code
    return 0


if __name__ == "__main__":
    sys.exit(main())
