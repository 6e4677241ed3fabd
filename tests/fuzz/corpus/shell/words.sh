#!/bin/sh
. ./other.sh
size=$1; tp="${2:-4}"; name='a b'
case "$size" in 7B|8B) layers=32 ;; *) layers=80 ;; esac
if [ "$tp" -gt 1 ] && [ -n "$A" ]; then extra="--sequence-parallel"; fi
while read -r line; do echo "$line"; done <<EOF
$(seq 1 3)
EOF
export N=$((layers * tp / 2)) M=${name// /_}
exec torchrun --nproc_per_node="$tp" train.py --num-layers $layers $extra "$@" > log 2>&1
