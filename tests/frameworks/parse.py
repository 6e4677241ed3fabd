"""Puts many exported files through the frameworks' own readers: what they refuse, and with which words. No GPU is used.

parse.py export TRIREME FOLDER   writes a grid of plans in every format, and list.json of them
parse.py read FORMAT FOLDER      reads those of one format with the framework's own program, which must be importable
"""

import concurrent.futures
import contextlib
import io
import json
import os
import pathlib
import subprocess
import sys
import types

GPUS = 16
FRAMEWORKS = {"megatron": ("megatron", "megatron-fsdp", "fsdp2"), "torchtitan": ("torchtitan",), "deepspeed": ("deepspeed",),
              "accelerate": ("accelerate", "accelerate-fsdp1")}
SUFFIX = {"megatron": "sh", "torchtitan": "toml", "deepspeed": "json", "accelerate": "yaml"}
MODELS = ("llama-3.1-8b", "llama-3.2-3b", "qwen3-8b", "gemma-2-9b", "gpt3-13b", "mixtral-8x7b", "qwen3-30b-a3b", "deepseek-v2-lite",
          "gpt-oss-20b")
LAYOUTS = ("fsdp16.mb1", "fsdp16.mb2.rc-full", "fsdp16.mb1.rc-op", "fsdp8.dp2.mb1", "dp16.mb1", "fsdp16.mb1.zero1", "fsdp16.mb1.zero2",
           "tp2.fsdp8.mb1", "tp2.fsdp8.mb1.nosp", "tp4.fsdp4.mb1.zero1", "tp2.pp2.fsdp4.mb1.zero1", "tp2.pp2.vpp2.dp4.mb1", "pp4.dp4.mb1",
           "pp4.fsdp4.mb1", "cp2.fsdp8.mb1", "cp2.tp2.fsdp4.mb1.zero1", "ep8.fsdp16.mb1", "ep8.fsdp16.mb1.zero1",
           "tp2.ep4.etp1.fsdp8.mb1.zero1", "tp2.pp2.fsdp4.mb1.zero1.rc-core_attn")


def export_one(trireme, folder, kind, framework, model, layout):
    file = folder / f"{framework}-{model}-{layout}.{SUFFIX[kind]}"
    words = ["--model", model, "--cluster", "dgx-h100x2", "--seq", "2048", "--global-batch", "64",
             "--framework", framework, "--layout", layout]
    done = subprocess.run([trireme, "export", *words, "--format", kind, "-q", "-o", str(file)], check=False, capture_output=True)
    return {"format": kind, "file": str(file), "what": f"{framework} {model} {layout}"} if done.returncode == 0 else None


def export_all(trireme, folder):
    folder.mkdir(parents=True, exist_ok=True)
    plans = [(kind, framework, model, layout) for kind, frameworks in FRAMEWORKS.items() for framework in frameworks
             for model in MODELS for layout in LAYOUTS]
    with concurrent.futures.ThreadPoolExecutor() as pool:
        written = list(pool.map(lambda plan: export_one(trireme, folder, *plan), plans))
    files = [each for each in written if each]
    (folder / "list.json").write_text(json.dumps(files), encoding="utf-8")
    print(f"{len(files)} files written, {len(plans) - len(files)} plans refused by export", flush=True)
    return 0 if files else 1


def started_as(file):
    """The arguments and the environment that the script hands to pretrain_gpt.py, by a torchrun that only writes them down."""
    stub = file.parent / "stub"
    stub.mkdir(exist_ok=True)
    (stub / "torchrun").write_text("#!/bin/sh\n" 'for each in "$@"; do printf "%s\\0" "$each"; done > "$ARGUMENTS"\n'
                                   'env -0 > "$ARGUMENTS.env"\n', encoding="utf-8")
    (stub / "torchrun").chmod(0o755)
    words = file.with_suffix(".words")
    done = subprocess.run(["bash", str(file)], check=False, capture_output=True, text=True,
                          env={**os.environ, "PATH": f"{stub}:{os.environ['PATH']}", "ARGUMENTS": str(words),
                               "MASTER_ADDR": "localhost", "NODE_RANK": "0"})
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip() or f"the script ended with {done.returncode}")
    given = words.read_text(encoding="utf-8").split("\0")[:-1]
    exported = dict(each.split("=", 1) for each in pathlib.Path(f"{words}.env").read_text(encoding="utf-8").split("\0")[:-1])
    return given[next(i for i, each in enumerate(given) if each.endswith("pretrain_gpt.py")) + 1:], exported


