// Options that several commands have as a group.

#include "tools/fault_options.h"
#include "tools/sample_options.h"

namespace trireme::tools {

void add_trained_options(Command& command, JobOptions& options) {
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
      .add_option("--offload", options.offload,
                  "what lives on the host: optimizer[=SHARE],gradients,parameters,"
                  "activations[=SHARE]; NAME=nvme on the node's drives")
      ->type_name("LIST");
  add_count_option(command, "--host-memory", options.host_memory,
                   "GiB of host memory in a node (default: the preset's)", 1, 1'000'000);
}

void add_sample_options(Command& command, JobOptions& options) {
  add_trained_options(command, options);
  command
      .add_option("--lengths", options.lengths,
                  "lengths of the samples: a file of 'tokens count' lines, or [[tokens, count], "
                  "...] in JSON")
      ->type_name("FILE");
  add_choice_option(command, "--batching", options.batching,
                    "samples laid end to end up to --seq, padded to the longest of a micro-batch, "
                    "or laid end to end without padding (default packed)",
                    {"packed", "padded", "unpadded"});
}

void add_fault_options(Command& command, FaultOptions& options) {
  command.add_option("--straggler", options.stragglers,
                     "slower compute: 1.2x@rank3 or 1.2x@stage2 (repeatable)");
  command.add_option(
      "--slow-link", options.slow_links,
      "less bandwidth: 0.5x@node2.nic3, 0.5x@nic3 (a rail), 0.5x@nvlink (repeatable)");
  command.add_option("--jitter", options.jitter,
                     "deviation of each compute op's duration, as a share: 0.02");
  command.add_option("--rank-spread", options.rank_spread,
                     "deviation of the GPUs' speed from each other, as a share: 0.03");
  add_count_option(command, "--seed", options.seed,
                   "of jitter and spread; one seed gives one answer (default 0)", 0);
}

}  // namespace trireme::tools
