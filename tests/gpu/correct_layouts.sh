#!/usr/bin/env bash
# correct_layouts.sh TRIREME FOLDER [GPUS] [MODELS]: trains tiny models under every layout of that many GPUs and compares the losses
# with the CPU reference in fp32 (made first, unless FOLDER has it already). Fails when one is further than the tolerance of
# bf16, or of fp8 (compare_losses.py). MODELS: a list of those; all when left out.
set -u
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
trireme=$1
out=$2
gpus=${3:-2}
mkdir -p "$out"
steps=20
case $gpus in
  1) layouts=(tp1 "mb2 --precision fp8" "mb2 --precision fp8 --recompute full" "mb2 --precision fp8 --set fp8_recipe=delayed") ;;
  2) layouts=(tp1 tp2 pp2 fsdp2 dp2 "tp2 --sequence-parallel" "fsdp2 --recompute full" "dp2 --sharding optimizer"
    "fsdp2 --sharding gradients" "fsdp2 --fsdp-unit 2" "fsdp2 --fsdp-unit model" pp2.vpp2 "pp2 --schedule gpipe"
    "pp2 --schedule zb-h1" "pp2 --schedule zb-v" "pp2 --schedule dualpipe-v" "tp2 --precision fp8"
    "tp2 --precision fp8 --sequence-parallel" "fsdp2 --precision fp8" "pp2 --precision fp8") ;;
  4) layouts=(tp4 pp4 fsdp4 tp2.pp2 tp2.fsdp2 pp2.fsdp2 fsdp2.dp2 "tp2.fsdp2 --sequence-parallel") ;;
  8) layouts=(tp8 fsdp8 tp2.pp2.fsdp2 tp4.fsdp2 pp4.fsdp2 fsdp4.dp2 fsdp2.dp4 "tp2.pp2.fsdp2 --sequence-parallel") ;;
esac
failed=0
experts=()
[ "$gpus" = 1 ] && experts=(mb1 mb2 "mb2 --recompute full" "mb2 --precision fp8"
  "mb2 --precision fp8 --recompute full")
[ "$gpus" = 2 ] && experts=(ep2.dp2 ep2.fsdp2 fsdp2 "ep2.fsdp2 --recompute full" pp2 tp2 tp2.ep2.etp1 cp2.ep2
  "ep2.fsdp2 --precision fp8" "tp2.ep2.etp1 --precision fp8" "pp2 --precision fp8")
[ "$gpus" = 4 ] && experts=(ep4.dp4 ep4.fsdp4 ep2.fsdp4 ep2.dp2.fsdp2 "tp2.ep2.etp1.fsdp2 --sequence-parallel"
  "tp2.ep2.dp2 --sequence-parallel" pp2.ep2.fsdp2 cp2.ep4.fsdp2)
[ "$gpus" = 8 ] && experts=(ep8.dp8 ep8.fsdp8 ep4.fsdp8 ep4.dp2.fsdp4 "tp2.ep4.etp1.fsdp4 --sequence-parallel"
  "tp2.ep2.dp4 --sequence-parallel" pp2.ep4.fsdp4 cp2.ep4.fsdp4)
[ "$gpus" = 2 ] && layouts+=(cp2 "cp2 --recompute full" "cp2 --set context_all_to_all=true" "cp2 --set context_gather=false"
  "cp2 --recompute full --set context_gather=false" "cp2 --precision fp8" "cp2 --precision fp8 --set context_gather=false")
[ "$gpus" = 4 ] && layouts+=(cp4 cp2.fsdp2 tp2.cp2 cp2.pp2 "cp4 --set context_all_to_all=true" "cp4 --set context_gather=false"
  "cp2.fsdp2 --set context_gather=false" "tp2.cp2 --set context_gather=false" "cp2.pp2 --set context_gather=false")
[ "$gpus" = 8 ] && layouts+=(cp8 cp4.fsdp2 cp2.fsdp4 "tp2.cp2.fsdp2 --sequence-parallel" cp4.pp2
  "cp8 --set context_all_to_all=true" "cp8 --set context_gather=false" "cp4.fsdp2 --set context_gather=false")
latent=() scaled=()
[ "$gpus" = 1 ] && latent=(mb1 "mb2 --recompute full" "mb2 --precision fp8") && scaled=(mb1 "mb2 --recompute full")
[ "$gpus" = 2 ] && latent=(tp2 "tp2 --sequence-parallel" fsdp2 pp2 ep2.fsdp2 "ep2.fsdp2 --precision fp8"
  "tp2 --precision fp8 --sequence-parallel")
for model in ${4:-tiny-llama tiny-gpt ${experts:+tiny-experts} ${latent:+tiny-latent} ${scaled:+tiny-scaled}}; do
  if [ "$gpus" -gt 2 ] && [ $model = tiny-llama ]; then
    model=wide-llama  # as many key heads as ranks
  fi
  common=(--model "$here/models/$model.json" --seq 128 --global-batch 8 --steps $steps --seed 3 --lr 1e-3 --timeout 60)
  [ -f "$out/$model.cpu.json" ] ||
    "$trireme" run --backend cpu --precision fp32 "${common[@]}" --layout tp1 -o "$out/$model.cpu.json" >"$out/$model.cpu.log" 2>&1 || {
    cat "$out/$model.cpu.log"; exit 1; }
  forms=("${layouts[@]}")
  [ $model = tiny-experts ] && forms=("${experts[@]}")
  [ $model = tiny-latent ] && forms=("${latent[@]}")
  [ $model = tiny-scaled ] && forms=("${scaled[@]}")
  for layout in "${forms[@]}"; do
    name=$model.${layout// /}
    # shellcheck disable=SC2086
    if ! timeout 100 "$trireme" run --backend cuda "${common[@]}" --layout $layout -o "$out/$name.json" >"$out/$name.log" 2>&1; then
      echo "$name: $(tail -n 1 "$out/$name.log")"
      failed=1
      continue
    fi
    python3 "$here/compare_losses.py" "$name" "$out/$model.cpu.json" "$out/$name.json" || failed=1
  done
done
exit $failed
