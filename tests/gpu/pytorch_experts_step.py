"""One PyTorch training step of a model with routed experts on one GPU, timed; experts by grouped_mm, as torchtitan has them.

python3 pytorch_experts_step.py --model models/olmoe-8-layers.json --micro-batch 4 [--states fsdp|bf16] [--compile]
fsdp: FSDP2 over one rank (fp32 parameters and sums, bf16 copies), as this project's runtime holds them; bf16: parameters,
gradients and AdamW's states in bf16. Prints one JSON line: median step seconds and memory.
"""

import argparse
import json
import os
import statistics
import time

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

from pytorch_step import loss_of, rotate, stepper

grouped_mm = getattr(F, "grouped_mm", None) or torch._grouped_mm


class Attention(nn.Module):
    def __init__(self, model):
        super().__init__()
        hidden, self.heads, self.kv_heads, self.size = (model[key] for key in ("hidden", "heads", "kv_heads", "head_dim"))
        self.qkv = nn.Linear(hidden, (self.heads + 2 * self.kv_heads) * self.size, bias=False)
        self.out = nn.Linear(self.heads * self.size, hidden, bias=False)
        self.q_norm = nn.RMSNorm(self.size, eps=1e-6)
        self.k_norm = nn.RMSNorm(self.size, eps=1e-6)

    def forward(self, x, cosine, sine):
        b, s, _ = x.shape
        parts = (self.heads, self.kv_heads, self.kv_heads)
        q, k, v = self.qkv(x).view(b, s, -1, self.size).transpose(1, 2).split(parts, dim=1)
        q, k = rotate(self.q_norm(q), cosine, sine), rotate(self.k_norm(k), cosine, sine)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        return self.out(y.transpose(1, 2).reshape(b, s, -1))


class Experts(nn.Module):
    def __init__(self, model):
        super().__init__()
        moe, hidden = model["moe"], model["hidden"]
        self.experts, self.chosen = moe["experts"], moe["experts_per_token"]
        self.normalises = model["function"]["router_normalises"]
        self.router = nn.Linear(hidden, self.experts, bias=False)
        self.up = nn.Parameter(0.02 * torch.randn(self.experts, 2 * moe["expert_ffn"], hidden))
        self.down = nn.Parameter(0.02 * torch.randn(self.experts, hidden, moe["expert_ffn"]))

    def forward(self, x):
        tokens = x.flatten(0, 1)
        weights, chosen = self.router(tokens).float().softmax(dim=-1).topk(self.chosen, dim=-1)
        if self.normalises:
            weights = weights / weights.sum(dim=-1, keepdim=True)
        order = chosen.flatten().argsort(stable=True)
        ends = torch.bincount(chosen.flatten(), minlength=self.experts).cumsum(0).to(torch.int32)
        gate, value = grouped_mm(tokens[order // self.chosen], self.up.transpose(-2, -1), offs=ends).chunk(2, dim=-1)
        rows = grouped_mm(F.silu(gate) * value, self.down.transpose(-2, -1), offs=ends)
        rows = (rows.float() * weights.flatten()[order].unsqueeze(-1)).to(x.dtype)
        return torch.zeros_like(tokens).index_add(0, order // self.chosen, rows).view_as(x)


class Block(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.attention_norm = nn.RMSNorm(model["hidden"], eps=1e-6)
        self.attention = Attention(model)
        self.experts_norm = nn.RMSNorm(model["hidden"], eps=1e-6)
        self.experts = Experts(model)

    def forward(self, x, cosine, sine):
        x = x + self.attention(self.attention_norm(x), cosine, sine)
        return x + self.experts(self.experts_norm(x))


class Transformer(nn.Module):
    def __init__(self, model, sequence):
        super().__init__()
        self.embedding = nn.Embedding(model["vocab"], model["hidden"])
        nn.init.normal_(self.embedding.weight, std=0.02)
        self.layers = nn.ModuleList(Block(model) for _ in range(model["layers"]))
        self.norm = nn.RMSNorm(model["hidden"], eps=1e-6)
        self.head = nn.Linear(model["hidden"], model["vocab"], bias=False)
        size = model["head_dim"]
        angle = torch.outer(torch.arange(sequence).float(), 1e6 ** (-torch.arange(0, size, 2).float() / size))
        self.register_buffer("cosine", angle.cos(), persistent=False)
        self.register_buffer("sine", angle.sin(), persistent=False)

    def forward(self, x):
        x = self.embedding(x)
        cosine, sine = self.cosine.to(torch.bfloat16), self.sine.to(torch.bfloat16)
        for block in self.layers:
            x = block(x, cosine, sine)
        return self.head(self.norm(x))


def prepared(arguments, model, device):
    with torch.device(device):
        network = Transformer(model, arguments.sequence)
    if arguments.states == "bf16":
        network = network.to(torch.bfloat16)
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for block in network.layers:
        if arguments.compile:
            block.compile()
        if arguments.states == "fsdp":
            fully_shard(block, mp_policy=policy)
    if arguments.states == "fsdp":
        fully_shard(network, mp_policy=policy)
    return network


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, help="a model file with experts")
    parser.add_argument("--states", choices=("fsdp", "bf16"), default="fsdp")
    parser.add_argument("--sequence", type=int, default=4096)
    parser.add_argument("--micro-batch", type=int, default=1)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--compile", action="store_true", help="compile the blocks")
    arguments = parser.parse_args()
    with open(arguments.model, encoding="utf-8") as file:
        model = json.load(file)
    device = torch.device("cuda", 0)
    torch.cuda.set_device(device)
    if arguments.states == "fsdp":
        os.environ.setdefault("MASTER_ADDR", "localhost")
        os.environ.setdefault("MASTER_PORT", "29531")
        dist.init_process_group("nccl", rank=0, world_size=1, device_id=device)
    torch.manual_seed(0)
    network = prepared(arguments, model, device)
    tokens = torch.randint(model["vocab"], (arguments.micro_batch, arguments.sequence), device=device)
    step = stepper(network, lambda: loss_of(network(tokens), tokens).backward())
    times = []
    for index in range(3 + arguments.steps):
        if index == 3:
            torch.cuda.reset_peak_memory_stats()
        torch.cuda.synchronize()
        begin = time.perf_counter()
        step()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - begin)
    print(json.dumps({"model": model["name"], "states": arguments.states, "micro_batch": arguments.micro_batch,
                      "compile": arguments.compile, "step_seconds": statistics.median(times[3:]),
                      "peak_allocated_gib": torch.cuda.max_memory_allocated() / 2**30, "torch": torch.__version__}), flush=True)
    if dist.is_initialized():
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
