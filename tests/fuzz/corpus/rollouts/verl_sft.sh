torchrun --nnodes=1 --nproc_per_node=8 -m verl.trainer.sft_trainer model.path=Qwen/Qwen3-8B engine=fsdp \
  data.max_length=4096 data.max_token_len_per_gpu=16384 data.train_batch_size=64 model.use_fused_kernels=True
