// Whatever a launch configuration holds, reading it gives a configuration or one clear line of
// trireme::Error: no other exception, no crash, no hang.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <sstream>
#include <utility>
#include <vector>

#include "core/error.h"
#include "mutate.h"
#include "planner/cost/estimate.h"
#include "planner/launch/read_launch.h"
#include "planner/start/launch_rules.h"

namespace trireme {
namespace {

using planner::LaunchFormat;

constexpr const char* kScript = R"(#!/bin/bash
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
)";
constexpr const char* kBridge =
    R"(from megatron.bridge.recipes import llama31_8b_pretrain_config as recipe
cfg = recipe()
cfg.model.tensor_model_parallel_size = 2
cfg.model.recompute_modules = ["core_attn", "mlp"]
cfg.train.global_batch_size = 8 * 4
cfg.ddp.use_distributed_optimizer = True
)";
constexpr const char* kTitan = R"([model]
name = "llama3"
flavor = "8B"
[training]
local_batch_size = 4
[parallelism]
pipeline_parallel_degree = 2
data_parallel_shard_degree = -1
module_fqns_per_model_part = [["layers.0"], ["layers.1"]]
[activation_checkpoint]
mode = "selective"
)";
constexpr const char* kZero = R"({"train_batch_size": 64, "gradient_accumulation_steps": "auto",
 "bf16": {"enabled": true}, "zero_optimization": {"stage": 3, "reduce_bucket_size": 5e8, "mics_shard_size": 4}})";
constexpr const char* kYaml = R"(distributed_type: FSDP
num_processes: 8
mixed_precision: bf16
fsdp_config:
  fsdp_version: 2
  fsdp_reshard_after_forward: true
parallelism_config:
  parallelism_config_tp_size: 2
  parallelism_config_dp_shard_size: 4
)";

// Lines of a text in another order.
std::string shuffled(const std::string& text, fuzz::Random& random) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) {
    lines.push_back(line + "\n");
  }
  for (std::size_t i = lines.size(); i > 1; --i) {
    std::swap(lines[i - 1], lines[random.below(i)]);
  }
  std::string all;
  for (const std::string& line : lines) {
    all += line;
  }
  return all;
}

std::string spoiled(std::string text, std::uint64_t seed) {
  fuzz::Random random(seed);
  switch (random.below(4)) {
    case 0:
      return text.substr(0, random.below(text.size() + 1));
    case 1:
      return shuffled(text, random);
    default:
      for (std::size_t i = random.below(4) + 1; i > 0; --i) {
        fuzz::spoil_text(text, random);
      }
      return text;
  }
}

using Reader = std::function<planner::LaunchConfig(const std::string& text)>;

// Reads and judges; whether it was accepted.
bool judge(const Reader& read, const std::string& text, std::uint64_t seed) {
  try {
    const planner::LaunchConfig config = read(text);
    planner::LaunchOptions options{.cluster = "dgx-h100x1"};
    options.model = config.model || !config.model_name.empty() ? "" : "gpt2";
    const planner::LaunchCase found = planner::make_launch_case(config, options);
    const planner::RuleReport report = planner::check_launch(config, found);
    EXPECT_TRUE(!report.layout_holds || report.ranks_hold) << seed;
    if (report.layout_holds) {
      planner::Estimate estimate;
      planner::Estimator(found.job).estimate(found.plan, estimate);
      EXPECT_GT(estimate.time.step_seconds, 0) << seed << " " << text;
      EXPECT_GT(estimate.memory.allocated_gib, 0) << seed << " " << text;
    }
    return true;
  } catch (const Error& error) {
    const std::string line = error.what();
    EXPECT_EQ(line.find('\n'), std::string::npos) << "seed " << seed << ": " << line;
  } catch (const std::exception& error) {
    ADD_FAILURE() << "seed " << seed << " threw " << error.what() << " for " << text;
  }
  return false;
}

bool judge(LaunchFormat format, const std::string& text, std::uint64_t seed) {
  return judge(
      [&](const std::string& spoilt) { return planner::read_launch(format, spoilt, "f", {}); },
      text, seed);
}

constexpr const char* kVerlScript = R"(OFFLOAD=${OFFLOAD:-True}
ACTOR=( actor_rollout_ref.actor.use_dynamic_bsz=True
 actor_rollout_ref.actor.ppo_max_token_len_per_gpu=$((1024 * 16))
 actor_rollout_ref.actor.ulysses_sequence_parallel_size=2 )
