#!/usr/bin/env bash
# Start on each of 2 hosts, with MASTER_ADDR and NODE_RANK set: bash train_llama3_8b.sh
# For Megatron-LM d98e8a64 (August 2026), from its folder; written by 'trireme export'.
# llama-3.1-8b on dgx-h100x2 (16 x H100-SXM5-80GB), sequence 8192, global batch 128
# Plan pp2.vpp8.cp2.fsdp4.mb1.zero1.layers2x13-3-3-0.order-cp-pp-fsdp, 32 micro-batches a step
# Predicted, as megatron: step 5.84 s, peak 50.64 GiB allocated on the fullest GPU
# Its log should say: elapsed time per iteration (ms): 5839.8, throughput per GPU (TFLOP/s/GPU): 577.6, max allocated (MB): 51852, max reserved (MB): 54963
# Launches must keep their order on the GPU before Blackwell.
export CUDA_DEVICE_MAX_CONNECTIONS=1
torchrun --nproc_per_node 8 --nnodes 2 --node_rank $NODE_RANK --master_addr $MASTER_ADDR --master_port 29500 pretrain_gpt.py \
  --num-layers 32 --hidden-size 4096 --ffn-hidden-size 14336 \
  --num-attention-heads 32 --group-query-attention --num-query-groups 8 --kv-channels 128 \
  --seq-length 8192 --max-position-embeddings 131072 --position-embedding-type rope --rotary-base 500000 \
  --normalization RMSNorm --swiglu --disable-bias-linear --untie-embeddings-and-output-weights \
  --micro-batch-size 1 --global-batch-size 128 --attention-dropout 0 --hidden-dropout 0 \
  --tensor-model-parallel-size 1 --context-parallel-size 2 --cp-comm-type p2p \
  --pipeline-model-parallel-size 2 --pipeline-model-parallel-layout "Et*2|t*2|t*2|t*2|t*2|t*2|t*2|t*2|t*2|t*2|t*2|t*2|t*2|t*3|t*3|L" --use-tp-pp-dp-mapping \
  --use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather \
  --bf16 \
  --transformer-impl transformer_engine --attention-backend auto --cross-entropy-loss-fusion --cross-entropy-fusion-impl native \
  --optimizer adam \
  --train-iters 50 --lr 3e-4 --min-lr 3e-5 --lr-decay-style cosine --lr-warmup-iters 5 --weight-decay 0.1 --clip-grad 1.0 --adam-beta1 0.9 --adam-beta2 0.95 --init-method-std 0.02 \
  --mock-data --split 99,1,0 --tokenizer-type NullTokenizer --vocab-size 128256 --make-vocab-size-divisible-by 128 --eval-iters 0 --eval-interval 1000 --log-interval 1 \
  --no-create-attention-mask-in-dataloader --manual-gc --manual-gc-interval 100 --distributed-timeout-minutes 60 --log-throughput
