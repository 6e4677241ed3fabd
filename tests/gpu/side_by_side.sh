#!/usr/bin/env bash
# side_by_side.sh TRIREME FOLDER: the same steps by trireme and by PyTorch (eager, and with compiled blocks), one after the
# other on the same two GPUs. Prints a table of times, ratios and memory, and of each case what its trace shows beside a
# simulated one of CLUSTER (default hgx-h200x1; PROFILE, when set, is a profile of `trireme calibrate`).
set -u
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
trireme=$1
out=$2
mkdir -p "$out"
export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True
ours() {  # name model batch layout...
  local name=$1 model=$2 batch=$3
  shift 3
  timeout 60 "$trireme" run --backend cuda --model "$here/models/$model.json" --seq 4096 --global-batch "$batch" --steps 12 \
    --lr 1e-5 --layout "$@" -o "$out/$name.ours.json" --trace "$out/$name.trace.json" >"$out/$name.ours.log" 2>&1 ||
    tail -n 2 "$out/$name.ours.log"
  "$trireme" simulate --model "$here/models/$model.json" --seq 4096 --global-batch "$batch" --cluster "${CLUSTER:-hgx-h200x1}" \
    --gpus 2 ${PROFILE:+--calibration "$PROFILE"} --layout "$@" --trace "$out/$name.simulated.json" >"$out/$name.simulate.log" 2>&1 &&
    "$trireme" compare "$out/$name.simulated.json" "$out/$name.trace.json" --json >"$out/$name.compare.json"
}
torch() {  # name suffix arguments...
  local name=$1 suffix=$2
  shift 2
  timeout 60 python3 -m torch.distributed.run --nproc_per_node 2 "$here/pytorch_step.py" "$@" \
    >"$out/$name.$suffix.json" 2>"$out/$name.$suffix.log" || tail -n 3 "$out/$name.$suffix.log"
}
ours fsdp llama-1b-untied 4 fsdp2.mb2
torch fsdp eager --case fsdp --micro-batch 2
ours tp llama-1b-untied 4 tp2.mb4 --sequence-parallel
torch tp eager --case tp --micro-batch 4
ours pp llama-1b-untied 8 pp2.mb1
torch pp eager --case pp --micro-batches 8
ours fsdp8b llama-8b-12-layers 2 fsdp2.mb1
torch fsdp8b eager --case fsdp --model llama-3.1-8b --layers 12
torch fsdp compiled --case fsdp --micro-batch 2 --compile
torch fsdp8b compiled --case fsdp --model llama-3.1-8b --layers 12 --compile
python3 "$here/side_by_side.py" "$out"
