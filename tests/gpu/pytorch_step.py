"""One PyTorch training step of a Llama shape on the local GPUs, timed: the other side of side_by_side.sh.

torchrun --nproc_per_node 2 pytorch_step.py --case fsdp --micro-batch 2 [--compile]
Cases: fsdp (FSDP2, bf16 parameters, fp32 reduction), cp (the same over the ranks of context parallelism), tp (DTensor with
sequence and loss parallelism, bf16 states), pp (1F1B, bf16 states), ddp. Prints one JSON line on rank 0: median step seconds and the largest rank's memory.
"""

import argparse
import faulthandler
import json
import os
import statistics
import time

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

SHAPES = {  # hidden, inner, heads, key/value heads, layers
    "llama-3.2-1b": (2048, 8192, 32, 8, 16),
    "llama-3.1-8b": (4096, 14336, 32, 8, 32),
}
VOCABULARY = 128256


def rotate(x, cosine, sine):
    first, second = x.chunk(2, dim=-1)
    return torch.cat((first * cosine - second * sine, second * cosine + first * sine), dim=-1)


class Attention(nn.Module):
    def __init__(self, hidden, heads, kv_heads):
        super().__init__()
        self.size = hidden // heads
        self.wq = nn.Linear(hidden, heads * self.size, bias=False)
        self.wk = nn.Linear(hidden, kv_heads * self.size, bias=False)
        self.wv = nn.Linear(hidden, kv_heads * self.size, bias=False)
        self.wo = nn.Linear(heads * self.size, hidden, bias=False)

    def forward(self, x, cosine, sine):
        b, s, _ = x.shape
        q = self.wq(x).view(b, s, -1, self.size).transpose(1, 2)
        k = self.wk(x).view(b, s, -1, self.size).transpose(1, 2)
        v = self.wv(x).view(b, s, -1, self.size).transpose(1, 2)
        q, k = rotate(q, cosine, sine), rotate(k, cosine, sine)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        return self.wo(y.transpose(1, 2).reshape(b, s, -1))


class FeedForward(nn.Module):
    def __init__(self, hidden, inner):
        super().__init__()
        self.w1 = nn.Linear(hidden, inner, bias=False)
        self.w3 = nn.Linear(hidden, inner, bias=False)
        self.w2 = nn.Linear(inner, hidden, bias=False)

    def forward(self, x):
        return self.w2(F.silu(self.w1(x)) * self.w3(x))


class Block(nn.Module):
    def __init__(self, hidden, inner, heads, kv_heads):
        super().__init__()
        self.attention_norm = nn.RMSNorm(hidden, eps=1e-5)
        self.attention = Attention(hidden, heads, kv_heads)
        self.mlp_norm = nn.RMSNorm(hidden, eps=1e-5)
        self.mlp = FeedForward(hidden, inner)

    def forward(self, x, cosine, sine):
        x = x + self.attention(self.attention_norm(x), cosine, sine)
        return x + self.mlp(self.mlp_norm(x))


class Llama(nn.Module):
    def __init__(self, shape, layers, sequence, first=True, last=True):
        super().__init__()
        hidden, inner, heads, kv_heads, _ = shape
        self.embedding = nn.Embedding(VOCABULARY, hidden) if first else None
        self.layers = nn.ModuleList(Block(hidden, inner, heads, kv_heads) for _ in range(layers))
        self.norm = nn.RMSNorm(hidden, eps=1e-5) if last else None
        self.head = nn.Linear(hidden, VOCABULARY, bias=False) if last else None
        size = hidden // heads
        angle = torch.outer(torch.arange(sequence).float(), 500000.0 ** (-torch.arange(0, size, 2).float() / size))
        self.register_buffer("cosine", angle.cos(), persistent=False)
        self.register_buffer("sine", angle.sin(), persistent=False)

    def forward(self, x):
        x = x if self.embedding is None else self.embedding(x)
        cosine, sine = self.cosine.to(torch.bfloat16), self.sine.to(torch.bfloat16)
        for block in self.layers:
            x = block(x, cosine, sine)
        return x if self.head is None else self.head(self.norm(x))


def loss_of(logits, targets):
    return F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten(0, 1))


def stepper(backward, *groups):
    """One training step: `backward` leaves the gradients, then clipping and AdamW of each group of parameters (of one mesh)."""
    groups = [list(group) for group in groups]
    optimizers = [torch.optim.AdamW(group, lr=1e-5, fused=True) for group in groups]

    def step():
        backward()
        for group, optimizer in zip(groups, optimizers):
            torch.nn.utils.clip_grad_norm_(group, 1.0)
            optimizer.step()
            optimizer.zero_grad()

    return step


def random_tokens(batch, sequence, device):
    return torch.randint(VOCABULARY, (batch, sequence), device=device)


def sharded(arguments, shape, layers, device):
    model = Llama(shape, layers, arguments.sequence).to(device)
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for block in model.layers:
        if arguments.compile:
            block.compile()
        fully_shard(block, mp_policy=policy)
    fully_shard(model, mp_policy=policy)
    return model


def fsdp_step(arguments, shape, layers, world, device):
    model = sharded(arguments, shape, layers, device)
    tokens = random_tokens(arguments.micro_batch, arguments.sequence, device)
    return stepper(lambda: loss_of(model(tokens), tokens).backward(), model.parameters())


def cp_step(arguments, shape, layers, world, device):
    from torch.distributed.tensor.experimental import context_parallel
    from torch.distributed.tensor.experimental._attention import set_rotate_method

    mesh = init_device_mesh("cuda", (world,))
    set_rotate_method(arguments.rotate)
    model = sharded(arguments, shape, layers, device)
    tokens = random_tokens(arguments.micro_batch, arguments.sequence, device)
    dist.broadcast(tokens, 0)
    targets = tokens.clone()

    def backward():
        with context_parallel(mesh, buffers=[tokens, targets, model.cosine, model.sine], buffer_seq_dims=[1, 1, 0, 0]):
            loss_of(model(tokens), targets).backward()

    return stepper(backward, model.parameters())


