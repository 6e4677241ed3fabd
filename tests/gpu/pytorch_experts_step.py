"""One PyTorch training step of a model with routed experts, timed; experts by grouped_mm, as torchtitan has them.

python3 pytorch_experts_step.py --model models/olmoe-8-layers.json --micro-batch 4 [--states fsdp|bf16] [--compile]
torchrun --nproc_per_node 2 pytorch_experts_step.py --model models/olmoe-8-layers.json --micro-batch 4 [--ep] [--compile]
fsdp: FSDP2 over the ranks (fp32 parameters and sums, bf16 copies), as this project's runtime holds them; bf16: parameters,
gradients and AdamW's states in bf16, one rank. --ep: each rank has its own experts and takes their rows by all-to-all.
Prints one JSON line: median step seconds and the largest rank's memory.
"""

import argparse
import json
import os

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed._functional_collectives import all_to_all_single_autograd
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

from pytorch_step import loss_of, rotate, stepper, timed

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


class Products(nn.Module):
    """The experts of this rank. tokens: rows sorted by expert, `counts` of each."""

    def __init__(self, model, count):
        super().__init__()
        inner, hidden = model["moe"]["expert_ffn"], model["hidden"]
        self.up = nn.Parameter(0.02 * torch.randn(count, 2 * inner, hidden))
        self.down = nn.Parameter(0.02 * torch.randn(count, hidden, inner))

    def forward(self, rows, counts):
        ends = counts.cumsum(0).to(torch.int32)
        gate, value = grouped_mm(rows, self.up.transpose(-2, -1), offs=ends).chunk(2, dim=-1)
        return grouped_mm(F.silu(gate) * value, self.down.transpose(-2, -1), offs=ends)


def exchanged(products, rows, counts, group):
    """Rows go to the ranks of their experts and come back: counts first, over which the host waits for the sizes."""
    ranks = dist.get_world_size(group)
    theirs = torch.empty_like(counts)
    dist.all_to_all_single(theirs, counts, group=group)
    sent, received = counts.view(ranks, -1).sum(1).tolist(), theirs.view(ranks, -1).sum(1).tolist()
    arrived = all_to_all_single_autograd(rows, received, sent, group)
    local = theirs.numel() // ranks
    expert = torch.arange(local, device=rows.device).repeat(ranks).repeat_interleave(theirs, output_size=sum(received))
    order = expert.argsort(stable=True)
    done = products(arrived[order], theirs.view(ranks, local).sum(0))
    back = torch.empty_like(done).index_copy(0, order, done)
    return all_to_all_single_autograd(back, sent, received, group)


class Experts(nn.Module):
    def __init__(self, model, group):
        super().__init__()
        moe, hidden = model["moe"], model["hidden"]
        self.experts, self.chosen, self.group = moe["experts"], moe["experts_per_token"], group
        self.normalises = model["function"]["router_normalises"]
        self.router = nn.Linear(hidden, self.experts, bias=False)
        self.products = Products(model, self.experts // (dist.get_world_size(group) if group else 1))

    def forward(self, x):
        tokens = x.flatten(0, 1)
        weights, chosen = self.router(tokens).float().softmax(dim=-1).topk(self.chosen, dim=-1)
        if self.normalises:
            weights = weights / weights.sum(dim=-1, keepdim=True)
        order = chosen.flatten().argsort(stable=True)
        rows, counts = tokens[order // self.chosen], torch.bincount(chosen.flatten(), minlength=self.experts)
        rows = exchanged(self.products, rows, counts, self.group) if self.group else self.products(rows, counts)
        rows = (rows.float() * weights.flatten()[order].unsqueeze(-1)).to(x.dtype)
        return torch.zeros_like(tokens).index_add(0, order // self.chosen, rows).view_as(x)


class Block(nn.Module):
    def __init__(self, model, group):
        super().__init__()
        self.attention_norm = nn.RMSNorm(model["hidden"], eps=1e-6)
        self.attention = Attention(model)
        self.experts_norm = nn.RMSNorm(model["hidden"], eps=1e-6)
        self.experts = Experts(model, group)

    def forward(self, x, cosine, sine):
        x = x + self.attention(self.attention_norm(x), cosine, sine)
        return x + self.experts(self.experts_norm(x))


class Transformer(nn.Module):
    def __init__(self, model, sequence, group):
        super().__init__()
        self.embedding = nn.Embedding(model["vocab"], model["hidden"])
        nn.init.normal_(self.embedding.weight, std=0.02)
        self.layers = nn.ModuleList(Block(model, group) for _ in range(model["layers"]))
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
    world = dist.get_world_size() if dist.is_initialized() else 1
    mesh = init_device_mesh("cuda", (world, 1), mesh_dim_names=("ranks", "alone")) if arguments.states == "fsdp" else None
    with torch.device(device):
        network = Transformer(model, arguments.sequence, mesh["ranks"].get_group() if arguments.ep else None)
    if arguments.states == "bf16":
        return network.to(torch.bfloat16)
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for block in network.layers:
        if arguments.compile and not arguments.ep:
            block.compile()
        elif arguments.compile:
            block.attention.compile()
        if arguments.ep:
            fully_shard(block.experts.products, mesh=mesh["alone"], mp_policy=policy)
        fully_shard(block, mesh=mesh["ranks"], mp_policy=policy)
    fully_shard(network, mesh=mesh["ranks"], mp_policy=policy)
    return network


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, help="a model file with experts")
    parser.add_argument("--states", choices=("fsdp", "bf16"), default="fsdp")
    parser.add_argument("--ep", action="store_true", help="the ranks share the experts")
    parser.add_argument("--sequence", type=int, default=4096)
    parser.add_argument("--micro-batch", type=int, default=1)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--compile", action="store_true", help="compile the blocks; with --ep their attention")
    arguments = parser.parse_args()
    with open(arguments.model, encoding="utf-8") as file:
        model = json.load(file)
    device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0)))
    torch.cuda.set_device(device)
    if arguments.states == "fsdp":
        for name, alone in (("MASTER_ADDR", "localhost"), ("MASTER_PORT", "29531"), ("RANK", "0"), ("WORLD_SIZE", "1")):
            os.environ.setdefault(name, alone)
        dist.init_process_group("nccl", device_id=device)
    torch.manual_seed(device.index)
    network = prepared(arguments, model, device)
    tokens = torch.randint(model["vocab"], (arguments.micro_batch, arguments.sequence), device=device)
    own = [value for name, value in network.named_parameters() if arguments.ep and ".products." in name]
    shared = [value for name, value in network.named_parameters() if not (arguments.ep and ".products." in name)]
    seconds = timed(stepper(lambda: loss_of(network(tokens), tokens).backward(), *filter(None, (shared, own))), arguments.steps)
    peak = torch.tensor(torch.cuda.max_memory_allocated(), device=device)
    if dist.is_initialized():
        dist.all_reduce(peak, op=dist.ReduceOp.MAX)
    if device.index == 0:
        print(json.dumps({"model": model["name"], "states": arguments.states, "ep": arguments.ep, "micro_batch": arguments.micro_batch,
                          "compile": arguments.compile, "step_seconds": seconds,
                          "peak_allocated_gib": peak.item() / 2**30, "torch": torch.__version__}), flush=True)
    if dist.is_initialized():
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
