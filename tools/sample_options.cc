#include "tools/sample_options.h"

#include <fmt/format.h>

#include "core/error.h"
#include "core/files.h"
#include "planner/plan/framework_versions.h"
#include "planner/plan/moved_offload.h"
#include "planner/plan/offload.h"
#include "planner/plan/sample_lengths.h"
#include "planner/plan/training.h"

namespace trireme::tools {
namespace {

std::string read_lengths(const std::string& path) {
  constexpr std::size_t kFileMax = 256'000'000;
  try {
    return read_file(path, "a file of 'tokens count' lines or [[tokens, count], ...]", kFileMax);
  } catch (const Error& error) {
    throw Error("--lengths", error.what());
  }
}

planner::Batching batching_of(const std::string& name) {
  return name == "padded"     ? planner::Batching::kPadded
         : name == "unpadded" ? planner::Batching::kUnpadded
                              : planner::Batching::kPacked;
}

}  // namespace

void apply_training(const JobOptions& options, planner::Job& job) {
  planner::Training& training = job.training;
  training.rank = options.lora_rank.value_or(0);
  if (!options.lora_targets.empty()) {
    training.targets = planner::adapter_targets_of(options.lora_targets);
  }
  if (!options.base.empty()) {
    training.base = planner::base_format_of(options.base);
  }
  const planner::Framework& framework = job.framework;
  if (training.base > planner::BaseFormat::kFp32 && planner::is_megatron(framework)) {
    throw Error("--base", fmt::format("{} stores no frozen weights in {}; bf16, or --framework "
                                      "accelerate or deepspeed, would be right",
                                      framework.name, options.base));
  }
  if (training.rank == 0 && (!options.lora_targets.empty() || !options.base.empty())) {
    throw Error(options.base.empty() ? "--lora-targets" : "--base",
                "says how adapters are trained; --lora-rank N is needed with it");
  }
  training.frozen_layers = options.freeze_layers.value_or(0);
  if (training.frozen_layers >= job.model.layers) {
    throw Error("--freeze-layers", fmt::format("{} leaves none of {} layers to train",
                                               training.frozen_layers, job.model.layers));
  }
  if (!options.lengths.empty()) {
    training.lengths = planner::parse_lengths(read_lengths(options.lengths), options.lengths);
    training.batching = batching_of(options.batching);
  } else if (!options.batching.empty()) {
    throw Error("--batching", "says how samples are joined; --lengths FILE is needed with it");
  }
  if (!options.offload.empty()) {
    job.offload = planner::moved_together(job.framework, planner::parse_offload(options.offload));
  }
  job.offload.host_gib = static_cast<double>(options.host_memory.value_or(0));
}

}  // namespace trireme::tools
