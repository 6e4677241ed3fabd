#!/bin/bash
N=${N:-8}
ACTOR=(
  actor_rollout_ref.actor.strategy=fsdp2
  actor_rollout_ref.actor.use_dynamic_bsz=True
  actor_rollout_ref.actor.ppo_max_token_len_per_gpu=$((2048 * 8))
  actor_rollout_ref.actor.ulysses_sequence_parallel_size=2
  actor_rollout_ref.actor.fsdp_config.fsdp_size=-1
  actor_rollout_ref.actor.fsdp_config.optimizer_offload=True
)
python3 -m verl.trainer.main_ppo --config-name=ppo_trainer "${ACTOR[@]}" algorithm.adv_estimator=gae \
  actor_rollout_ref.model.path=Qwen/Qwen3-8B +actor_rollout_ref.model.lora_rank=16 data.train_batch_size=512 \
  actor_rollout_ref.actor.ppo_mini_batch_size=128 actor_rollout_ref.rollout.n=$N data.max_prompt_length=1024 \
  data.max_response_length=3072 trainer.nnodes=1 trainer.n_gpus_per_node=8 $@
