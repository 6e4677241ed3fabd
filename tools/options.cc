#include "tools/options.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <sstream>
#include <string_view>
#include <utility>

#include "core/error.h"
#include "planner/plan/framework.h"
#include "planner/plan/names.h"

namespace trireme::tools {

namespace {

// Those of --set that people choose; the rest describes a framework.
constexpr std::string_view kSettings =
    "overlap_grad_reduce overlap_param_gather tp_comm_overlap grad_dtype reshard_after_forward "
    "reduce_every_micro_batch cross_entropy_fusion compile parameter_dtype optimizer_dtype "
    "mixed_precision dropout";

// What others call the same thing; where neither is a choice of an option, it stays as typed.
constexpr std::pair<std::string_view, std::string_view> kSameWords[] = {
    {"adamw", "adam"},
    {"adamw_torch", "adam"},
    {"adamw8bit", "adam8bit"},
    {"adam_8bit", "adam8bit"},
    {"bfloat16", "bf16"},
    {"float16", "fp16"},
    {"half", "fp16"},
    {"float32", "fp32"},
    {"float", "fp32"},
    {"float8", "fp8"},
    {"torchtitan", "fsdp2"},
    {"pytorch", "fsdp2"},
    {"fsdp", "fsdp2"},
    {"accelerate", "fsdp1"},
    {"megatron-lm", "megatron"},
    {"megatron-core", "megatron"},
    {"hf", "accelerate"},
    {"huggingface", "accelerate"},
    {"transformers", "accelerate"},
    {"zero", "deepspeed"},
    {"zero1", "optimizer"},
    {"zero2", "gradients"},
    {"zero3", "full"},
    {"1", "optimizer"},
    {"2", "gradients"},
    {"3", "full"},
    {"shard_grad_op", "gradients"},
    {"full_shard", "full"},
    {"no_shard", "none"},
    {"stage1", "optimizer"},
    {"stage2", "gradients"},
    {"stage3", "full"},
    {"hybrid_shard", "full"},
    {"flash_attention_2", "flash"},
    {"flash_attention", "flash"},
    {"flash-attn", "flash"},
    {"flash_attn", "flash"},
    {"flash2", "flash"},
    {"adamw_8bit", "adam8bit"},
    {"adamw_bnb_8bit", "adam8bit"},
    {"paged_adamw_8bit", "adam8bit"},
    {"adamw_torch_fused", "adam"},
    {"fused_adam", "adam"},
    {"zero-bubble", "zb-h1"},
    {"zerobubble", "zb-h1"},
    {"zbvzerobubble", "zb-v"},
    {"zbv", "zb-v"},
    {"dualpipev", "dualpipe-v"},
    {"1f1b-interleaved", "interleaved"},
    {"interleaved1f1b", "interleaved"},
    {"sdpa", "flash"},
    {"eager", "unfused"},
};

std::string lower_case(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

// "zero-2" is "zero2", "full-shard" is "full_shard".
bool same_but_for_marks(std::string_view a, std::string_view b) {
  const auto plain = [](std::string_view text) {
    std::string letters(text);
    std::erase_if(letters, [](char c) { return c == '-' || c == '_' || c == ' '; });
    return letters;
  };
  return plain(a) == plain(b);
}

std::string same_word(const std::string& text, const std::vector<std::string>& choices) {
  std::string word = lower_case(text);
  const auto is_choice = [&](std::string_view name) {
    return std::find(choices.begin(), choices.end(), name) != choices.end();
  };
  if (is_choice(word)) {
    return word;
  }
  const auto* same =
      std::find_if(std::begin(kSameWords), std::end(kSameWords), [&](const auto& entry) {
        return same_but_for_marks(entry.first, word) && is_choice(entry.second);
      });
  return same != std::end(kSameWords) && is_choice(same->second) ? std::string(same->second) : text;
}

void check_settings(const std::vector<std::string>& settings, const std::string& name) {
  std::map<std::string, std::string> seen;
  for (const std::string& setting : settings) {
    const auto cut = setting.find('=');
    if (cut == std::string::npos || cut == 0) {
      throw Error(name, fmt::format("'{}' has no {}; KEY=VALUE is expected", setting,
                                    cut == 0 ? "key" : "'='"));
    }
    const std::string key = setting.substr(0, cut);
    const std::string value = setting.substr(cut + 1);
    if (const auto [before, fresh] = seen.emplace(key, value); !fresh && before->second != value) {
      throw Error(
          name, fmt::format("{} is given twice, as '{}' and '{}'; one of them would be right", key,
                            before->second, value));
    }
  }
}

}  // namespace

void add_count_option(Command& command, const std::string& name, std::optional<std::int64_t>& value,
                      const std::string& description, std::int64_t low, std::int64_t high) {
  command
      .add_option_reader(
          name,
          [&value, name, low, high](const std::string& text) {
            value = parse_count(text, name, low, high);
          },
          description)
      ->type_name("N");
}

void add_settings_option(Command& command, const std::string& name,
                         std::vector<std::string>& settings, const std::string& description) {
  command
      .add_list_reader(
          name,
          [&settings, name](const std::vector<std::string>& given) {
            check_settings(given, name);
            settings = given;
          },
          description)
      ->type_name("KEY=VALUE")
      ->repeatable();
}

void add_choice_option(Command& command, const std::string& name, std::string& value,
                       const std::string& description, const std::vector<std::string>& choices) {
  const std::string type = fmt::format("{}", fmt::join(choices, "|"));
  command
      .add_option_reader(
          name,
          [&value, name, choices](const std::string& typed) {
            const std::string text = same_word(typed, choices);
            if (std::find(choices.begin(), choices.end(), text) == choices.end()) {
              throw Error(name,
                          fmt::format("'{}' is not one of {}", text, fmt::join(choices, ", ")));
            }
            value = text;
          },
          description)
      ->type_name(type);
}

void add_job_options(Command& command, JobOptions& options) {
  command
      .add_option("--model", options.model,
                  "a preset (see 'trireme models'), a Hugging Face config.json or its folder, a "
                  "model file, or the text of either")
      ->type_name("M");
  command
      .add_option(
          "--cluster", options.cluster,
          "a preset with a node count (dgx-h100x16), a cloud's or a card's name (p5.48xlargex16, "
          "128xH100), a topology file, or the text of one")
      ->type_name("C");
  add_count_option(command, "--gpus", options.gpus, "use the cluster's first N GPUs");
  add_count_option(command, "--seq", options.sequence,
                   "tokens in a sequence, 8k is 8192 (default: 4096, or the model's longest)");
  add_count_option(command, "--global-batch", options.global_batch, "sequences in a step");
  add_choice_option(command, "--precision", options.precision,
                    "what matrix products run in (default bf16)", planner::kPrecisionNames.names());
  add_choice_option(command, "--optimizer", options.optimizer, "optimizer (default adam)",
                    planner::kOptimizerNames.names());
  add_choice_option(command, "--attention", options.attention, "attention kernel (default flash)",
                    planner::kAttentionNames.names());
  command
      .add_option_reader(
          "--framework",
          [&options](const std::string& name) {
            const std::size_t at = std::min(name.find('@'), name.size());
            options.framework =
                same_word(name.substr(0, at), planner::framework_names()) + name.substr(at);
            planner::find_framework(options.framework);  // throws when there is none
          },
          fmt::format("whose memory and communication behaviour is modelled (default trireme): {}; "
                      "'trireme frameworks' lists their versions",
                      fmt::join(planner::framework_names(), " ")))
      ->type_name("NAME[@VERSION]");
  add_settings_option(
      command, "--set", options.settings,
      fmt::format("overrides one of the framework's choices; repeatable: {}, and {} more that "
                  "'trireme frameworks --settings' lists with what each means",
                  kSettings,
                  std::ssize(planner::setting_names()) - 1 -
                      std::count(kSettings.begin(), kSettings.end(), ' ')));
  command
      .add_option("--calibration", options.calibration, "a profile written by 'trireme calibrate'")
      ->type_name("FILE");
}

void add_plan_file_option(Command& command, std::string& path) {
  command
      .add_option("plan", path,
                  "a plan file written by 'trireme plan -o'; other options override what it says")
      ->type_name("PLAN");
}

void add_layout_options(Command& command, LayoutOptions& options) {
  command.add_option("--layout", options.layout, "the layout in short form: tp8.pp4.fsdp2.mb1")
      ->type_name("FORM");
  add_count_option(command, "--tp", options.tensor, "tensor-parallel degree");
  add_count_option(command, "--pp", options.pipeline, "pipeline stages");
  add_count_option(command, "--vpp", options.virtual_pipeline,
                   "virtual stages on each pipeline rank (interleaved)");
  add_count_option(command, "--dp", options.replicas, "replicas: groups of fsdp ranks");
  add_count_option(command, "--fsdp", options.sharded,
                   "ranks that share one copy of what --sharding shards");
  add_count_option(
      command, "--data-parallel", options.data_parallel,
      "fsdp x dp: dp without sharding, else fsdp, or dp = N / fsdp when --fsdp is given");
  add_count_option(command, "--cp", options.context, "context-parallel degree");
  add_count_option(command, "--ep", options.expert, "expert-parallel degree");
  add_count_option(command, "--etp", options.expert_tensor,
                   "tensor parallelism inside an expert (default: tp)");
  add_count_option(command, "--micro-batch", options.micro_batch,
                   "sequences in a micro-batch (default 1)");
  add_choice_option(command, "--sharding", options.sharding,
                    "what the fsdp ranks share (default: full when --fsdp > 1, else none)",
                    planner::kShardingNames.names());
  add_choice_option(command, "--recompute", options.recompute,
                    "what backward recomputes (default none)", planner::kRecomputeNames.names());
  add_count_option(command, "--recompute-layers", options.recompute_layers,
                   "full recompute of so many layers of each (virtual) stage");
  command
      .add_option("--recompute-modules", options.recompute_modules,
                  "what selective recompute repeats: "
                  "core_attn,layernorm,mlp,mla_up_proj,moe,moe_act,shared_experts,op")
      ->type_name("LIST");
  add_choice_option(command, "--schedule", options.schedule,
                    "pipeline schedule (default 1f1b; interleaved when vpp > 1)",
                    planner::kScheduleNames.names());
  command.add_switch_reader(
      "--sequence-parallel,!--no-sequence-parallel",
      [&options](bool on) { options.sequence_parallel = on; },
      "split what tensor parallelism leaves whole (default: on when tp > 1)");
  command
      .add_option("--stage-layers", options.stage_layers,
                  "layers of each stage, e.g. 20,20,20,18 (default: as even as they go)")
      ->type_name("LIST");
  command
      .add_option("--fsdp-unit", options.fsdp_unit,
                  "layers per gathered unit: block, a number, or model")
      ->type_name("block|N|model");
}

}  // namespace trireme::tools
