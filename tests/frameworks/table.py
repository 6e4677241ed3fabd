"""The table of predicted and measured, and the rows that `trireme validate --rows` reads."""

import json
import statistics

FRAMEWORKS = {"megatron": "Megatron-LM", "torchtitan": "torchtitan", "accelerate": "accelerate with transformers",
              "deepspeed": "DeepSpeed with transformers"}


def share(predicted, measured):
    return predicted / measured - 1 if measured else None


def percent(value):
    return "       -" if value is None else f"{100 * value:+7.1f} %"


def errors_of(found):
    estimate = found["case"]["predicted"]
    allocated, reserved = (max(found[key], default=None) for key in ("peak_allocated_gib", "peak_reserved_gib"))
    memory = estimate["memory"]
    return {"seconds": share(estimate["time"]["step_seconds"], found["step_seconds"]),
            "allocated": share(memory["peak_allocated_gib"], allocated),
            "inside": reserved is not None and memory["reserved_low_gib"] <= reserved <= memory["reserved_high_gib"],
            "reserved": reserved}


def line(found):
    case, estimate = found["case"], found["case"]["predicted"]
    text = f"{case['name']:34} {found['outcome']:8}"
    if found["outcome"] != "ok":
        return f"{text} predicted {estimate['fit']}; {found['detail']}"
    error = errors_of(found)
    allocated = max(found["peak_allocated_gib"], default=0)
    memory = estimate["memory"]
    return (f"{text} {estimate['time']['step_seconds']:8.4f} s {found['step_seconds']:8.4f} s {percent(error['seconds'])}"
            f"  {memory['peak_allocated_gib']:7.2f} {allocated:7.2f} GiB {percent(error['allocated'])}"
            f"  reserved {error['reserved'] or 0:7.2f} in {memory['reserved_low_gib']:.1f} to {memory['reserved_high_gib']:.1f}"
            f" {'yes' if error['inside'] else 'no'}")


def summary(name, found):
    ran = [errors_of(each) for each in found if each["outcome"] == "ok"]
    text = f"{name}: {len(found)} started, {len(ran)} ran to their end"
    times = [abs(each["seconds"]) for each in ran]
    memory = [abs(each["allocated"]) for each in ran if each["allocated"] is not None]
    if times:
        text += f"; step time off by {100 * statistics.mean(times):.1f} % (worst {100 * max(times):.1f} %)"
    if memory:
        text += f", allocated memory by {100 * statistics.mean(memory):.1f} % (worst {100 * max(memory):.1f} %)"
        text += f", reserved inside its band {sum(each['inside'] for each in ran)} of {len(ran)}"
    return text


def setting(text):
    key, _, value = text.partition("=")
    return key, {"true": True, "false": False}.get(value, int(value) if value.isdigit() else value)


def row_of(found, index):
    """One row of the format of `trireme validate --rows`."""
    case, estimate = found["case"], found["case"]["predicted"]
    words, layout, model = case["words"], estimate["layout"], case["described"]
    value = lambda name, default=None: words[words.index(name) + 1] if name in words else default  # noqa: E731
    row = {"id": f"started-{index:03}", "model": model["name"], "layers": model["layers"], "hidden": model["hidden"],
           "ffn": model.get("ffn", model.get("moe", {}).get("expert_ffn")), "heads": model["heads"], "kv_heads": model.get("kv_heads", model["heads"]),
           "head_dim": model.get("head_dim"), "vocab": model["vocab"], "gated_mlp": model.get("gated_mlp", True),
           "tied_embeddings": model.get("tied_embeddings", False), "seq": int(value("--seq")),
           "gpu": estimate["cluster"]["gpu"].split("-")[0], "gpus": estimate["cluster"]["gpus"], "gpus_per_node": estimate["cluster"]["gpus"],
           "tp": layout["tp"], "pp": layout["pp"], "vpp": layout["vpp"], "cp": layout["cp"], "ep": layout["ep"],
           "data_parallel": layout["dp"] * layout["fsdp"], "shard_degree": layout["fsdp"], "sharding": layout["sharding"],
           "sequence_parallel": layout["sequence_parallel"], "schedule": layout["schedule"], "micro_batch": layout["micro_batch"],
           "global_batch": int(value("--global-batch")), "recompute": layout["recompute"], "precision": value("--precision", "bf16"),
           "attention": value("--attention", "flash"), "behaviour": value("--framework"), "framework": FRAMEWORKS[case["format"]],
           "settings": dict(setting(word) for previous, word in zip(words, words[1:]) if previous == "--set"),
           "notes": case["name"]}
    if model.get("moe"):
        moe = model["moe"]
        row["moe"] = {"experts": moe["experts"], "topk": moe["experts_per_token"], "moe_ffn": moe["expert_ffn"]}
    if found["outcome"] == "oom":
        return {key: item for key, item in {**row, "outcome": "OOM"}.items() if item is not None}
    row.update({"seconds_per_step": round(found["step_seconds"], 5), "peak_memory_gib": round(max(found["peak_allocated_gib"]), 3),
                "memory_kind": "allocated", "memory_scope": "max",
                "peak_reserved_gib_by_rank": [round(each, 3) for each in found["peak_reserved_gib"]]})
    return {key: item for key, item in row.items() if item is not None}


def verdict_wrong(found):
    """A case that ran out of memory was said to fit, or one that was said not to fit ran."""
    fit = found["case"]["predicted"]["fit"]
    return (found["outcome"] == "oom" and fit == "fits") or (found["outcome"] == "ok" and fit == "no")


def report(found, refused, rows):
    """Prints the table; exit code 1 where an exported file did not start."""
    for case in refused:
        print(f"{case['name']:34} refused  {case['refused']}")
    for each in found:
        print(line(each))
    for kind, name in FRAMEWORKS.items():
        own = [each for each in found if each["case"]["format"] == kind]
        if own:
            print(summary(name, own))
    for each in filter(verdict_wrong, found):
        print(f"wrong verdict: {each['case']['name']} was predicted '{each['case']['predicted']['fit']}'")
    if rows is not None:
        kept = [each for each in found if each["outcome"] in ("ok", "oom") and (each["outcome"] == "oom" or each["peak_allocated_gib"])]
        rows.write_text(json.dumps({"rows": [row_of(each, index + 1) for index, each in enumerate(kept)]}, indent=1), encoding="utf-8")
    return 1 if any(each["outcome"] in ("failed", "timeout") for each in found) else 0
