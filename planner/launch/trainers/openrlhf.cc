// OpenRLHF: SFT, DPO and KTO, and the actor of its reinforcement learning, all under DeepSpeed.
// Flags of 2024 and 2025 (--zero_stage) and those with sections since 2026 (--ds.zero_stage).
// Sources: OpenRLHF 0.5 (2024-12) to 3c3be623 (2026-08), openrlhf/cli, utils/deepspeed.
#include <fmt/format.h>

#include <algorithm>

#include "core/error.h"
#include "planner/launch/field_table.h"
#include "planner/launch/launch_command.h"
#include "planner/launch/preference.h"
#include "planner/launch/trainers/rollouts.h"
#include "planner/launch/trainers/trainer.h"

namespace trireme::planner {
namespace {

// One thing under the names that the programs of all years have for it.
constexpr std::string_view kStage = "ds.zero_stage zero_stage";
constexpr std::string_view kBatch = "train.batch_size train_batch_size";
constexpr std::string_view kMicro = "train.micro_batch_size micro_train_batch_size";
constexpr std::string_view kLongest = "data.max_len max_len";
constexpr std::string_view kTrained = "actor.model_name_or_path model.model_name_or_path pretrain";
constexpr std::string_view kRecompute =
    "actor.gradient_checkpointing_enable model.gradient_checkpointing_enable "
    "gradient_checkpointing";
constexpr std::string_view kRank = "ds.lora.rank lora_rank";
constexpr std::string_view kTensor = "ds.tensor_parallel_size ds_tensor_parallel_size";
constexpr std::string_view kPackTokens = "train.max_tokens_per_gpu train_max_tokens_per_gpu";
constexpr std::string_view kHosts = "actor.num_nodes actor_num_nodes";
constexpr std::string_view kGpusOfHost = "actor.num_gpus_per_node actor_num_gpus_per_node";

constexpr std::string_view kType = "ds.param_dtype param_dtype";
constexpr std::string_view kPartition = "ds.zpg zpg";
constexpr std::string_view kRing = "ds.ring_attn_size ring_attn_size";
constexpr std::string_view kSums = "ds.grad_accum_dtype grad_accum_dtype";
constexpr std::string_view kAttention = "ds.attn_implementation attn_implementation";
constexpr std::string_view kPrompt = "prompt_max_len generate_max_len";
// Flags of other programs and of OpenRLHF itself that are near to one of those.
constexpr std::string_view kNearThose = "local_rank";

// Flags that decide memory or time and have a value: argparse stops where it is missing, and on a
// flag that it does not have.
constexpr std::string_view kValued[] = {
    kStage,      kBatch,      kMicro, kLongest,   kTrained, kRank, kTensor,    kHosts,
    kGpusOfHost, kPackTokens, kType,  kPartition, kRing,    kSums, kAttention, kPrompt};

void refuse_without_value(const LaunchConfig& said, const LaunchSetting& setting) {
  const bool valued =
      std::any_of(std::begin(kValued), std::end(kValued),
                  [&](std::string_view names) { return is_among(names, setting.key); });
  if (valued && setting.value.empty() && !setting.open) {
    throw Error(where_of(said, setting), fmt::format("{} has no value; {} VALUE would be right",
                                                     setting.spelled, setting.spelled));
  }
}

bool is_flag_of_openrlhf(std::string_view word) {
  constexpr std::string_view kOthers =
      "ds.param_dtype bf16 ds.packing_samples packing_samples flash_attn ds.adam_offload "
      "adam_offload rollout.batch_size rollout_batch_size vllm.num_engines vllm_num_engines "
      "learning_rate adam.lr";
  if (!word.starts_with("--")) {
    return false;
  }
  const std::string key = key_of(word.substr(0, word.find('=')));
  const std::string_view lists[] = {kStage, kBatch,      kMicro, kLongest,    kTrained, kRecompute,
                                    kRank,  kPackTokens, kHosts, kGpusOfHost, kOthers};
  return std::any_of(std::begin(lists), std::end(lists),
                     [&](std::string_view names) { return is_among(names, key); });
}

// ---- the run

struct OpenRlhfRun {
  LaunchConfig said;
  std::string task;    // sft, dpo, kto, rm, ppo_ray, …
  bool older = false;  // flags without sections

