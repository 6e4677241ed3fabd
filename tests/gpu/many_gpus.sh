#!/usr/bin/env bash
# many_gpus.sh TRIREME FOLDER GPUS [STAGES]: four or eight GPUs of one host. Losses of every kind of layout
# against the CPU's, a quick calibration, the layouts of two models predicted and run, collectives against NCCL's model,
# weak scaling of FSDP; experts spread over the GPUs, sequences of 32k shared by them, and the real frameworks
# (tests/frameworks says what those need). Each stage takes under ten minutes. What is done already in FOLDER is kept, so that
# STAGES (a list of build, correct, calibrate, layouts, scaling, experts, context, frameworks, report; all when left out) can
# come one after the other. FOLDER/many_gpus.json has every figure.
# CPU references made beforehand (correct_layouts.sh with GPUS and no GPU stops after them) save their time here.
set -u
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
trireme=$1
out=$2
gpus=$3
stages=${4:-build correct calibrate layouts scaling experts context frameworks report}
mkdir -p "$out"
models=llama-3.2-1b,gpt3-1.3b
reported=$models,experts-2b,llama-3.2-1b-32k
begin=$SECONDS
failed=0

case $(nvidia-smi --query-gpu=name --format=csv,noheader 2>/dev/null | head -n 1) in
  *H100*) default_cluster=dgx-h100x1 ;;
  *A100*80GB*) default_cluster=dgx-a100-80gbx1 ;;
  *) default_cluster=hgx-h200x1 ;;
esac
cluster=${CLUSTER:-$default_cluster}

case $gpus in
  2)
    layouts=tp2.mb1,pp2.mb1,fsdp2.mb1,dp2.mb1
    experts=ep2.dp2.mb1,ep2.fsdp2.mb1,ep2.fsdp2.mb2,fsdp2.mb1,tp2.mb1,tp2.ep2.etp1.mb1,pp2.mb1
    context=cp2.mb1,fsdp2.mb1,cp2.mb1.rc-full
    ;;
  4)
    layouts=tp4.mb1,pp4.mb1,fsdp4.mb1,dp4.mb1,tp2.fsdp2.mb2,tp2.pp2.mb1,pp2.fsdp2.mb1,fsdp2.dp2.mb1
    experts=ep4.dp4.mb1,ep4.fsdp4.mb1,ep4.fsdp4.mb2,ep2.fsdp4.mb1,fsdp4.mb1,tp2.ep2.etp1.fsdp2.mb1,tp2.ep2.fsdp2.mb1,pp2.ep2.fsdp2.mb1
    context=cp4.mb1,cp2.fsdp2.mb1,fsdp4.mb1,tp2.cp2.mb1,cp4.mb1.rc-full,cp2.pp2.mb1
    ;;
  8)
    layouts=tp8.mb1,pp8.mb1,fsdp8.mb1,tp2.fsdp4.mb1,tp4.pp2.mb1,pp2.fsdp4.mb1,fsdp4.dp2.mb1,tp2.pp2.fsdp2.mb1
    experts=ep8.dp8.mb1,ep8.fsdp8.mb1,ep4.fsdp8.mb1,ep4.dp2.fsdp4.mb1,fsdp8.mb1,tp2.ep4.etp1.fsdp4.mb1,tp2.ep2.fsdp4.mb1,pp2.ep4.fsdp4.mb1
    context=cp8.mb1,cp4.fsdp2.mb1,cp2.fsdp4.mb1,fsdp8.mb1,tp2.cp4.mb1,tp2.cp2.fsdp2.mb1,cp4.pp2.mb1
    ;;
  *) echo "GPUS must be 2, 4 or 8"; exit 2 ;;
esac

has() { [[ " $stages " == *" $1 "* ]]; }
spent() { printf '%-10s ended after %d s\n' "$1" $((SECONDS - begin)); }

if has build && [ ! -x "$trireme" ]; then
  build=$(dirname "$(dirname "$trireme")")
  cmake -S "$here/../.." -B "$build" -DTRIREME_CUDA=ON -DTRIREME_TESTS=OFF >"$out/build.log" 2>&1 &&
    cmake --build "$build" -j "$(nproc)" --target trireme >>"$out/build.log" 2>&1 ||
    { tail -n 5 "$out/build.log"; exit 1; }
  spent build
fi
if has correct; then
  timeout 240 "$here/correct_layouts.sh" "$trireme" "$out" "$gpus" | tee "$out/correct.log"
  [ "${PIPESTATUS[0]}" -eq 0 ] || failed=1
  spent correct
fi
if has calibrate && [ ! -f "$out/machine.profile" ]; then
  timeout 150 "$trireme" calibrate --quick -o "$out/machine.profile" --raw "$out/points.json" >"$out/calibrate.log" 2>&1 ||
    { tail -n 2 "$out/calibrate.log"; failed=1; }
  spent calibrate
fi
if has layouts; then
  timeout 300 python3 "$here/experiment.py" measure "$trireme" "$out/experiment" --cluster "$cluster" --gpus "$gpus" \
    --models "$models" --layouts "$layouts" || failed=1
  spent layouts
fi
if has scaling; then
  for ((ranks = 1; ranks <= gpus; ranks *= 2)); do
    layout=fsdp$ranks.mb2
    [ $ranks -gt 1 ] || layout=mb2
    [ -f "$out/scaling.$ranks.json" ] ||
      timeout 60 "$trireme" run --backend cuda --model llama-3.2-1b --seq 4096 --global-batch $((2 * ranks)) --layout $layout \
        --steps 9 --lr 1e-5 --timeout 40 -o "$out/scaling.$ranks.json" -q >"$out/scaling.log" 2>&1 ||
      { tail -n 1 "$out/scaling.log"; failed=1; }
  done
  spent scaling
fi
# Layouts of one more model, predicted and run.
run_layouts() {
  timeout 480 python3 "$here/experiment.py" measure "$trireme" "$out/experiment" --cluster "$cluster" --gpus "$gpus" \
    --models "$1" --layouts "$2" || failed=1
}
if has experts; then
  run_layouts experts-2b "$experts"
  spent experts
fi
if has context; then
  run_layouts llama-3.2-1b-32k "$context"
  spent context
fi
if has frameworks; then
  timeout 590 python3 "$here/../frameworks/start.py" all "$trireme" "$out/frameworks" --gpus "$gpus" --seconds 520 --each 75 \
    --hurry --rows "$out/frameworks/rows.json"
  case $? in
    0) ;;
    77) echo "frameworks: none was started" ;;
    *) failed=1 ;;
  esac
  spent frameworks
fi
if has report; then
  python3 "$here/experiment.py" report "$trireme" "$out/experiment" --cluster "$cluster" --gpus "$gpus" --models "$reported" \
    --profile "$out/machine.profile" || failed=1
  python3 "$here/many_gpus.py" "$trireme" "$out" "$cluster" "$gpus" || failed=1
  spent report
fi
exit $failed
