#!/bin/bash
# Qwen3-8B on one host of eight GPUs, trained by GRPO under verl's FSDP.
MODEL_PATH=${MODEL_PATH:-Qwen/Qwen3-8B}
ACTOR=(
  actor_rollout_ref.actor.ppo_mini_batch_size=128
  actor_rollout_ref.actor.use_dynamic_bsz=True
  actor_rollout_ref.actor.ppo_max_token_len_per_gpu=16384
  actor_rollout_ref.actor.fsdp_config.param_offload=True
)
python3 -m verl.trainer.main_ppo \
  algorithm.adv_estimator=grpo \
  data.train_batch_size=256 data.max_prompt_length=1024 data.max_response_length=3072 \
  actor_rollout_ref.model.path="$MODEL_PATH" "${ACTOR[@]}" \
  actor_rollout_ref.rollout.name=vllm actor_rollout_ref.rollout.n=8 \
  trainer.nnodes=1 trainer.n_gpus_per_node=8 "$@"
