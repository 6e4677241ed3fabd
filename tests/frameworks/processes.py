"""The processes of a started case: their command, environment and end."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time

import logs
from exported import HERE, launch_file, run

FOLDERS = {"megatron": "MEGATRON_LM", "torchtitan": "TORCHTITAN", "deepspeed": "DEEPSPEED"}
# Packages by the name they are imported under; standins/ holds a small one of each.
STANDINS = {"torchtitan": ("tyro", "torchdata", "datasets"), "deepspeed": ("hjson", "pydantic")}
# What the next case may import while one trains.
IMPORTS = {"megatron": "pretrain_gpt", "torchtitan": "torchtitan.train,torchtitan.models.llama3",
           "deepspeed": "deepspeed,transformers.models.llama.modeling_llama",
           "accelerate": "accelerate,transformers.models.llama.modeling_llama"}
# Programs that the test brings, for what the exported command names.
PROGRAMS = {"torchtitan": ("-m torchtitan.train", "start_torchtitan.py"), "accelerate": ("train.py", "train_accelerate.py"),
            "deepspeed": ("train.py", "train_deepspeed.py")}


def missing_packages(names):
    probe = "import importlib.util, sys\nprint(*[n for n in sys.argv[1:] if importlib.util.find_spec(n) is None])"
    return run([sys.executable, "-c", probe, *names]).stdout.split()


def why_not(case):
    """Why the case cannot be started on this machine; empty where it can."""
    if case["format"] in FOLDERS and FOLDERS[case["format"]] not in os.environ:
        return f"{FOLDERS[case['format']]} names no folder of the framework"
    missing = missing_packages(["torch"] + (["transformers", "accelerate"] if case["format"] == "accelerate" else []))
    return f"no package {', '.join(missing)}" if missing else ""


def copy_standins(kind, folder):
    """The folder of those packages that `kind` imports and this machine lacks."""
    target = folder / "standins"
    target.mkdir(exist_ok=True)
    for name in missing_packages(STANDINS.get(kind, ())):
        source = HERE / "standins" / name
        if source.is_dir():
            shutil.copytree(source, target / name, dirs_exist_ok=True)
        else:
            shutil.copy(source.with_suffix(".py"), target)
    return target


def written(path, value):
    path.write_text(json.dumps(value), encoding="utf-8")
    return str(path)


def environment_of(case, folder, port, options):
    kind = case["format"]
    paths = [str(HERE / "ahead"), str(HERE), os.environ.get(FOLDERS.get(kind, ""), ""), str(copy_standins(kind, folder)),
             os.environ.get("PYTHONPATH", "")]
    # Of a machine whose TORCH_CUDA_ARCH_LIST says 9.0a, which DeepSpeed's builder cannot read: it asks the GPU instead.
    inherited = {name: value for name, value in os.environ.items() if name != "TORCH_CUDA_ARCH_LIST"}
    return {**inherited, "PYTHONPATH": os.pathsep.join(filter(None, paths)), "PYTHONUNBUFFERED": "1",
            "PET_MASTER_PORT": str(port), "MASTER_PORT": str(port),
            "TRIREME_GATE": str(folder / "gate"), "TRIREME_IMPORTS": IMPORTS[kind], "TRIREME_WITHOUT": case.get("without", ""),
            "TRIREME_MODEL": written(folder / "model.json", case["transformers"]),
            "TRIREME_FLAVORS": written(folder / "flavors.json", case["flavors"]), "TRIREME_STEPS": str(options.steps),
            "TRIREME_SEQUENCE": case["words"][case["words"].index("--seq") + 1],
            "TRIREME_RECOMPUTE": "1" if "rc-full" in case["arguments"] else "0",
            "TRIREME_TRACE": str(folder / "trace.json.gz") if is_traced(case, options) else ""}


def is_traced(case, options):
    return bool(options.trace) and re.search(options.trace, case["name"]) is not None


def traced_script(folder, steps):
    """Megatron-LM's script with its own arguments for a trace of the last step but one."""
    more = (f"--profile --use-pytorch-profiler --profile-ranks 0 --profile-step-start {steps - 1} "
            f"--profile-step-end {steps} --tensorboard-dir {folder}/tensorboard ")
    script = (folder / "launch.sh").read_text(encoding="utf-8")
    (folder / "traced.sh").write_text(script.replace("--train-iters", more + "--train-iters"), encoding="utf-8")


def command_of(case, folder, port, options):
    """The exported command, with the test's own program where the format leaves it to its user."""
    kind = case["format"]
    command = case["command"].replace(case["exported_as"], str(launch_file(case, folder)))
    if kind in PROGRAMS:
        theirs, ours = PROGRAMS[kind]
        command = command.replace(theirs, str(HERE / ours))
    if kind == "deepspeed":  # its launcher imports DeepSpeed twice more, half a minute each, and needs it installed
        command = re.sub(r"\bdeepspeed --num_gpus (\d+)", rf"torchrun --nproc_per_node \1 --master_port {port}", command, count=1)
    if kind == "accelerate":  # the case that imports ahead needs a port of its own
        command = command.replace("accelerate launch", f"accelerate launch --main_process_port {port}")
    if is_traced(case, options) and kind == "megatron":
        traced_script(folder, options.steps)
        command = command.replace("launch.sh", "traced.sh")
    if is_traced(case, options) and kind == "torchtitan":
        command += f" --job.dump_folder {folder} --profiling.enable_profiling --profiling.profile_freq {options.steps}"
    return command


def begin(case, folder, port, options):
    """The case's processes, in a session of their own; they wait for the file FOLDER/gate before they touch a GPU."""
    (folder / "gate").unlink(missing_ok=True)
    command = command_of(case, folder, port, options)
    where = os.environ.get(FOLDERS.get(case["format"], ""), str(folder))
    with open(folder / "log.txt", "w", encoding="utf-8") as log:
        log.write(f"$ {command}\n")
        log.flush()
        return subprocess.Popen(["bash", "-c", command], cwd=where, env=environment_of(case, folder, port, options), stdout=log,
                                stderr=subprocess.STDOUT, start_new_session=True)


def finish(process, folder, seconds, hurry):
    """Exit code, or None where it ran past its time; its whole group is ended either way. With `hurry` a case ends once its
    log shows the last step or the error that ends it: processes take long to leave."""
    end, code = time.monotonic() + seconds, None
    while code is None and time.monotonic() < end:
        time.sleep(0.2)
        code = process.poll()
        if code is None and hurry:
            code = logs.end_in_log((folder / "log.txt").read_text(encoding="utf-8", errors="replace"))
            time.sleep(0 if code is None else 1)
    for kind in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, kind)
        except ProcessLookupError:
            break
        time.sleep(0.3)
    process.wait()
    return code
