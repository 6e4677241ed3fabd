"""The program that an exported accelerate file starts: transformers trained as accelerate sets it up.

accelerate launch --config_file FILE train_accelerate.py --per_device_train_batch_size 4 --max_length 2048
TRIREME_MODEL names the JSON of a transformers configuration; tokens are random.
"""

import argparse
import contextlib
import os
import tempfile

import torch
from accelerate import Accelerator
from accelerate.utils import GradientAccumulationPlugin
from transformers import AutoModelForCausalLM

from measure import forget_start, measure, model_config, random_tokens


def tensor_parallel_model(config, accelerator):
    """transformers cuts a model only while it reads a checkpoint, so that of random weights is written first."""
    folder = f"{tempfile.gettempdir()}/trireme-random-{config.model_type}-{config.hidden_size}"
    if accelerator.is_main_process:
        with torch.device("cuda"):
            AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16).save_pretrained(folder)
    accelerator.wait_for_everyone()
    mesh = accelerator.torch_device_mesh["tp"]
    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, tp_plan="auto", device_mesh=mesh)


def make_model(config, accelerator):
    parallelism = accelerator.parallelism_config
    if parallelism is not None and parallelism.tp_enabled:
        return tensor_parallel_model(config, accelerator)
    with torch.device("cuda"):
        return AutoModelForCausalLM.from_config(config, dtype=torch.float32, attn_implementation="sdpa")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--per_device_train_batch_size", type=int, required=True)
    parser.add_argument("--gradient_accumulation_steps", type=int, default=1)
    parser.add_argument("--max_length", type=int, required=True)
    arguments = parser.parse_args()
    count = arguments.gradient_accumulation_steps
    sharded = os.environ.get("ACCELERATE_USE_FSDP") == "true"  # as accelerate launch says it
    accelerator = Accelerator(gradient_accumulation_plugin=GradientAccumulationPlugin(
        num_steps=count, sync_each_batch=sharded, sync_with_dataloader=False))
    config = model_config()
    config.use_cache = False
    model = make_model(config, accelerator)
    parallelism = accelerator.parallelism_config
    tensor_parallel = parallelism is not None and parallelism.tp_enabled  # plain and distributed tensors side by side
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, fused=not tensor_parallel, foreach=False)
    model, optimizer = accelerator.prepare(model, optimizer)
    model.train()
    forget_start()
    contexts = parallelism.cp_size if parallelism is not None and parallelism.cp_enabled else 1

    def micro_step():
        tokens = random_tokens(config, arguments.per_device_train_batch_size, arguments.max_length)
        batch = {"input_ids": tokens, "labels": tokens.clone(),
                 "position_ids": torch.arange(arguments.max_length, device="cuda").expand_as(tokens).contiguous()}
        cut = contextlib.nullcontext()
        if contexts > 1:
            batch["shift_labels"] = torch.nn.functional.pad(batch.pop("labels"), (0, 1), value=-100)[:, 1:].contiguous()
            buffers = list(batch.values())
            cut = accelerator.maybe_context_parallel(buffers=buffers, buffer_seq_dims=[1] * len(buffers),
                                                     no_restore_buffers=set(buffers))
        with cut, accelerator.accumulate(model):
            if contexts > 1:
                labels = batch.pop("shift_labels")
                logits = model(**batch).logits
                loss = torch.nn.functional.cross_entropy(logits.float().flatten(0, 1), labels.flatten(0, 1))
            else:
                loss = model(**batch).loss
            accelerator.backward(loss)
            if accelerator.sync_gradients:
                accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
        return loss.detach()

    measure(lambda: [micro_step() for _ in range(count)][-1])
    accelerator.end_training()


if __name__ == "__main__":
    main()