python3 -m verl.trainer.main_ppo --config-name=ppo_trainer "${ACTOR[@]}" algorithm.adv_estimator=grpo \
  actor_rollout_ref.model.path=Qwen/Qwen3-8B actor_rollout_ref.actor.ppo_mini_batch_size=128 \
  actor_rollout_ref.actor.fsdp_config.param_offload=$OFFLOAD actor_rollout_ref.rollout.n=8 \
  actor_rollout_ref.actor.megatron.tensor_model_parallel_size=2 trainer.n_gpus_per_node=8 \
  data.max_prompt_length=1024 data.max_response_length=3072 +actor_rollout_ref.model.lora_rank=16
)";
constexpr const char* kEasyR1Script = R"(MODEL=Qwen/Qwen3-8B
python3 -m verl.trainer.main config=examples/config.yaml data.max_response_length=2048 \
  worker.actor.model.model_path=${MODEL} worker.actor.ulysses_size=2 worker.actor.global_batch_size=64 \
  worker.rollout.n=8 trainer.n_gpus_per_node=8 'worker.actor.fsdp={fsdp_size: 4, torch_dtype: bf16}'
)";
constexpr const char* kSkyRlScript = R"(MODEL=Qwen/Qwen3-8B
uv run --isolated --extra fsdp -m skyrl.train.entrypoints.main_base trainer.policy.model.path="$MODEL" \
  trainer.strategy=megatron trainer.placement.policy_num_gpus_per_node=8 trainer.policy_mini_batch_size=64 \
  trainer.policy.megatron_config.tensor_model_parallel_size=2 generator.n_samples_per_prompt=8 \
  trainer.policy.megatron_config.transformer_config_kwargs.recompute_num_layers=2
)";
constexpr const char* kNemoRlYaml = R"(grpo:
  num_prompts_per_step: 32
policy:
  model_name: Qwen/Qwen3-8B
  train_global_batch_size: 256
  train_micro_batch_size: 2
  max_total_sequence_length: 4096
  megatron_cfg:
    enabled: true
    tensor_model_parallel_size: 4
  sequence_packing:
    enabled: true
    train_mb_tokens: ${mul:${policy.max_total_sequence_length}, ${..train_micro_batch_size}}
cluster:
  gpus_per_node: 8
)";
constexpr const char* kOpenRlhfScript = R"(read -r -d '' commands <<EOF
openrlhf.cli.train_ppo_ray --actor_num_nodes 1 --actor_num_gpus_per_node 8 --pretrain Qwen/Qwen3-8B \
  --zero_stage 3 --train_batch_size 128 --rollout_batch_size 256 --n_samples_per_prompt 2 --bf16 \
  --prompt_max_len 1024 --generate_max_len 1024 --use_dynamic_batch --train_max_tokens_per_gpu 8192 \
  --ring_attn_size 2 --adam_offload --colocate_all_models --flash_attn
EOF
python3 -m $commands
)";

constexpr const char* kArealYaml = R"(gconfig:
  n_samples: 4
  max_new_tokens: 1024
actor:
  backend: megatron:(attn:d1p2t2|ffn:p2e4)
  path: Qwen/Qwen3-30B-A3B
  mb_spec:
    max_tokens_per_mb: 10240
  max_new_tokens: ${gconfig.max_new_tokens}
train_dataset:
  batch_size: 256
  max_length: 1024
)";

constexpr const char* kAutomodelYaml = R"(recipe: TrainFinetuneRecipeForNextTokenPrediction
step_scheduler:
  global_batch_size: 64
  local_batch_size: 8
model:
  _target_: nemo_automodel.NeMoAutoModelForCausalLM.from_pretrained
  pretrained_model_name_or_path: Qwen/Qwen3-30B-A3B
  torch_dtype: bf16
distributed:
  strategy: fsdp2
  dp_size: 8
  tp_size: none
  pp_size: 2
  ep_size: 8
  activation_checkpointing: true
  pipeline:
    pp_schedule: interleaved1f1b
    layers_per_stage: 4
peft:
  dim: 8
packed_sequence:
  packed_sequence_size: 4096
)";

