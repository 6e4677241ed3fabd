#!/usr/bin/env bash
# offloaded_layouts.sh TRIREME FOLDER [MODELS]: trains with the optimizer's states or the activations in the host's memory and without, under layouts of
# the GPUs that are there, one or two (--deterministic). Fails when a loss differs by more than 1e-4 of it: under tp2 two H200 gave the same bits, sharded over
# two ranks they differed by up to 3e-5. MODELS: a list of those below; all when left out.
set -u
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
trireme=$1
out=$2
mkdir -p "$out"
layouts=(mb1 "mb2 --recompute full" "mb1 --recompute selective" "mb1 --freeze-layers 2" "mb1 --precision fp8")
two=(tp2 pp2 dp2 cp2 fsdp2 "fsdp2 --sharding optimizer" "fsdp2 --sharding gradients" "fsdp2 --recompute full"
  "fsdp2 --lora-rank 8" "tp2 --lora-rank 8" "fsdp2 --freeze-layers 2")
large=(mb1)
[ "$(nvidia-smi -L | wc -l)" -gt 1 ] && layouts+=("${two[@]}") && large=(tp2 fsdp2)
failed=0
# Units of the larger model take several turns on their way.
for model in "tiny-llama 128 6" "tiny-gpt 128 6" "tiny-experts 128 6" "tiny-latent 128 6" "llama-1b-untied 1024 3"; do
  read -r name seq steps <<<"$model"
  [[ " ${3:-$name} " == *" $name "* ]] || continue
  forms=("${layouts[@]}")
  [ "$name" = llama-1b-untied ] && forms=("${large[@]}")
  for layout in "${forms[@]}"; do
    for offload in "" optimizer activations; do
      run=$out/$name.${layout// /}${offload:+.$offload}
      # shellcheck disable=SC2086
      timeout 100 "$trireme" run --backend cuda --model "$here/models/$name.json" --seq "$seq" --global-batch 8 --steps "$steps" --seed 3 \
        --lr 1e-3 --timeout 60 --deterministic --layout $layout ${offload:+--offload $offload} -o "$run.json" >"$run.log" 2>&1 || {
        echo "$name $layout $offload: $(tail -n 1 "$run.log")"; failed=1; continue 2; }
    done
    python3 - "$name $layout" "$out/$name.${layout// /}" <<'PY' || failed=1
import json, sys
stay, *offloaded = ([s["loss"] for s in json.load(open(sys.argv[2] + end))["steps"]] for end in (".json", ".optimizer.json", ".activations.json"))
for what, moved in zip(("optimizer", "activations"), offloaded):
    same = "the same bits" if moved == stay else f"{stay[-1]:.6f} without offload"
    print(f"{sys.argv[1]}, {what} on the host: losses {moved[0]:.6f} to {moved[-1]:.6f}, {same}")
sys.exit(any(abs(a - b) > 1e-4 * abs(b) for moved in offloaded for a, b in zip(moved, stay)))
PY
  done
done
exit $failed