def megatron_reader():
    from megatron.training.arguments import parse_args, validate_args

    before = dict(os.environ)

    def read(file):
        words, exported = started_as(file)
        os.environ.clear()
        os.environ.update({**exported, "PATH": before["PATH"], "WORLD_SIZE": str(GPUS), "RANK": "0", "LOCAL_RANK": "0"})
        sys.argv = ["pretrain_gpt.py", *words]
        try:
            validate_args(parse_args())
        finally:
            os.environ.clear()
            os.environ.update(before)

    return read


def torchtitan_reader():
    from torchtitan.config import ConfigManager
    from torchtitan.distributed import ParallelDims

    def read(file):
        config = ConfigManager().parse_args(["--job.config_file", str(file)])
        given = config.parallelism
        ParallelDims(dp_shard=given.data_parallel_shard_degree, dp_replicate=given.data_parallel_replicate_degree,
                     cp=given.context_parallel_degree, tp=given.tensor_parallel_degree, pp=given.pipeline_parallel_degree,
                     ep=given.expert_parallel_degree, etp=given.expert_tensor_parallel_degree, world_size=GPUS)

    return read


def deepspeed_reader():
    import deepspeed.runtime.config as config

    config.dist.get_rank = lambda *_, **__: 0
    config.dist.get_world_size = lambda *_, **__: GPUS

    def read(file):
        settings = json.loads(file.read_text(encoding="utf-8"))
        stages = settings.get("pipeline", {}).get("stages", 1)
        # The pipeline's grid is the mpu that the engine hands on.
        grid = types.SimpleNamespace(get_data_parallel_world_size=lambda: GPUS // stages) if stages > 1 else None
        config.DeepSpeedConfig(settings, mpu=grid)

    return read


def accelerate_reader():
    from accelerate import ParallelismConfig
    from accelerate.commands.launch import _validate_launch_command, launch_command_parser
    from accelerate.utils import FullyShardedDataParallelPlugin
    from accelerate.utils.launch import prepare_multi_gpu_env

    before = dict(os.environ)

    def read(file):
        arguments, *_ = _validate_launch_command(launch_command_parser().parse_args(["--config_file", str(file), "train.py"]))
        os.environ.clear()
        os.environ.update(before)
        os.environ.update(prepare_multi_gpu_env(arguments), WORLD_SIZE=str(GPUS))
        if os.environ.get("ACCELERATE_USE_PARALLELISM_CONFIG") == "true":
            ParallelismConfig()
        if os.environ.get("ACCELERATE_USE_FSDP") == "true":
            FullyShardedDataParallelPlugin()

    return read


READERS = {"megatron": megatron_reader, "torchtitan": torchtitan_reader, "deepspeed": deepspeed_reader, "accelerate": accelerate_reader}


def why_refused(read, file):
    """The last line of what the reader says; empty where it takes the file."""
    said = io.StringIO()
    try:
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            read(file)
    except (Exception, SystemExit) as error:  # noqa: BLE001, whatever their program refuses with
        lines = [line for line in f"{said.getvalue()}\n{type(error).__name__}: {error}".splitlines() if line.strip()]
        return lines[-1] if not isinstance(error, SystemExit) or len(lines) < 2 else lines[-2]
    return ""


def read_all(kind, folder):
    read = READERS[kind]()
    files = [each for each in json.loads((folder / "list.json").read_text(encoding="utf-8")) if each["format"] == kind]
    reasons = {}
    for each in files:
        if reason := why_refused(read, pathlib.Path(each["file"])):
            reasons.setdefault(reason[:300], []).append(each["what"])
    refused = sum(map(len, reasons.values()))
    print(f"{kind}: {len(files)} files, {len(files) - refused} accepted, {refused} refused")
    for reason, whats in sorted(reasons.items(), key=lambda item: -len(item[1])):
        print(f"  {len(whats)} x {reason}\n      {'; '.join(whats[:4])}")
    return 1 if refused else 0


if __name__ == "__main__":
    if len(sys.argv) != 4 or sys.argv[1] not in ("export", "read"):
        sys.exit(__doc__)
    where = pathlib.Path(sys.argv[3]).resolve()
    sys.exit(export_all(sys.argv[2], where) if sys.argv[1] == "export" else read_all(sys.argv[2], where))
