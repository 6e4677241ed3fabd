// Sources: TRL trl/trainer/*_trainer.py (create_reference_model where there are no adapters,
// concatenated_forward), LLaMA-Factory train/tuner.py create_ref_model and hparams use_ref_model,
// ms-swift swift/megatron/trainers and swift/trainers/rlhf_trainer, all of summer 2026.
#include "planner/launch/preference.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "planner/launch/field_table.h"

namespace trireme::planner {
namespace {

struct Method {
  std::string_view names;
  bool reference, pairs;
};
constexpr Method kMethods[] = {
    {"dpo ipo", true, true},
    {"kto", true, false},
    {"orpo simpo cpo", false, true},
};
constexpr std::string_view kPlain = "pt sft none None false False no off 0";
// What a program's name may say; a loss (hinge, robust) is a word of many other programs' names.
constexpr std::string_view kOfPrograms =
    "dpo ipo kto orpo simpo cpo grpo ppo rloo gkd opd rm reward prm xpo nash bco distillation";

bool is_given(const LaunchConfig& config, const char* key) {
  return has_setting(config, key) && is_on(config, key);
}

}  // namespace

std::string method_of_program(std::string_view program) {
  std::string stem = std::filesystem::path(program).stem().string();
  std::replace(stem.begin(), stem.end(), '-', '_');
  if (stem.find("online_dpo") != std::string::npos) {
    return "online_dpo";  // its answers are generated
  }
  std::string found;
  for (std::size_t at = 0; at <= stem.size();) {
    const std::size_t end = std::min(stem.find('_', at), stem.size());
    const std::string word = stem.substr(at, end - at);
    found = found.empty() && is_among(kOfPrograms, word) ? word : found;
    at = end + 1;
  }
  return found;
}

void read_method(std::string_view method, std::string_view spelled, const LaunchConfig& said,
                 LaunchConfig& config) {
  if (method.empty() || is_among(kPlain, method)) {
    return;
  }
  const auto known = std::find_if(std::begin(kMethods), std::end(kMethods),
                                  [&](const Method& each) { return is_among(each.names, method); });
  if (known == std::end(kMethods)) {
    config.foreign.push_back(fmt::format("{} {}", spelled, method));
    return;
  }
  const bool without =
      is_given(said, "reference_free") || is_given(said, "precompute_ref_log_probs");
  const LaunchSetting* second = find_setting(said, "ref_model");
  if (known->reference && config.training.has_adapters() && second != nullptr &&
      !is_among(kPlain, second->value)) {
    config.foreign.push_back(
        fmt::format("a second model beside the adapters ({} {})", second->spelled, second->value));
  } else if (known->reference && !without) {
    config.training.reference = true;
    config.remarks.push_back(
        fmt::format("{}: {} judges the same answers: {} counted", method,
                    config.training.has_adapters() ? "the model with its adapters switched off"
                                                   : "a frozen copy of the model",
                    config.training.has_adapters() ? "one forward pass more is"
                                                   : "its weights and one forward pass more are"));
  }
  if (known->pairs && !is_given(said, "packing")) {
    config.sequences_a_sample = 2;
    config.remarks.push_back(fmt::format(
        "{}: a sample is a pair of answers: its micro-batch and batch are counted as twice as many "
        "sequences",
        method));
  }
}

}  // namespace trireme::planner
