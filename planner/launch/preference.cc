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
    {"dpo ipo sigmoid hinge robust apo_zero apo_down", true, true},
    {"kto", true, false},
    {"orpo simpo cpo", false, true},
};
constexpr std::string_view kPlain = "pt sft none None false False no off 0";
constexpr std::string_view kOther =
    "grpo ppo rloo gkd opd rm reward prm online_dpo xpo nash bco distillation";

bool is_given(const LaunchConfig& config, const char* key) {
  return has_setting(config, key) && is_on(config, key);
}

}  // namespace

std::string method_of_program(std::string_view program) {
  std::string stem = std::filesystem::path(program).stem().string();
  std::replace(stem.begin(), stem.end(), '-', '_');
  std::string found;
  for (std::size_t at = 0; at <= stem.size();) {
    const std::size_t end = std::min(stem.find('_', at), stem.size());
    const std::string word = stem.substr(at, end - at);
    const bool known = is_among(kOther, word) ||
                       std::any_of(std::begin(kMethods), std::end(kMethods),
                                   [&](const Method& each) { return is_among(each.names, word); });
    found = found.empty() && !word.empty() && known ? word : found;
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
  if (known->reference && !without) {
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
