#include "tools/sample_options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "core/error.h"
#include "core/files.h"

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

void add_sample_options(CLI::App& command, JobOptions& options) {
  add_count_option(command, "--lora-rank", options.lora_rank,
                   "train low-rank adapters of this rank beside frozen weights (LoRA)", 1, 65536);
  command
      .add_option("--lora-targets", options.lora_targets,
                  "layers with adapters: q,k,v,o,gate,up,down,head or attention, mlp, all-linear "
                  "(default all-linear)")
      ->type_name("LIST");
  add_choice_option(command, "--base", options.base,
                    "how frozen weights are stored (QLoRA: nf4-double; default bf16)",
                    planner::base_format_names());
  add_count_option(command, "--freeze-layers", options.freeze_layers,
                   "the first N layers and the embedding are not trained");
  command
      .add_option("--lengths", options.lengths,
                  "lengths of the samples: a file of 'tokens count' lines, or [[tokens, count], "
                  "...] in JSON")
      ->type_name("FILE");
  add_choice_option(command, "--batching", options.batching,
                    "samples laid end to end up to --seq, padded to the longest of a micro-batch, "
                    "or laid end to end without padding (default packed)",
                    {"packed", "padded", "unpadded"});
  command
      .add_option("--offload", options.offload,
                  "what lives on the host: optimizer[=SHARE],gradients,parameters,"
                  "activations[=SHARE]; NAME=nvme on the node's drives")
      ->type_name("LIST");
  add_count_option(command, "--host-memory", options.host_memory,
                   "GiB of host memory in a node (default: the preset's)", 1, 1'000'000);
}

void apply_training(const JobOptions& options, planner::Job& job) {
  planner::Training& training = job.training;
  training.rank = options.lora_rank.value_or(0);
  if (!options.lora_targets.empty()) {
    training.targets = planner::adapter_targets_of(options.lora_targets);
  }
  if (!options.base.empty()) {
    training.base = planner::base_format_of(options.base);
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
    job.offload = planner::parse_offload(options.offload);
  }
  job.offload.host_gib = static_cast<double>(options.host_memory.value_or(0));
}

}  // namespace trireme::tools