constexpr const char* kForgeToml = R"([model]
dim = 5120
n_layers = 40
n_heads = 40
n_kv_heads = 8
vocab_size = 128256
ffn_dim_multiplier = 1.3
num_experts = 8
moe_frequency = 2
[train]
batch_size = 2
seq_len = 4096
grad_accum_steps = 4
activation_checkpointing = "full"
[distributed]
dp_shard = 4
tp = 4
pp = 2
ep = 2
pp_schedule = "1f1b"
)";

TEST(Fuzz, LaunchFilesOfActors) {
  std::vector<std::pair<Reader, const char*>> texts = {
      {[](const std::string& text) { return planner::read_verl(text, "f.sh", {}, {}); },
       kVerlScript},
      {[](const std::string& text) { return planner::read_verl(text, "f.sh", {}, {}); },
       kEasyR1Script},
      {[](const std::string& text) { return planner::read_verl(text, "f.sh", {}, {}); },
       kSkyRlScript},
      {[](const std::string& text) { return planner::read_openrlhf(text, "f.sh", {}, {}); },
       kOpenRlhfScript}};
  if (planner::reads_format(LaunchFormat::kTorchtitan)) {
    texts.emplace_back(
        [](const std::string& text) { return planner::read_kempnerforge(text, "f.toml", {}); },
        kForgeToml);
  }
  if (planner::reads_format(LaunchFormat::kAccelerate)) {  // else built without yaml-cpp
    texts.emplace_back(
        [](const std::string& text) { return planner::read_nemo_rl(text, "f.yaml", {}, {}); },
        kNemoRlYaml);
    texts.emplace_back(
        [](const std::string& text) { return planner::read_areal(text, "f.yaml", {}); },
        kArealYaml);
    texts.emplace_back(
        [](const std::string& text) { return planner::read_automodel(text, "f.yaml", {}); },
        kAutomodelYaml);
  }
  for (const auto& [read, text] : texts) {
    EXPECT_TRUE(judge(read, text, 0)) << text;
    const std::uint64_t cases = fuzz::case_count(400);
    std::uint64_t accepted = 0;
    for (std::uint64_t seed = 0; seed < cases; ++seed) {
      accepted += judge(read, spoiled(text, seed), seed) ? 1U : 0U;
    }
    EXPECT_GT(accepted, 0U) << text;
    EXPECT_LT(accepted, cases) << text;
  }
}

TEST(Fuzz, LaunchFiles) {
  constexpr std::pair<LaunchFormat, const char*> kTexts[] = {
      {LaunchFormat::kMegatron, kScript},
      {LaunchFormat::kMegatronBridge, kBridge},
      {LaunchFormat::kTorchtitan, kTitan},
      {LaunchFormat::kDeepspeed, kZero},
      {LaunchFormat::kAccelerate, kYaml}};
  for (const auto& [format, text] : kTexts) {
    if (!planner::reads_format(format)) {
      continue;  // built without toml++ or yaml-cpp
    }
    EXPECT_TRUE(judge(format, text, 0)) << planner::to_string(format);
    const std::uint64_t cases = fuzz::case_count(400);
    std::uint64_t accepted = 0;
    for (std::uint64_t seed = 0; seed < cases; ++seed) {
      accepted += judge(format, spoiled(text, seed), seed) ? 1U : 0U;
    }
    EXPECT_GT(accepted, 0U) << planner::to_string(format);
    EXPECT_LT(accepted, cases) << planner::to_string(format);
  }
}

TEST(Fuzz, LaunchFilesThatNestWithoutEnd) {
  const auto many = [](const std::string& part) {
    std::string text;
    for (int i = 0; i < 20'000; ++i) {
      text += part;
    }
    return text;
  };
  judge(LaunchFormat::kMegatron, "run --num-layers $((" + many("(") + "1" + many(")") + "))", 1);
  judge(LaunchFormat::kMegatron, many("if true; then ") + "x", 2);
  judge(LaunchFormat::kMegatron, "run " + many("${a:-") + many("}"), 3);
  judge(LaunchFormat::kMegatronBridge, many("cfg.model = P(a=(\n"), 9);
  judge(LaunchFormat::kAccelerate, many("["), 4);
  judge(LaunchFormat::kAccelerate, many("- "), 5);
  judge(LaunchFormat::kTorchtitan, "a = " + many("["), 6);
  judge(LaunchFormat::kDeepspeed, many("{\"a\":"), 7);
  judge(LaunchFormat::kDeepspeed, many("[") + many("]"), 8);
}

}  // namespace
}  // namespace trireme
