#!/usr/bin/env bash
# launchers.sh TRIREME: the CPU backend under real launchers, as far as this machine has them. Two ranks of Open MPI's mpirun, on one
# host and on two emulated ones (network namespaces), have the losses of two threads; ranks that were told unlike things and hosts
# without MASTER_ADDR end at once, and a second run with the same port leaves the first alone. Under srun the same on one node, where a
# Slurm answers. Exits 77 (skipped) without mpirun.
set -u
trireme=$1
command -v mpirun >/dev/null && mpirun --version 2>/dev/null | grep -q 'Open MPI' || { echo "skipped: needs Open MPI's mpirun"; exit 77; }
work=$(mktemp -d)
# mpirun asks its agent to start a daemon at an address, and namespaces are found by theirs.
a=10.79.$(($$ % 250)).1 b=10.79.$(($$ % 250)).2
cleanup() {
  ip netns del "trireme-$a" 2>/dev/null
  ip netns del "trireme-$b" 2>/dev/null
  rm -rf "$work"
}
trap cleanup EXIT
failed=0
report() {  # NAME PROBLEM DETAIL
  printf '%-34s %s\n' "$1" "${2:+FAIL $2 }${2:-ok  }$3"
  [ -z "$2" ] || failed=1
}
losses() { python3 -c 'import json,sys; print([s["loss"] for s in json.load(open(sys.argv[1]))["steps"]])' "$1"; }

cat >"$work/model.json" <<'JSON'
{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 64, "intermediate_size": 128,
 "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 4, "vocab_size": 512,
 "max_position_embeddings": 128, "rms_norm_eps": 1e-05, "rope_theta": 10000.0, "hidden_act": "silu",
 "tie_word_embeddings": false, "torch_dtype": "bfloat16"}
JSON
run=("$trireme" run --backend cpu --model "$work/model.json" --seq 32 --global-batch 4 --precision fp64 --layout fsdp2.mb1 -q)
mpi=(timeout 120 mpirun --allow-run-as-root --oversubscribe)
export MASTER_PORT=$((20000 + $$ % 8000))

"${run[@]}" --steps 3 -o "$work/threads.json" >"$work/threads.log" 2>&1
# same_losses NAME LAUNCHER...
same_losses() {
  local name=$1 problem=
  shift
  rm -f "$work/ranks.json"
  "$@" "${run[@]}" --steps 3 -o "$work/ranks.json" >"$work/log" 2>&1 || problem="exit $?: $(grep -m 1 trireme: "$work/log")"
  [ -n "$problem" ] || [ "$(losses "$work/threads.json")" = "$(losses "$work/ranks.json")" ] || problem="other losses"
  report "$name" "$problem" "$(losses "$work/threads.json")"
}
# refuses NAME PATTERN COMMAND...: ends with a line that says what the pattern says.
refuses() {
  local name=$1 pattern=$2 problem=
  shift 2
  "$@" >"$work/log" 2>&1 && problem="exit 0"
  grep -q -E "^trireme: $pattern" "$work/log" || problem="says $(head -n 1 "$work/log")"
  report "$name" "$problem" "$(grep -m 1 -E "^trireme: $pattern" "$work/log")"
}

same_losses "mpirun, one host" "${mpi[@]}" -n 2
refuses "mpirun, unlike seeds" '--seed: rank 0 on host-a has 1, rank 1 on host-b has 7;' \
  "${mpi[@]}" -n 1 -x NCCL_HOSTID=host-a "${run[@]}" : -n 1 -x NCCL_HOSTID=host-b "${run[@]}" --seed 7

"${mpi[@]}" -n 2 "${run[@]}" --steps 1000000 --save "$work/save" --save-every 1 >"$work/first.log" 2>&1 &
first=$!
for _ in $(seq 600); do
  [ -e "$work/save/latest" ] && break
  sleep 0.1
done
refuses "mpirun, a port in use" 'MASTER_PORT: cannot listen' "${mpi[@]}" -n 2 "${run[@]}"
before=$(cat "$work/save/latest")
for _ in $(seq 600); do
  [ "$before" = "$(cat "$work/save/latest")" ] || break
  sleep 0.1
done
report "  and the run that has it" "$([ "$before" != "$(cat "$work/save/latest")" ] || tail -n 1 "$work/first.log")" "goes on after $before"
kill "$first"
wait "$first" 2>/dev/null

if { ip netns add "trireme-$a" && ip netns add "trireme-$b" &&
     ip link add va-$$ netns "trireme-$a" type veth peer name vb-$$ netns "trireme-$b"; } 2>/dev/null; then
  ip netns exec "trireme-$a" sh -c "ip addr add $a/24 dev va-$$; ip link set va-$$ up; ip link set lo up"
  ip netns exec "trireme-$b" sh -c "ip addr add $b/24 dev vb-$$; ip link set vb-$$ up; ip link set lo up"
  cat >"$work/agent" <<'SH'
#!/bin/sh
host=$1; shift
exec ip netns exec "trireme-$host" sh -c "$*"
SH
  chmod +x "$work/agent"
  hosts=(ip netns exec "trireme-$a" "${mpi[@]}" --host "$a:1,$b:1" --mca plm_rsh_agent "$work/agent"
    --mca oob_tcp_if_include "${a%.*}.0/24" -n 2)
  same_losses "mpirun, two hosts" "${hosts[@]}" -x MASTER_ADDR="$a" -x MASTER_PORT
  refuses "mpirun, hosts without MASTER_ADDR" 'MASTER_ADDR: is missing' "${hosts[@]}" "${run[@]}"
else
  echo "mpirun, two hosts: skipped, needs root and network namespaces"
fi

if command -v srun >/dev/null && timeout 10 sinfo >/dev/null 2>&1; then
  same_losses "srun, one node" timeout 120 srun -N 1 -n 2 --overcommit
else
  echo "srun: skipped, no Slurm answers here"
fi
exit "$failed"
