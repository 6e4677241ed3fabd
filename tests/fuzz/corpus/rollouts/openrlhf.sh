read -r -d '' commands <<EOF
openrlhf.cli.train_ppo_ray --actor.num_nodes 1 --actor.num_gpus_per_node 8 --actor.model_name_or_path Qwen/Qwen3-8B \
  --ds.zero_stage 3 --train.batch_size 128 --rollout.batch_size 256 --rollout.n_samples_per_prompt 2 --data.max_len 2048 \
  --train.dynamic_batch_enable --train.max_tokens_per_gpu 8192 --ds.ring_attn_size 2 --ds.adam_offload --train.colocate_all
EOF
python3 -m $commands