  [[nodiscard]] bool rollouts() const { return task.starts_with("ppo"); }
};

// "dpo" of openrlhf.cli.train_dpo.
std::string task_of(const std::vector<ShellText>& launcher) {
  constexpr std::string_view kTrain = "train_";
  for (const ShellText& word : launcher) {
    const std::size_t package = word.text.find("openrlhf");
    const std::size_t at = word.text.rfind(kTrain);
    if (package != std::string::npos && at != std::string::npos && at > package) {
      const std::string task = word.text.substr(at + kTrain.size());
      return task.ends_with(".py") ? task.substr(0, task.size() - 3) : task;
    }
  }
  return {};
}

OpenRlhfRun run_of(std::string_view text, const std::string& source,
                   const std::vector<std::string>& arguments, const LaunchReading& reading) {
  OpenRlhfRun run;
  run.said.source = source;
  std::vector<std::string> flags = arguments;
  const std::vector<std::string> words = take_script_words(text, flags);
  const ShellScript script = read_launch_script(text, source, words, reading, run.said);
  const LaunchCommand command = started_command(script, is_flag_of_openrlhf, run.said);
  run.task = task_of(command.launcher);
  // flags before the first that is known look like the launcher's
  for (const std::vector<ShellText>& part :
       {command.launcher, command.arguments, words_of(flags)}) {
    for (LaunchSetting& setting : flags_of(part)) {
      if (!setting.value.empty() || !note_unset(script, setting, run.said)) {
        refuse_without_value(run.said, setting);
        run.said.settings.push_back(std::move(setting));
      }
    }
  }
  refuse_slips(run.said, fmt::format("{} {}", fmt::join(kValued, " "), kRecompute), kNearThose,
               "flag of OpenRLHF");
  run.older = run_setting(run.said,
                          "ds.zero_stage ds.param_dtype train.batch_size data.max_len "
                          "train.micro_batch_size") == nullptr;
  return run;
}

bool on(const OpenRlhfRun& run, std::string_view names) {
  const auto listed = names_in(names);
  return std::any_of(listed.begin(), listed.end(),
                     [&](std::string_view name) { return is_on(run.said, name); });
}

std::int64_t count_of(const OpenRlhfRun& run, std::string_view names, std::int64_t otherwise,
                      std::int64_t most = 100'000'000) {
  const LaunchSetting* found = run_setting(run.said, names);
  return found == nullptr ? otherwise
                          : integer_setting(run.said, found->key, 1, most).value_or(otherwise);
}

// Whether its value is a variable that the script does not set.
bool is_open(const OpenRlhfRun& run, std::string_view names) {
  return run_setting(run.said, names) == nullptr &&
         std::any_of(run.said.unset.begin(), run.said.unset.end(),
                     [&](const LaunchSetting& unset) { return is_among(names, unset.key); });
}

// ---- DeepSpeed (get_train_ds_config)

void add_deepspeed(const OpenRlhfRun& run, LaunchConfig& config) {
  const auto put = [&](const char* key, const std::string& value, std::string_view names) {
    put_setting(config, key, value, run_setting(run.said, names));
  };
  put("zero_optimization.stage", run_text(run.said, kStage, "2"), kStage);
  put("train_micro_batch_size_per_gpu",
      std::to_string(count_of(run, kMicro, run.rollouts() ? (run.older ? 4 : 1) : 8)), kMicro);
  const LaunchSetting* said_type = run_setting(run.said, kType);
  if (said_type != nullptr && !is_among("bf16 fp16", said_type->value)) {
    refuse_setting(run.said, *said_type, "bf16 or fp16");
  }
  const std::string type =
      run_text(run.said, kType, !run.older || on(run, "bf16") ? "bf16" : "fp32");
  for (const char* name : {"bf16", "fp16"}) {
    put_setting(config, fmt::format("{}.enabled", name), type == name ? "true" : "false", nullptr);
  }
  put("zero_optimization.offload_optimizer.device",
      on(run, "ds.adam_offload adam_offload") ? "cpu" : "none", "ds.adam_offload adam_offload");
  if (const std::int64_t together = count_of(run, kPartition, 1, kMostGpus); together > 1) {
    put("zero_optimization.zero_hpz_partition_size", std::to_string(together), kPartition);
  }
  if (on(run, "ds.overlap_comm overlap_comm")) {
    put("zero_optimization.overlap_comm", "true", "ds.overlap_comm overlap_comm");
  }
  if (const std::int64_t tensor = count_of(run, kTensor, 1, 10'000); tensor > 1) {
    put("tensor_parallel.autotp_size", std::to_string(tensor), kTensor);
  }
  if (const std::string sums = run_text(run.said, kSums); !sums.empty()) {
    put("data_types.grad_accum_dtype", sums, kSums);
  }
  read_deepspeed_layout(config);
  const std::int64_t ring = count_of(run, kRing, 1, 10'000);
  if (ring > 1) {
    config.layout.context = ring;
    config.choices.emplace_back("context_all_to_all=false");  // ring_flash_attn
  }
}

// ---- batch and lengths

// The longest sample: prompt and answer were counted apart until 2026.
std::int64_t longest_of(const OpenRlhfRun& run) {
  const std::int64_t whole =
      run.older ? (run.rollouts() ? 0 : 512) : (run.task == "dpo" ? 512 : 2048);
  const std::int64_t parts =
      count_of(run, "prompt_max_len", 1024) + count_of(run, "generate_max_len", 1024);
  return run.older && run.rollouts() && run_setting(run.said, kLongest) == nullptr
             ? parts
             : count_of(run, kLongest, whole);
}

void read_batch(const OpenRlhfRun& run, LaunchConfig& config) {
  const std::int64_t samples = count_of(run, kBatch, 128);
  const std::int64_t longest = std::max<std::int64_t>(1, longest_of(run));
  config.sequence = longest;
  config.global_batch = samples;
  if (run.rollouts() && on(run, "train.dynamic_batch_enable use_dynamic_batch")) {
    const std::int64_t pack = count_of(run, kPackTokens, 16192) *
                              config.layout.context.value_or(1) * config.layout.tensor.value_or(1);
    const RolloutPacks packs =
        packs_of({.step = samples,
                  .longest = longest,
                  .ranks = data_ranks(config),
                  .by = run.older ? "--use_dynamic_batch" : "--train.dynamic_batch_enable",
                  .limit = run.older ? "--train_max_tokens_per_gpu" : "--train.max_tokens_per_gpu"},
                 pack, config);
    config.sequence = packs.sequence;
    config.layout.micro_batch = 1;
    config.global_batch = packs.batch;
  } else {
    note_unpacked(config);
  }
}

// ---- what is trained

void read_adapters(const OpenRlhfRun& run, LaunchConfig& config) {
  Training& training = config.training;
  const LaunchSetting* rank = run_setting(run.said, kRank);
  training.rank =
      rank == nullptr ? 0 : integer_setting(run.said, rank->key, 0, 100'000).value_or(0);
  if (training.rank == 0) {
    return;
  }
  const LaunchSetting* dropout = run_setting(run.said, "ds.lora.dropout lora_dropout");
  training.adapter_dropout =
      dropout == nullptr ? 0 : number_setting(run.said, dropout->key).value_or(0);
  training.base =
      on(run, "ds.load_in_4bit load_in_4bit") ? BaseFormat::kNf4Double : BaseFormat::kSixteenBit;
  if (const LaunchSetting* targets =
          run_setting(run.said, "ds.lora.target_modules target_modules")) {
    take_targets(targets->spelled, targets->value, config);
  }
}

void read_kind(const OpenRlhfRun& run, LaunchConfig& config) {
  if (run.rollouts() || run.task == "sft") {
    return;
  }
  if (run.task.starts_with("rm") || run.task.empty()) {
    config.foreign.push_back(run.task.empty() ? "what its program trains"
                                              : "a head of one score in place of the vocabulary's");
    return;
  }
  read_method(run.task, "its program trains by", run.said, config);
  if (config.training.has_reference_copy() && on(run, "ref.offload ref_offload")) {
    config.unmodelled.emplace_back("the judging copy on the host");
  }
}

void read_kernels(const OpenRlhfRun& run, LaunchConfig& config) {
  if (on(run, kRecompute)) {
    config.layout.recompute = Recompute::kFull;
  }
  config.recompute_is_open = false;
  const std::string attention =
      run_text(run.said, kAttention,
               run.older && !on(run, "flash_attn packing_samples") ? "eager" : "flash_attention_2");
  if (attention == "eager") {
    config.attention = "unfused";
  }
  if (!run.rollouts() && on(run, "ds.use_liger_kernel use_liger_kernel")) {
    config.choices.emplace_back("loss_chunks=32");
  }
  const std::string optimizer = run_text(run.said, "actor.optim optim", "adam");
  if (optimizer != "adam") {
    config.remarks.push_back(fmt::format("optimizer {} is modelled as adam", optimizer));
    config.unmodelled.push_back("optimizer " + optimizer);
  }
}

// ---- what shares the actor's GPUs

void note_neighbours(const OpenRlhfRun& run, LaunchConfig& config) {
  const bool all = on(run, "train.colocate_all colocate_all_models");
  const bool asleep = on(run, "vllm.enable_sleep vllm_enable_sleep");
  const auto engines = run_setting(run.said, "vllm.num_engines vllm_num_engines");
  if (all && engines != nullptr && engines->value != "0") {
    if (asleep) {
      config.remarks.emplace_back(
          "the rollout engines sleep while the actor trains: what they keep on the GPU then is not "
          "counted");
    } else {
      note_beside(config, "the rollout engine (awake, it keeps its memory)");
    }
  }
  const std::string estimator =
      run_text(run.said, "algo.advantage.estimator advantage_estimator", "gae");
  const bool critic =
      estimator == "gae" &&
      run_setting(run.said,
                  "critic.model_name_or_path critic_pretrain reward.model_name_or_path "
                  "reward_pretrain") != nullptr;
  if (all && critic && !on(run, "ds.enable_sleep deepspeed_enable_sleep")) {
    note_beside(config, "the critic");
  }
  const LaunchSetting* weight = run_setting(run.said, "algo.kl.init_coef init_kl_coef");
  const bool judged = weight == nullptr || number_setting(run.said, weight->key).value_or(0) != 0;
  const bool host = on(run, "ref.offload ref_reward_offload");
  if (judged && !host && (all || on(run, "train.colocate_actor_ref colocate_actor_ref"))) {
    note_beside(config, "the reference model");
  }
}

LaunchConfig config_of(const OpenRlhfRun& run) {
  LaunchConfig config = run.said;
  config.settings.clear();
  config.format = LaunchFormat::kDeepspeed;
  if (run.rollouts() && !is_open(run, kHosts) && !is_open(run, kGpusOfHost)) {
    config.gpus_per_node = count_of(run, kGpusOfHost, 8);
    config.gpus = count_of(run, kHosts, 1) * *config.gpus_per_node;
  }
  if (const LaunchSetting* model = run_setting(run.said, kTrained)) {
    take_model(model->value, config);
  }
  add_deepspeed(run, config);
  read_adapters(run, config);
  read_kernels(run, config);
  read_kind(run, config);
  read_batch(run, config);
  if (run.rollouts()) {
    const auto number = [&](std::string_view names, std::int64_t otherwise) {
      return static_cast<double>(count_of(run, names, otherwise));
    };
    note_actor(config, number("rollout.batch_size rollout_batch_size", 1024) *
                           number("rollout.n_samples_per_prompt n_samples_per_prompt", 1) /
                           number(kBatch, 128) * number("train.max_epochs max_epochs", 1));
    note_neighbours(run, config);
  }
  put_program(run.older ? "openrlhf-2025" : "openrlhf", config);
  return config;
}

}  // namespace

bool is_openrlhf(std::string_view text, const std::string& source) {
  const bool starts = text.find("openrlhf.cli.train_") != std::string_view::npos ||
                      text.find("openrlhf/cli/train_") != std::string_view::npos;
  return starts && !source.ends_with(".py") && !is_settings_file(source);
}

LaunchConfig read_openrlhf(std::string_view text, const std::string& source,
                           const std::vector<std::string>& arguments,
                           const LaunchReading& reading) {
  const OpenRlhfRun run = run_of(text, source, arguments, reading);
  if (run.said.settings.empty()) {
    throw Error(source,
                "starts nothing with OpenRLHF's flags; a command such as deepspeed --module "
                "openrlhf.cli.train_sft --zero_stage 2 … would be right");
  }
  return config_of(run);
}

}  // namespace trireme::planner
