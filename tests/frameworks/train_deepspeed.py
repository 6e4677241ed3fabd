"""The program that an exported DeepSpeed file starts: transformers trained by DeepSpeed's engine.

deepspeed --num_gpus 2 train_deepspeed.py --deepspeed --deepspeed_config FILE
TRIREME_MODEL names the JSON of a transformers configuration, TRIREME_SEQUENCE the tokens of a sequence,
TRIREME_RECOMPUTE=1 recomputes every layer (the file cannot say so); tokens are random.
"""

import argparse
import json
import os

import deepspeed
import torch
from transformers import AutoModelForCausalLM

from measure import forget_start, measure, model_config, random_tokens

SEQUENCE = int(os.environ["TRIREME_SEQUENCE"])


def causal_loss(logits, labels):
    shifted = torch.nn.functional.pad(labels, (0, 1), value=-100)[:, 1:]
    return torch.nn.functional.cross_entropy(logits.float().flatten(0, 1), shifted.flatten(0, 1))


class Embedding(torch.nn.Embedding):
    def __init__(self, config):
        super().__init__(config.vocab_size, config.hidden_size)


class Layer(torch.nn.Module):
    """A decoder layer that makes its own rotary table, since a pipeline hands on one tensor."""

    def __init__(self, config, index):
        super().__init__()
        from transformers.models.llama import modeling_llama

        self.rotary = modeling_llama.LlamaRotaryEmbedding(config)
        self.layer = modeling_llama.LlamaDecoderLayer(config, index)

    def forward(self, x):
        positions = torch.arange(x.shape[1], device=x.device).unsqueeze(0)
        y = self.layer(x, position_ids=positions, position_embeddings=self.rotary(x, positions))
        return y[0] if isinstance(y, tuple) else y


class Head(torch.nn.Module):
    def __init__(self, config):
        super().__init__()
        from transformers.models.llama import modeling_llama

        self.norm = modeling_llama.LlamaRMSNorm(config.hidden_size, config.rms_norm_eps)
        self.output = torch.nn.Linear(config.hidden_size, config.vocab_size, bias=False)

    def forward(self, x):
        return self.output(self.norm(x))


def pipeline_model(config, settings):
    from deepspeed.pipe import LayerSpec, PipelineModule

    config._attn_implementation = "sdpa"
    layers = [LayerSpec(Embedding, config)]
    layers += [LayerSpec(Layer, config, index) for index in range(config.num_hidden_layers)]
    layers.append(LayerSpec(Head, config))
    interval = settings["pipeline"].get("activation_checkpoint_interval", 0)
    return PipelineModule(layers, num_stages=settings["pipeline"]["stages"], partition_method="uniform", loss_fn=causal_loss,
                          activation_checkpoint_interval=interval)


def whole_model(config, settings):
    stage = settings["zero_optimization"]["stage"]
    build = lambda: AutoModelForCausalLM.from_config(config, attn_implementation="sdpa")  # noqa: E731
    if stage == 3:
        with deepspeed.zero.Init(config_dict_or_path=settings):
            model = build()
    else:
        with torch.device("cuda", int(os.environ["LOCAL_RANK"])):
            model = build()
    if os.environ.get("TRIREME_RECOMPUTE") == "1":
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    model.config.use_cache = False
    return model


def endless_batches(config, batch):
    while True:
        tokens = random_tokens(config, batch, SEQUENCE)
        yield tokens, tokens


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--local_rank", type=int)
    deepspeed.add_config_arguments(parser)
    arguments = parser.parse_args()
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    deepspeed.init_distributed()
    with open(arguments.deepspeed_config, encoding="utf-8") as file:
        settings = json.load(file)
    config = model_config()
    batch, count = settings["train_micro_batch_size_per_gpu"], settings["gradient_accumulation_steps"]
    pipeline = "pipeline" in settings
    model = pipeline_model(config, settings) if pipeline else whole_model(config, settings)
    engine, *_ = deepspeed.initialize(args=arguments, model=model, model_parameters=model.parameters())
    engine.train()
    forget_start()
    batches = endless_batches(config, batch)

    def micro_step():
        tokens, labels = next(batches)
        loss = engine(input_ids=tokens, labels=labels).loss
        engine.backward(loss)
        engine.step()
        return loss.detach()

    measure(lambda: engine.train_batch(batches) if pipeline else [micro_step() for _ in range(count)][-1])
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
