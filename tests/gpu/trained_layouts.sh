#!/usr/bin/env bash
# trained_layouts.sh TRIREME FOLDER: trains adapters beside frozen weights, and layers above frozen ones, under layouts of
# one and two GPUs, and compares the losses with the CPU reference in fp32. Fails when one is further than bf16's tolerance.
set -u
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
trireme=$1
out=$2
mkdir -p "$out"
trained=("--lora-rank 8" "--lora-rank 8 --lora-targets attention" "--freeze-layers 2")
layouts=(tp1 tp2 "tp2 --sequence-parallel" pp2 "pp2 --schedule zb-h1" dp2 fsdp2 "fsdp2 --recompute full" "dp2 --sharding optimizer"
  "tp1 --precision fp8" "fsdp2 --precision fp8")
failed=0
for model in tiny-llama tiny-gpt; do
  for how in "${trained[@]}"; do
    # shellcheck disable=SC2206
    common=(--model "$here/models/$model.json" --seq 128 --global-batch 8 --steps 20 --seed 3 --lr 1e-2 --timeout 60 $how)
    name=$model${how// /}
    "$trireme" run --backend cpu --precision fp32 "${common[@]}" --layout tp1 -o "$out/$name.cpu.json" >"$out/$name.cpu.log" 2>&1 || {
      cat "$out/$name.cpu.log"; exit 1; }
    for layout in "${layouts[@]}"; do
      run=$name.${layout// /}
      # shellcheck disable=SC2086
      if ! timeout 100 "$trireme" run --backend cuda "${common[@]}" --layout $layout -o "$out/$run.json" >"$out/$run.log" 2>&1; then
        echo "$run: $(tail -n 1 "$out/$run.log")"
        failed=1
        continue
      fi
      python3 "$here/compare_losses.py" "$run" "$out/$name.cpu.json" "$out/$run.json" || failed=1
    done
  done
done
exit $failed
