MODEL=Qwen/Qwen3-8B
python3 -m verl.trainer.main config=examples/config.yaml data.max_response_length=2048 \
  worker.actor.model.model_path=${MODEL} worker.actor.ulysses_size=2 worker.actor.global_batch_size=64 \
  worker.actor.optim.strategy=adamw_bf16 worker.rollout.n=8 trainer.n_gpus_per_node=8 \
  'worker.actor.fsdp={fsdp_size: 4, torch_dtype: bf16}'
