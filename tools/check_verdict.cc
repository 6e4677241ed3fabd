#include "tools/check_verdict.h"

#include <fmt/format.h>

#include <algorithm>

namespace trireme::tools {
namespace {

using planner::Fit;

// A ZeRO-2 run of a 14B model held 79.6 of what is taken for 76.8 GiB: nearer than that to the
// capacity nothing is refused that may as well recompute otherwise.
constexpr double kEdge = 1.04;

// The parts that a trainer's loss may be computed in: TRL's take 256 tokens, DeepSpeed's 1 GiB.
constexpr std::int64_t kLossParts = 64;

planner::MemoryEstimate memory_of(const planner::Job& job, const planner::Plan& plan) {
  planner::Estimate estimate;
  planner::Estimator(job).estimate(plan, estimate);
  return estimate.memory;
}

// Files of accelerate and DeepSpeed say nothing of the loss, which the trainer computes whole or in
// parts (TRL: loss_type "chunked_nll", since 2026 the default; Liger's kernel).
bool loss_is_open(const planner::LaunchConfig& config, const planner::Framework& framework) {
  const bool trainers = config.format == planner::LaunchFormat::kAccelerate ||
                        config.format == planner::LaunchFormat::kDeepspeed;
  return trainers && !planner::is_megatron(framework) && framework.loss_chunks == 1 &&
         !framework.cross_entropy_fusion;
}

bool may_fit(const planner::MemoryEstimate& memory) {
  return memory.fit != Fit::kNo || memory.reserved_low_gib < kEdge * memory.capacity_gib;
}

// Layers that recompute together hold what all of them keep, for one micro-batch, while they run
// backward: at most so much more than layers that recompute one by one.
double held_together_gib(const planner::LaunchConfig& config, const planner::LaunchCase& found,
                         const planner::MemoryEstimate& memory) {
  planner::Plan plan = found.plan;
  if (config.recompute_together <= 1 || plan.recompute != planner::Recompute::kFull) {
    return 0;
  }
  plan.recompute = planner::Recompute::kNone;
  plan.recompute_layers = -1;
  planner::Estimate without;
  planner::Estimator(found.job).estimate(plan, without);
  const double stage = static_cast<double>(found.job.model.layers) /
                       static_cast<double>(plan.pipeline * plan.virtual_pipeline);
  const double share = std::min(1.0, static_cast<double>(config.recompute_together) / stage);
  const auto in_flight = static_cast<double>(std::min(plan.pipeline, plan.micro_batches));
  return (without.memory.reserved_low_gib - memory.reserved_low_gib) * share / in_flight;
}

// What stays under offloading is known roughly; whether recompute alone decides is told all the
// same.
std::string offload_words(const planner::LaunchCase& found, const planner::MemoryEstimate& memory) {
  std::string words = fmt::format(
      "what stays on a GPU under offloading ({}) is known roughly; {:.1f} of {:.1f} GiB predicted",
      planner::to_text(found.job.offload), memory.reserved_low_gib, memory.capacity_gib);
  if (found.recompute_is_open) {
    const planner::MemoryEstimate least = memory_of(found.job, recomputed(found.plan));
    words += fmt::format(" without recompute, {:.1f} to {:.1f} with (--recompute full)",
                         least.reserved_low_gib, least.reserved_high_gib);
  }
  return words;
}

}  // namespace

planner::Plan recomputed(planner::Plan plan) {
  plan.recompute = planner::Recompute::kFull;
  plan.recompute_layers = -1;
  plan.recompute_modules = 0;
  return plan;
}

Verdict verdict_of(const planner::LaunchConfig& config, const planner::LaunchCase& found,
                   const planner::Estimate& estimate, bool fits_elsewhere) {
  if (!found.unset.empty()) {
    return {false, fmt::format("the file does not set {}: taken at the framework's default here; "
                               "give the value after --",
                               fmt::join(found.unset, ", "))};
  }
  if (!config.foreign.empty()) {
    const bool one = config.foreign.size() == 1;
    return {false, fmt::format("{} {} not modelled, and what is trained depends on {}: the numbers "
                               "are those without {}",
                               fmt::join(config.foreign, ", "), one ? "is" : "are",
                               one ? "it" : "them", one ? "it" : "them")};
  }
  if (!config.beside.empty() && estimate.memory.fit != Fit::kNo) {
    return {false,
            fmt::format("{} on the same GPUs {} not counted: the numbers are the actor's",
                        fmt::join(config.beside, ", "), config.beside.size() == 1 ? "is" : "are")};
  }
  if (estimate.memory.fit != Fit::kNo) {
    const double more = held_together_gib(config, found, estimate.memory);
    const double needed = estimate.memory.reserved_low_gib + more;
    if (more > 0 && needed > estimate.memory.capacity_gib) {
      return {false, fmt::format("{} layers recompute as one unit, which keeps what all of them "
                                 "keep: up to {:.1f} of {:.1f} GiB",
                                 config.recompute_together, needed, estimate.memory.capacity_gib)};
    }
    return {};
  }
  const double needed = estimate.memory.reserved_low_gib;
  if (!config.unmodelled.empty()) {
    return {false, fmt::format("{} {} not modelled; without {} it would need {:.1f} of {:.1f} GiB",
                               fmt::join(config.unmodelled, ", "),
                               config.unmodelled.size() == 1 ? "is" : "are",
                               config.unmodelled.size() == 1 ? "it" : "them", needed,
                               estimate.memory.capacity_gib)};
  }
  if (found.job.offload.any()) {
    return {false, offload_words(found, estimate.memory)};
  }
  const planner::Plan full = found.recompute_is_open ? recomputed(found.plan) : found.plan;
  if (found.recompute_is_open) {
    const planner::MemoryEstimate least = memory_of(found.job, full);
    if (may_fit(least)) {
      return {false,
              fmt::format("the file does not say whether layers recompute: {:.1f} GiB without, "
                          "{:.1f} with, of {:.1f}; --recompute none or full tells",
                          needed, least.reserved_low_gib, estimate.memory.capacity_gib)};
    }
  }
  if (loss_is_open(config, found.job.framework)) {
    planner::Job parts = found.job;
    parts.framework.loss_chunks = kLossParts;
    const planner::MemoryEstimate least = memory_of(parts, full);
    if (may_fit(least)) {
      return {false, fmt::format("the file does not say whether the trainer computes its loss in "
                                 "parts: {:.1f} GiB with whole logits, {:.1f} in {} parts{}, of "
                                 "{:.1f}; --set loss_chunks={} says so",
                                 needed, least.reserved_low_gib, kLossParts,
                                 found.recompute_is_open ? " and with recompute" : "",
                                 estimate.memory.capacity_gib, kLossParts)};
    }
  }
  if (fits_elsewhere) {
    return {false, fmt::format("it depends on what the file leaves open ({})",
                               planner::line_of(config, config.undecided.front().line))};
  }
  return {};
}

}  // namespace trireme::tools
