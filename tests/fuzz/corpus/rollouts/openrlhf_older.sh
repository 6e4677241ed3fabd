deepspeed --num_gpus 8 --module openrlhf.cli.train_dpo --max_len 4096 --train_batch_size 256 --micro_train_batch_size 1 \
  --pretrain meta-llama/Meta-Llama-3-8B --zero_stage 3 --bf16 --flash_attn --gradient_checkpointing --lora_rank 64 --load_in_4bit