def tp_step(arguments, shape, layers, world, device):
    from torch.distributed.tensor import Replicate, Shard
    from torch.distributed.tensor.parallel import (
        ColwiseParallel, PrepareModuleInput, RowwiseParallel, SequenceParallel, loss_parallel, parallelize_module)

    mesh = init_device_mesh("cuda", (world,))
    model = Llama(shape, layers, arguments.sequence).to(device, torch.bfloat16)
    parallelize_module(model, mesh, {
        "embedding": RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1)),
        "norm": SequenceParallel(),
        "head": ColwiseParallel(input_layouts=Shard(1), output_layouts=Shard(-1), use_local_output=False)})
    for block in model.layers:
        parallelize_module(block, mesh, {
            "attention_norm": SequenceParallel(),
            "attention": PrepareModuleInput(input_layouts=(Shard(1), None, None),
                                            desired_input_layouts=(Replicate(), None, None)),
            "attention.wq": ColwiseParallel(), "attention.wk": ColwiseParallel(), "attention.wv": ColwiseParallel(),
            "attention.wo": RowwiseParallel(output_layouts=Shard(1)),
            "mlp_norm": SequenceParallel(),
            "mlp": PrepareModuleInput(input_layouts=(Shard(1),), desired_input_layouts=(Replicate(),)),
            "mlp.w1": ColwiseParallel(), "mlp.w3": ColwiseParallel(),
            "mlp.w2": RowwiseParallel(output_layouts=Shard(1))})
        if arguments.compile:
            block.compile()
    tokens = random_tokens(arguments.micro_batch, arguments.sequence, device)
    dist.broadcast(tokens, 0)

    def backward():
        with loss_parallel():
            loss_of(model(tokens), tokens).backward()

    return stepper(backward, model.parameters())


def pp_step(arguments, shape, layers, world, device):
    from torch.distributed.pipelining import PipelineStage, Schedule1F1B

    rank = dist.get_rank()
    count = layers // world
    model = Llama(shape, count, arguments.sequence, rank == 0, rank == world - 1).to(device, torch.bfloat16)
    if arguments.compile:
        for block in model.layers:
            block.compile()
    stage = PipelineStage(model, rank, world, device)
    schedule = Schedule1F1B(stage, arguments.micro_batches, loss_fn=loss_of)
    tokens = random_tokens(arguments.micro_batch * arguments.micro_batches, arguments.sequence, device)

    def backward():
        losses = []
        if rank == 0:
            schedule.step(tokens)
        elif rank == world - 1:
            schedule.step(target=tokens, losses=losses)
        else:
            schedule.step()

    return stepper(backward, model.parameters())


def ddp_step(arguments, shape, layers, world, device):
    from torch.nn.parallel import DistributedDataParallel

    model = Llama(shape, layers, arguments.sequence).to(device, torch.bfloat16)
    model = DistributedDataParallel(model, device_ids=[device.index])
    tokens = random_tokens(arguments.micro_batch, arguments.sequence, device)
    return stepper(lambda: loss_of(model(tokens), tokens).backward(), model.parameters())


def timed(step, steps):
    """Median seconds of a step after three."""
    times = []
    for index in range(3 + steps):
        if index == 3:
            torch.cuda.reset_peak_memory_stats()
        torch.cuda.synchronize()
        if dist.is_initialized():
            dist.barrier()
        begin = time.perf_counter()
        step()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - begin)
    return statistics.median(times[3:])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", choices=("fsdp", "cp", "tp", "pp", "ddp"), required=True)
    parser.add_argument("--model", choices=SHAPES, default="llama-3.2-1b")
    parser.add_argument("--layers", type=int, default=0, help="0: the model's own")
    parser.add_argument("--sequence", type=int, default=4096)
    parser.add_argument("--micro-batch", type=int, default=1)
    parser.add_argument("--micro-batches", type=int, default=8, help="pp only")
    parser.add_argument("--rotate", choices=("allgather", "alltoall"), default="allgather", help="cp only: keys and values at once or in a ring")
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--compile", action="store_true", help="compile the blocks")
    parser.add_argument("--patience", type=float, default=50, help="seconds until a hang prints its stack and ends")
    arguments = parser.parse_args()
    faulthandler.dump_traceback_later(arguments.patience, exit=True)
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", device_id=device)
    torch.manual_seed(dist.get_rank())
    shape = SHAPES[arguments.model]
    layers = arguments.layers or shape[4]
    make = {"fsdp": fsdp_step, "cp": cp_step, "tp": tp_step, "pp": pp_step, "ddp": ddp_step}[arguments.case]
    step = make(arguments, shape, layers, dist.get_world_size(), device)
    seconds = timed(step, arguments.steps)
    peak = torch.tensor([torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved()], device=device)
    dist.all_reduce(peak, op=dist.ReduceOp.MAX)
    if dist.get_rank() == 0:
        print(json.dumps({"case": arguments.case, "model": arguments.model, "layers": layers,
                          "sequence": arguments.sequence, "micro_batch": arguments.micro_batch, "compile": arguments.compile,
                          "step_seconds": seconds,
                          "peak_allocated_gib": peak[0].item() / 2**30, "peak_reserved_gib": peak[1].item() / 2**30,
                          "torch": torch.__version__}), flush=True)
    dist.destroy_process_group()
    faulthandler.cancel_dump_traceback_later()


if __name__ == "__main__":
    main()
