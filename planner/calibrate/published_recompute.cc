// What of a row's words about recompute a plan can say.
#include "planner/calibrate/published_recompute.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "planner/calibrate/row_words.h"

namespace trireme::planner {
namespace {

std::uint16_t modules_of(const std::string& detail) {
  constexpr std::pair<std::string_view, models::RecomputeModule> kNames[] = {
      {"core_attn", kCoreAttention},
      {"layernorm", kLayerNorm},
      {"mla_up_proj", kMlaUpProjection},
      {"moe_act", kMoeActivation},
      {"shared_experts", kSharedExperts}};
  unsigned modules = 0;
  for (const auto& [name, module] : kNames) {
    modules |= contains(detail, name) ? static_cast<unsigned>(module) : 0U;
  }
  // "mlp" and "moe" are also parts of other words.
  std::string word;
  for (const char letter : detail + " ") {
    if (std::isalnum(static_cast<unsigned char>(letter)) != 0 || letter == '_') {
      word += letter;
      continue;
    }
    modules |= word == "mlp" ? static_cast<unsigned>(kMlp) : 0U;
    modules |= word == "moe" ? static_cast<unsigned>(kMoe) : 0U;
    word.clear();
  }
  return static_cast<std::uint16_t>(modules);
}

// Blocks that are checkpointed where a row says "every k-th": a forward more is a third of a step's
// FLOP, so that HFU over MFU says how many; every second one where it prints neither.
std::int64_t repeated_blocks(const PublishedRow& row, std::int64_t layers) {
  if (!row.mfu || !row.hfu || *row.mfu <= 0) {
    return (layers + 1) / 2;
  }
  const double share = std::clamp(3 * (*row.hfu / *row.mfu - 1), 0.0, 1.0);
  return std::llround(share * static_cast<double>(layers));
}

}  // namespace

std::int64_t number_after(const std::string& text, const std::string& word) {
  const std::size_t at = text.find(word);
  if (at == std::string::npos) {
    return -1;
  }
  const char* digits = text.c_str() + at + word.size();
  return std::isdigit(static_cast<unsigned char>(*digits)) != 0 ? std::strtoll(digits, nullptr, 10)
                                                                : -1;
}

void fill_recompute(const PublishedRow& row, const Job& job, Plan& plan,
                    std::vector<std::string>& assumed) {
  const std::string& detail = row.recompute_detail;
  if (row.recompute == "full") {
    plan.recompute = Recompute::kFull;
    plan.recompute_layers = number_after(detail, "num_layers=");
    plan.recompute_modules = contains(detail, "in tiles") ? modules_of(detail) : 0;
  } else if (row.recompute == "selective") {
    plan.recompute = Recompute::kSelective;
    const std::uint16_t modules = modules_of(detail);
    if (modules != 0) {
      plan.recompute_modules = modules;
    } else if (contains(detail, "every")) {
      plan.recompute = Recompute::kFull;
      plan.recompute_layers = repeated_blocks(row, job.model.layers);
      assumed.push_back(fmt::format("recompute_layers={}", plan.recompute_layers));
    } else if (job.framework.recompute_per_op) {
      plan.recompute_modules = kTorchPerOp;
    }
  }
  if (contains(detail, "offload") && !job.offload.any()) {
    assumed.emplace_back("activation offload is not modelled");
  }
}

}  // namespace trireme::planner
