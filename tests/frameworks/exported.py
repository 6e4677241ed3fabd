"""Cases, and what `trireme export` makes of them: FOLDER/NAME/launch.* and case.json."""

import json
import pathlib
import re
import shlex
import subprocess

HERE = pathlib.Path(__file__).resolve().parent
PRESETS = HERE.parent.parent / "models" / "presets"
FOLDERS_OF_MODELS = {"GPU_MODELS": HERE.parent / "gpu" / "models", "MODELS": HERE / "models"}
SUFFIX = {"megatron": "sh", "torchtitan": "toml", "deepspeed": "json", "accelerate": "yaml"}


def run(command):
    return subprocess.run(command, capture_output=True, text=True, check=False)


def gpus_of(case):
    return case.get("gpus", 2)


def words_of(case, common):
    words = [*common, "--gpus", str(gpus_of(case)), *shlex.split(case["arguments"])]
    return [str(FOLDERS_OF_MODELS[word.split("/")[0]] / word.split("/")[1]) if word.split("/")[0] in FOLDERS_OF_MODELS else word
            for word in words]


def cases_of(only, gpus=None):
    """Those of so many GPUs (of any number when None) whose name the regular expression `only` finds, in the order of the file;
    a case that names no number takes two."""
    known = json.loads((HERE / "cases.json").read_text(encoding="utf-8"))
    return [{**case, "words": words_of(case, known["common"]), "flavors": known["flavors"]}
            for case in known["cases"] if gpus in (None, gpus_of(case)) and re.search(only, case["name"])]


def launch_file(case, folder):
    return folder / f"launch.{SUFFIX[case['format']]}"


def export_case(trireme, case, folder, steps):
    """case.json: the command that starts it and what is predicted of it, or why it is refused."""
    folder.mkdir(parents=True, exist_ok=True)
    file = launch_file(case, folder)
    flavor = ["--flavor", case["flavor"]] if "flavor" in case else []
    done = run([trireme, "export", *case["words"], "--format", case["format"], "--steps", str(steps), *flavor, "-o", str(file)])
    if done.returncode not in (0, 2):
        raise SystemExit(f"{case['name']}: trireme export ended with {done.returncode}: {done.stderr}")
    found = {**case, "exported_as": str(file), "refused": done.stderr.strip() if done.returncode == 2 else None}
    if done.returncode == 0:
        found["command"] = re.search(r"^start [^:]*: (.*)$", done.stderr, re.MULTILINE).group(1)
        found["predicted"] = json.loads(run([trireme, "estimate", *case["words"], "--json"]).stdout)
        found["described"] = described_model(case["words"][case["words"].index("--model") + 1])
        found["transformers"] = transformers_model(found["described"])
    (folder / "case.json").write_text(json.dumps(found, indent=1), encoding="utf-8")
    print(f"{case['name']:36} {found['refused'] or found['command']}")
    return found


def described_model(name):
    path = pathlib.Path(name)
    return json.loads((path if path.suffix == ".json" else PRESETS / f"{name}.json").read_text(encoding="utf-8"))


def transformers_model(fields):
    """The same model as transformers names its fields, for the programs that train with it."""
    common = {"vocab_size": fields["vocab"], "hidden_size": fields["hidden"], "num_hidden_layers": fields["layers"],
              "num_attention_heads": fields["heads"], "num_key_value_heads": fields.get("kv_heads", fields["heads"]),
              "head_dim": fields.get("head_dim", fields["hidden"] // fields["heads"]), "max_position_embeddings": 8192,
              "tie_word_embeddings": fields.get("tied_embeddings", False)}
    if "moe" in fields:
        moe = fields["moe"]
        return {"model_type": "mixtral", **common, "intermediate_size": moe["expert_ffn"], "num_local_experts": moe["experts"],
                "num_experts_per_tok": moe["experts_per_token"]}
    return {"model_type": "llama", **common, "intermediate_size": fields["ffn"]}
