// Whether a run's checkpoints are reentrant, which decides what PyTorch's first FSDP holds of
// frozen layers. Sources: LLaMA-Factory of August 2026 (hparams/model_args.py,
// model/model_utils/checkpointing.py), axolotl of July 2026 (utils/config/__init__.py,
// core/builders/base.py), ms-swift of August 2026 (trainers/mixin.py), transformers
// (modeling_utils.py), accelerate 1.10 (accelerator.py).
#include "planner/launch/field_table.h"
#include "planner/launch/trainers/trainer.h"

namespace trireme::planner {
namespace {

const std::string kArguments = "gradient_checkpointing_kwargs";

std::optional<bool> said_reentrant(const TrainerRun& run) {
  const std::string key =
      run.program == TrainerProgram::kFactory ? "use_reentrant_gc" : kArguments + ".use_reentrant";
  if (run_setting(run.said, key) != nullptr) {
    return switch_setting(run.said, key);
  }
  const std::string map = run_text(run.said, kArguments);  // '{"use_reentrant": false}' of a flag
  if (!map.starts_with('{')) {
    return {};
  }
  LaunchConfig inner;
  inner.source = kArguments;
  read_json_settings(map, inner);
  return switch_setting(inner, "use_reentrant");
}

// What a program sets where the run says nothing; none of them: the release of transformers does.
std::optional<bool> default_reentrant(const TrainerRun& run) {
  switch (run.program) {
    case TrainerProgram::kTransformers:
      return {};
    case TrainerProgram::kAxolotl:
      for (const LaunchSetting& setting : run.said.settings) {
        if (setting.key.starts_with(kArguments + ".")) {
          return {};  // its arguments stand, without this one
        }
      }
      return run_text(run.said, "rl").empty();
    case TrainerProgram::kFactory:
    case TrainerProgram::kSwift:  // under FSDP
      return true;
  }
  return {};
}

}  // namespace

void read_reentrance(const TrainerRun& run, LaunchConfig& config) {
  if (config.framework != "fsdp1" || !config.training.has_adapters()) {
    return;
  }
  // accelerate's own wrapper, which recomputes in place of the model's, is not
  const bool wrapped = is_on(config, "fsdp_config.fsdp_activation_checkpointing") ||
                       is_on(config, "fsdp_config.activation_checkpointing");
  const auto said = said_reentrant(run);
  if (const auto reentrant = wrapped ? std::optional(false)
                             : said  ? said
                                     : default_reentrant(run)) {
    config.choices.emplace_back(*reentrant ? "frozen_graph_stays=true"
                                           : "frozen_graph_stays=false");
  }
}

}  // namespace trireme::planner
