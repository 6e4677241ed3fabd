// What to write instead, in the words of the trainer that the file starts: it hands degrees and
// batches on to Megatron-LM, DeepSpeed or accelerate under names of its own.
#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "planner/launch/field_table.h"
#include "planner/launch/trainers/trainer.h"
#include "planner/start/trainer_rules.h"

namespace trireme::planner {
namespace {

// A word of a format with what separates it from its value, and the trainer's with its own; empty:
// it has none, and what rests on it is left out. "verl*" is of both of verl's programs, and @
// stands for where each holds Megatron-Core's settings.
struct Word {
  std::string_view program, from, to;
};
constexpr std::string_view kMicro = "the micro-batch (--micro-batch): ";
constexpr std::string_view kBatch = "the global batch (--global-batch): ";
constexpr std::string_view kSequence = "the sequence (--seq): ";
constexpr std::string_view kOptionOfSequence = "the sequence (--seq) ";
constexpr std::string_view kMicroJson = "train_micro_batch_size_per_gpu ";
constexpr std::string_view kBatchJson = "train_batch_size ";
constexpr std::string_view kContext = "parallelism_config_cp_size: ";
constexpr std::string_view kTensor = "parallelism_config_tp_size: ";
constexpr std::string_view kShards = "parallelism_config_dp_shard_size: ";
constexpr std::string_view kReplicas = "parallelism_config_dp_replicate_size: ";
constexpr std::string_view kProduct =
    "per_device_train_batch_size x gradient_accumulation_steps x GPUs = ";

constexpr Word kWords[] = {
    {"verl", kMicro, "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu="},
    {"verl", kBatch, "actor_rollout_ref.actor.ppo_mini_batch_size x rollout.n = "},
    {"verl", kSequence, "data.max_prompt_length + data.max_response_length = "},
    {"verl", kContext, "actor_rollout_ref.actor.ulysses_sequence_parallel_size="},
    {"verl", kShards, "actor_rollout_ref.actor.fsdp_config.fsdp_size="},
    {"verl", kTensor, ""},
    {"verl", kReplicas, ""},
    {"verl", "--micro-batch-size ", "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu="},
    {"verl", "--global-batch-size ", "actor_rollout_ref.actor.ppo_mini_batch_size x rollout.n = "},
    {"verl", "--seq-length ", "data.max_prompt_length + data.max_response_length = "},
    {"verl*", "without --recompute-granularity",
     "@override_transformer_config.recompute_granularity=null"},
    {"verl*", "without --no-overlap-p2p-communication",
     "++@override_transformer_config.overlap_p2p_comm=True"},
    {"verl*", "without --optimizer-cpu-offload and --cpu-offloading",
     "optimizer_cpu_offload=False in override_optimizer_config"},
    {"verl*", "--fp8-format ", "++@override_transformer_config.fp8="},
    {"verl*", "--grad-reduce-in-bf16", "++@override_ddp_config.grad_reduce_in_fp32=False"},
    {"verl*", "--fp8-param-gather", ""},
    {"verl*", "dynamo_config: ", ""},
    {"verl", "--cross-entropy-loss-fusion", "actor_rollout_ref.model.use_fused_kernels=True"},
    {"verl-sft", "--cross-entropy-loss-fusion", "model.use_fused_kernels=True"},
    {"verl",
     "fsdp_activation_checkpointing: ", "actor_rollout_ref.model.enable_gradient_checkpointing="},
    {"verl-sft", "fsdp_activation_checkpointing: ", "model.enable_gradient_checkpointing="},
    {"verl", "fsdp_offload_params: ", "actor_rollout_ref.actor.fsdp_config.offload_policy="},
    {"verl-sft", "fsdp_offload_params: ", "engine.offload_policy="},
    {"verl-sft", kMicro, "data.micro_batch_size_per_gpu="},
    {"verl-sft", kBatch, "data.train_batch_size="},
    {"verl-sft", kSequence, "data.max_length="},
    {"verl-sft", kContext, "engine.ulysses_sequence_parallel_size="},
    {"verl-sft", kShards, "engine.fsdp_size="},
    {"verl-sft", kTensor, ""},
    {"verl-sft", kReplicas, ""},
    {"verl-sft", "--micro-batch-size ", "data.micro_batch_size_per_gpu="},
    {"verl-sft", "--global-batch-size ", "data.train_batch_size="},
    {"verl-sft", "--seq-length ", "data.max_length="},
    {"easyr1", kMicro, "worker.actor.micro_batch_size_per_device_for_update="},
    {"easyr1", kBatch, "worker.actor.global_batch_size x worker.rollout.n = "},
    {"easyr1", kSequence, "data.max_prompt_length + data.max_response_length = "},
    {"easyr1", kContext, "worker.actor.ulysses_size="},
    {"easyr1", kShards, "worker.actor.fsdp.fsdp_size="},
    {"easyr1", kTensor, ""},
    {"easyr1", kReplicas, ""},
    {"easyr1", "dynamo_config: ", ""},
    {"easyr1",
     "fsdp_activation_checkpointing: ", "worker.actor.model.enable_gradient_checkpointing="},
    {"easyr1", "fsdp_offload_params: ", "worker.actor.fsdp.enable_cpu_offload="},
    {"skyrl", kMicro, "trainer.micro_train_batch_size_per_gpu="},
    {"skyrl", kBatch, "trainer.policy_mini_batch_size x generator.n_samples_per_prompt = "},
    {"skyrl", kSequence,
     "trainer.max_prompt_length + generator.sampling_params.max_generate_length = "},
    {"skyrl", kContext, "trainer.policy.sequence_parallel_size="},
    {"skyrl", kShards, "trainer.policy.fsdp_config.fsdp_size="},
    {"skyrl", kTensor, ""},
    {"skyrl", kReplicas, ""},
    {"skyrl", "--micro-batch-size ", "trainer.micro_train_batch_size_per_gpu="},
    {"skyrl", "--global-batch-size ",
     "trainer.policy_mini_batch_size x generator.n_samples_per_prompt = "},
    {"skyrl", "--seq-length ",
     "trainer.max_prompt_length + generator.sampling_params.max_generate_length = "},
    {"skyrl", "dynamo_config: ", ""},
    {"skyrl", "fsdp_activation_checkpointing: ", "trainer.gradient_checkpointing="},
    {"skyrl", "fsdp_offload_params: ", "trainer.policy.fsdp_config.cpu_offload="},
    {"nemo-rl", kMicro, "policy.train_micro_batch_size="},
    {"nemo-rl", kBatch, "policy.train_global_batch_size="},
    {"nemo-rl", kSequence, "policy.max_total_sequence_length="},
    {"nemo-rl", kContext, "policy.dtensor_cfg.context_parallel_size="},
    {"nemo-rl", kTensor, "policy.dtensor_cfg.tensor_parallel_size="},
    {"nemo-rl", kReplicas, "policy.dtensor_cfg.dp_replicate_size="},
    {"nemo-rl", kShards, ""},
    {"nemo-rl", "dynamo_config: ", ""},
    {"nemo-rl", "fsdp_activation_checkpointing: ", "policy.dtensor_cfg.activation_checkpointing="},
    {"nemo-rl", "fsdp_offload_params: ", "policy.dtensor_cfg.cpu_offload="},
    {"nemo-rl", "--micro-batch-size ", "policy.train_micro_batch_size="},
    {"nemo-rl", "--global-batch-size ", "policy.train_global_batch_size="},
    {"nemo-rl", "--seq-length ", "policy.max_total_sequence_length="},
    {"nemo-rl", "without --recompute-granularity",
     "policy.megatron_cfg.activation_checkpointing=false"},
    {"nemo-rl", "--recompute-granularity full --recompute-method uniform --recompute-num-layers 1",
     "policy.megatron_cfg.activation_checkpointing=true"},
    {"nemo-rl", "--grad-reduce-in-bf16",
     "@distributed_data_parallel_config.grad_reduce_in_fp32=false"},
    {"nemo-rl", "without --optimizer-cpu-offload and --cpu-offloading",
     "@optimizer.optimizer_cpu_offload=false"},
    {"nemo-rl", "--cross-entropy-loss-fusion", ""},
    {"nemo-rl", "--fp8-", ""},
    {"nemo-automodel", kMicro, "step_scheduler.local_batch_size: "},
    {"nemo-automodel", kBatch, "step_scheduler.global_batch_size: "},
    {"nemo-automodel", kSequence, "packed_sequence.packed_sequence_size: "},
    {"nemo-automodel", kTensor, "distributed.tp_size: "},
    {"nemo-automodel", kContext, "distributed.cp_size: "},
    {"nemo-automodel", kShards, ""},
    {"nemo-automodel", kReplicas, "distributed.dp_replicate_size: "},
    {"nemo-automodel", "expert parallelism: ", "distributed.ep_size: "},
    {"nemo-automodel", "dynamo_config: ", ""},
    {"nemo-automodel", "fsdp_activation_checkpointing: ", "distributed.activation_checkpointing: "},
    {"nemo-automodel", "fsdp_offload_params: ", ""},
    {"nemo-automodel", "[compile] components = [\"loss\"]", ""},
    {"nemo-automodel", "[compile] enable = true", "compile.enabled: true"},
    {"nemo-automodel", "[model] converters = [\"quantize.linear.float8\"]", "fp8.enabled: true"},
    {"kempnerforge", kMicro, "train.batch_size = "},
    {"kempnerforge", kBatch, "train.batch_size x grad_accum_steps x data ranks = "},
    {"kempnerforge", kSequence, "train.seq_len = "},
    {"kempnerforge", kTensor, "distributed.tp = "},
    {"kempnerforge", kContext, ""},
    {"kempnerforge", kShards, "distributed.dp_shard = "},
    {"kempnerforge", kReplicas, "distributed.dp_replicate = "},
    {"kempnerforge", "dynamo_config: ", ""},
    {"kempnerforge", "fsdp_activation_checkpointing: ", "train.activation_checkpointing = "},
    {"kempnerforge", "fsdp_offload_params: ", ""},
    {"areal", kBatch, "train_dataset.batch_size x gconfig.n_samples / actor.ppo_n_minibatches = "},
    {"areal", kMicro, ""},
    {"areal", kSequence, "train_dataset.max_length + gconfig.max_new_tokens = "},
    {"areal", kTensor, "t of actor.backend = "},
    {"areal", kContext, "c of actor.backend = "},
    {"areal", kShards, "d of actor.backend = "},
    {"areal", kReplicas, ""},
    {"areal", "dynamo_config: ", ""},
    {"areal", "fsdp_activation_checkpointing: ", "actor.gradient_checkpointing: "},
    {"areal", "fsdp_offload_params: ", "actor.fsdp.offload_params: "},
    {"areal", "--global-batch-size ",
     "train_dataset.batch_size x gconfig.n_samples / actor.ppo_n_minibatches = "},
    {"areal", "--micro-batch-size ", ""},
    {"areal", "--tensor-model-parallel-size ", "t of actor.backend = "},
    {"areal", "--pipeline-model-parallel-size ", "p of actor.backend = "},
    {"areal", "--context-parallel-size ", "c of actor.backend = "},
    {"areal", "--expert-model-parallel-size ", "e of actor.backend = "},
    {"areal", "--recompute-granularity full --recompute-method uniform --recompute-num-layers 1",
     "actor.gradient_checkpointing: true"},
    {"areal", "without --recompute-granularity", "actor.gradient_checkpointing: false"},
    {"openrlhf", kMicroJson, "--train.micro_batch_size "},
    {"openrlhf", kBatchJson, "--train.batch_size "},
    {"openrlhf", kOptionOfSequence, "--data.max_len "},
    {"openrlhf", "tensor_parallel.autotp_size ", "--ds.tensor_parallel_size "},
    {"openrlhf", "sequence_parallel_size ", "--ds.ring_attn_size "},
    {"openrlhf", "zero_optimization.stage ", "--ds.zero_stage "},
    {"openrlhf", "gradient_checkpointing_enable() in the training script",
     "--model.gradient_checkpointing_enable (an actor's: --actor.gradient_checkpointing_enable)"},
    {"openrlhf", "no gradient_checkpointing_enable()", "without its gradient_checkpointing_enable"},
    {"openrlhf", "\"overlap_comm\": true", "--ds.overlap_comm"},
    {"openrlhf", "without \"offload_optimizer\" and \"offload_param\"",
     "without --ds.adam_offload"},
    {"openrlhf-2025", "gradient_checkpointing_enable() in the training script",
     "--gradient_checkpointing"},
    {"openrlhf-2025", "no gradient_checkpointing_enable()", "without --gradient_checkpointing"},
    {"openrlhf-2025", "\"overlap_comm\": true", "--overlap_comm"},
    {"openrlhf-2025", "without \"offload_optimizer\" and \"offload_param\"",
     "without --adam_offload"},
    {"openrlhf", "pipeline.stages ", ""},
    {"openrlhf", "expert_parallel.autoep_size ", ""},
    {"openrlhf-2025", kMicroJson, "--micro_train_batch_size "},
    {"openrlhf-2025", kBatchJson, "--train_batch_size "},
    {"openrlhf-2025", kOptionOfSequence, "--max_len "},
    {"openrlhf-2025", "tensor_parallel.autotp_size ", "--ds_tensor_parallel_size "},
    {"openrlhf-2025", "sequence_parallel_size ", "--ring_attn_size "},
    {"openrlhf-2025", "zero_optimization.stage ", "--zero_stage "},
    {"openrlhf-2025", "pipeline.stages ", ""},
    {"openrlhf-2025", "expert_parallel.autoep_size ", ""},
    {"llama-factory", kMicroJson, "per_device_train_batch_size: "},
    {"llama-factory", kBatchJson, kProduct},
    {"llama-factory", kOptionOfSequence, "cutoff_len: "},
    {"llama-factory", kMicro, "per_device_train_batch_size: "},
    {"llama-factory", kBatch, kProduct},
    {"llama-factory", kSequence, "cutoff_len: "},
    {"axolotl", kMicroJson, "micro_batch_size: "},
    {"axolotl", kBatchJson, "micro_batch_size x gradient_accumulation_steps x GPUs = "},
    {"axolotl", kOptionOfSequence, "sequence_len: "},
    {"axolotl", kMicro, "micro_batch_size: "},
    {"axolotl", kBatch, "micro_batch_size x gradient_accumulation_steps x GPUs = "},
    {"axolotl", kSequence, "sequence_len: "},
    {"axolotl", kTensor, "tensor_parallel_size: "},
    {"axolotl", kContext, "context_parallel_size: "},
    {"axolotl", kShards, "dp_shard_size: "},
    {"axolotl", kReplicas, "dp_replicate_size: "},
    {"ms-swift", kMicroJson, "--per_device_train_batch_size "},
    {"ms-swift", kBatchJson, kProduct},
    {"ms-swift", kOptionOfSequence, "--max_length "},
    {"ms-swift", kMicro, "--per_device_train_batch_size "},
    {"ms-swift", kBatch, kProduct},
    {"ms-swift", kSequence, "--max_length "},
    {"transformers", kMicroJson, "--per_device_train_batch_size "},
    {"transformers", kBatchJson, kProduct},
    {"transformers", kMicro, "--per_device_train_batch_size "},
    {"transformers", kBatch, kProduct},
};

// Where trainers hold what Megatron-LM has as a flag: degrees, what the reductions are told, and
// the rest of Core's configuration (verl workers/config and engine/megatron, NeMo RL
// models/policy).
struct MegatronHome {
  std::string_view program, owner, reductions, rest, added;  // added: before keys of the last two
};
constexpr MegatronHome kHomes[] = {
    {"verl", "actor_rollout_ref.actor.megatron.", "override_ddp_config.",
     "override_transformer_config.", "++"},
    {"skyrl", "trainer.policy.megatron_config.", "ddp_config.", "transformer_config_kwargs.", ""},
    {"verl-sft", "engine.", "override_ddp_config.", "override_transformer_config.", "++"},
    {"nemo-rl", "policy.megatron_cfg.", "distributed_data_parallel_config.", "model_overrides.",
     ""}};

const MegatronHome* home_of(const std::string& program) {
  const auto* home =
      std::find_if(std::begin(kHomes), std::end(kHomes),
                   [&](const MegatronHome& each) { return each.program == program; });
  return home == std::end(kHomes) ? nullptr : home;
}

std::string in_home(const MegatronHome& home, const std::string& key) {
  constexpr std::string_view kDegrees =
      "tensor_model_parallel_size pipeline_model_parallel_size context_parallel_size "
      "virtual_pipeline_model_parallel_size expert_model_parallel_size "
      "expert_tensor_parallel_size sequence_parallel use_distributed_optimizer";
  constexpr std::string_view kReductions =
      "overlap_grad_reduce overlap_param_gather average_in_collective grad_reduce_in_fp32 "
      "bucket_size";
  if (is_among(kDegrees, key)) {
    return fmt::format("{}{}", home.owner, key);
  }
  return fmt::format("{}{}{}{}", home.added, home.owner,
                     is_among(kReductions, key) ? home.reductions : home.rest, key);
}

std::string program_name(const LaunchConfig& config) {
  if (config.program == MegatronProgram::kSwift) {
    return std::string(kProgramNames[static_cast<std::size_t>(TrainerProgram::kSwift)]);
  }
  return text_setting(config, fmt::format("{}program", kRunSection));
}

// One of Megatron-LM's flags at `at` of a text, with its first value: "--tp-comm-overlap",
// "--recompute-granularity full".
std::string megatron_flag(const std::string& program, std::string_view text, std::size_t& at) {
  constexpr std::string_view kOptionsHere = "gpus cluster model seq set nodes framework";
  const std::size_t end = std::min(text.find_first_of(" ,;)", at), text.size());
  std::string flag(text.substr(at, end - at));
  std::string key = flag.substr(2);
  std::replace(key.begin(), key.end(), '-', '_');
  at = end;
  if (flag.find('=') != std::string::npos || is_among(kOptionsHere, key)) {
    return flag;  // srun's, or this program's own
  }
  const MegatronHome* home = home_of(program);
  if (home == nullptr) {
    return "--" + key;
  }
  const bool valued = end + 1 < text.size() && text[end] == ' ' && text[end + 1] != '-' &&
                      text.substr(end, 4) != " or " && text.substr(end, 5) != " and ";
  at += valued ? 1 : 0;
  return fmt::format("{}={}", in_home(*home, key), valued ? "" : "True");
}

bool is_of(const Word& word, const std::string& program) {
  return word.program.ends_with('*')
             ? program.starts_with(word.program.substr(0, word.program.size() - 1))
             : word.program == program;
}

std::string own_text(const Word& word, const std::string& program) {
  std::string text(word.to);
  if (const std::size_t at = text.find('@'); at != std::string::npos) {
    text.replace(at, 1, home_of(program)->owner);
  }
  return text;
}

// One way among several, in the trainer's words; empty: it has none.
std::string way_of(const std::string& program, bool megatron, std::string_view text) {
  std::string own;
  for (std::size_t at = 0; at < text.size();) {
    const bool begins = at == 0 || text[at - 1] == ' ' || text[at - 1] == '(';
    const auto* word = std::find_if(std::begin(kWords), std::end(kWords), [&](const Word& each) {
      return begins && is_of(each, program) && text.substr(at).starts_with(each.from);
    });
    if (word != std::end(kWords)) {
      if (word->to.empty()) {
        return {};
      }
      own += own_text(*word, program);
      at += word->from.size();
    } else if (begins && megatron && text.substr(at).starts_with("--")) {
      own += megatron_flag(program, text, at);
    } else {
      own += text[at++];
    }
  }
  return own;
}

}  // namespace

std::string in_own_words(const LaunchConfig& config, std::string_view fix) {
  constexpr std::string_view kBetween = ", or ";
  const std::string program = program_name(config);
  const bool megatron = config.format == LaunchFormat::kMegatron;
  if (program.empty()) {
    return std::string(fix);
  }
  std::string_view verb = fix.starts_with("use ") ? fix.substr(0, 4) : std::string_view();
  std::vector<std::string> ways;
  for (std::string_view rest = fix.substr(verb.size()); !rest.empty();) {
    const std::size_t end = std::min(rest.find(kBetween), rest.size());
    if (std::string own = way_of(program, megatron, rest.substr(0, end)); !own.empty()) {
      ways.push_back(std::move(own));
    }
    rest.remove_prefix(std::min(rest.size(), end + kBetween.size()));
  }
  return ways.empty() ? "" : fmt::format("{}{}", verb, fmt::join(ways, kBetween));
}

}  // namespace trireme::planner
