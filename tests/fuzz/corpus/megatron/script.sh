#!/bin/bash
#SBATCH --nodes=2 --gpus-per-node=8
export CUDA_DEVICE_MAX_CONNECTIONS=1
TP=${TP:-2}
N=$((8*SLURM_NNODES))
SIZE=8B
if [ "$SIZE" = 8B ]; then L=32; else L=80; fi
case $SIZE in 8B) H=4096;; *) H=8192;; esac
ARGS=( --num-layers $L --hidden-size $H
 --num-attention-heads 32 --group-query-attention --num-query-groups 8 # heads
)
MORE="--swiglu --seq-length 4096 \
 --vocab-size=128256 --bf16 --moe-layer-freq ([0]*3+[1]*29) --num-experts 8"
for i in 1 2; do echo 'x'; done
torchrun --nproc_per_node 8 --nnodes $SLURM_NNODES pretrain_gpt.py "${ARGS[@]}" $MORE \
  --tensor-model-parallel-size $TP --micro-batch-size 1 --global-batch-size $N \
  --pipeline-model-parallel-size 2 --pipeline-model-parallel-layout "Et*3|(tt|)*14,t|L" 2>&1 | tee log
