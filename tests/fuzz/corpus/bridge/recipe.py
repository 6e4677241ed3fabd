from megatron.bridge.recipes import llama31_8b_pretrain_config as recipe
cfg = recipe()
cfg.model.tensor_model_parallel_size = 2
cfg.model.recompute_modules = ["core_attn", "mlp"]
cfg.train.global_batch_size = 8 * 4
cfg.ddp.use_distributed_optimizer = True
