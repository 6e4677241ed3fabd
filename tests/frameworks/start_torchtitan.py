"""torchtitan.train as an exported file starts it, on random tokens, with flavors that torchtitan does not have.

torchrun --nproc_per_node 2 start_torchtitan.py --job.config_file FILE
TRIREME_FLAVORS names a JSON file {"llama3/1B": {field of its arguments: value}}. Prints the largest allocated memory,
which torchtitan does not, as one JSON line.
"""

import json
import os

import torch
import torchtitan.train as train
from torchtitan.components.metrics import DeviceMemoryMonitor
from torchtitan.protocols import train_spec

PEAKS = {"allocated": 0, "reserved": 0}


class RandomTokens:
    """Batches of one rank, as torchtitan's loader yields them: one token more than a sequence, shifted."""

    def __init__(self, config, vocabulary):
        self.shape = (config.training.local_batch_size, config.training.seq_len + 1)
        self.vocabulary = vocabulary

    def __iter__(self):
        while True:
            tokens = torch.randint(self.vocabulary, self.shape)
            yield {"input": tokens[:, :-1].contiguous()}, tokens[:, 1:].contiguous()

    def state_dict(self):
        return {}

    def load_state_dict(self, state):
        pass


def add_flavors(name, arguments):
    with open(os.environ["TRIREME_FLAVORS"], encoding="utf-8") as file:
        flavors = json.load(file)
    kind = type(next(iter(arguments.values())))
    for key, fields in flavors.items():
        family, flavor = key.split("/")
        if family == name:
            moe = fields.pop("moe_args", None)
            arguments[flavor] = kind(**fields)
            if moe is not None:
                arguments[flavor].moe_args = type(arguments[flavor].moe_args)(**moe)


def with_random_tokens(original):
    def get_train_spec(name):
        spec = original(name)
        add_flavors(name, spec.model_args)
        spec.build_tokenizer_fn = None

        def build(dp_world_size, dp_rank, tokenizer, job_config):
            return RandomTokens(job_config, spec.model_args[job_config.model.flavor].vocab_size)

        spec.build_dataloader_fn = build
        return spec

    return get_train_spec


def remember_peaks(original):
    def get_peak_stats(monitor):
        PEAKS["allocated"] = max(PEAKS["allocated"], torch.cuda.max_memory_allocated())
        PEAKS["reserved"] = max(PEAKS["reserved"], torch.cuda.max_memory_reserved())
        return original(monitor)

    return get_peak_stats


def print_peaks():
    own = (PEAKS["allocated"] / 2**30, PEAKS["reserved"] / 2**30)
    every = [None] * torch.distributed.get_world_size()
    torch.distributed.all_gather_object(every, own)
    if torch.distributed.get_rank() == 0:
        print(json.dumps({"schema": "trireme.start/1", "peak_allocated_gib": [each[0] for each in every],
                          "peak_reserved_gib": [each[1] for each in every]}), flush=True)


class Trainer(train.Trainer):
    def train(self):
        super().train()
        print_peaks()


if __name__ == "__main__":
    train_spec.get_train_spec = with_random_tokens(train_spec.get_train_spec)
    DeviceMemoryMonitor.get_peak_stats = remember_peaks(DeviceMemoryMonitor.get_peak_stats)
    train.main(Trainer)
