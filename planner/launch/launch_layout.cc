#include "planner/launch/launch_layout.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/enum_names.h"
#include "core/error.h"
#include "planner/launch/field_table.h"
#include "planner/launch/launch_config.h"

namespace trireme::planner {
namespace {

constexpr EnumNames kFormats(std::to_array<std::pair<LaunchFormat, std::string_view>>({
    {LaunchFormat::kMegatron, "megatron"},
    {LaunchFormat::kMegatronBridge, "megatron-bridge"},
    {LaunchFormat::kTorchtitan, "torchtitan"},
    {LaunchFormat::kDeepspeed, "deepspeed"},
    {LaunchFormat::kAccelerate, "accelerate"},
}));

constexpr LayoutField kFields[] = {
    {Knob::kTensor,
     {"tensor_model_parallel_size", "model.tensor_model_parallel_size",
      "parallelism.tensor_parallel_degree", "tensor_parallel.autotp_size",
      "parallelism_config.parallelism_config_tp_size"},
     &LaunchLayout::tensor,
     &Plan::tensor},
    {Knob::kPipeline,
     {"pipeline_model_parallel_size", "model.pipeline_model_parallel_size",
      "parallelism.pipeline_parallel_degree", "pipeline.stages",
      "megatron_lm_config.megatron_lm_pp_degree"},
     &LaunchLayout::pipeline,
     &Plan::pipeline},
    {Knob::kVirtual,
     {"num_virtual_stages_per_pipeline_rank", "model.virtual_pipeline_model_parallel_size",
      "virtual stages a rank (parallelism.pipeline_parallel_layers_per_stage)", "virtual stages",
      "virtual stages"},
     nullptr,
     &Plan::virtual_pipeline},
    {Knob::kContext,
     {"context_parallel_size", "model.context_parallel_size", "parallelism.context_parallel_degree",
      "sequence_parallel_size", "parallelism_config.parallelism_config_cp_size"},
     &LaunchLayout::context,
     &Plan::context},
    {Knob::kExpert,
     {"expert_model_parallel_size", "model.expert_model_parallel_size",
      "parallelism.expert_parallel_degree", "expert_parallel.autoep_size", "expert parallelism"},
     &LaunchLayout::expert,
     &Plan::expert},
    {Knob::kExpertTensor,
     {"expert_tensor_parallel_size", "model.expert_tensor_parallel_size",
      "parallelism.expert_tensor_parallel_degree", "tensor parallelism of experts",
      "tensor parallelism of experts"},
     &LaunchLayout::expert_tensor,
     &Plan::expert_tensor},
    {Knob::kMicroBatch,
     {"micro_batch_size", "train.micro_batch_size", "training.local_batch_size",
      "train_micro_batch_size_per_gpu", "the micro-batch (--micro-batch)"},
     &LaunchLayout::micro_batch,
     &Plan::micro_batch},
    {Knob::kGlobalBatch,
     {"global_batch_size", "train.global_batch_size", "training.global_batch_size",
      "train_batch_size", "the global batch (--global-batch)"}},
    {Knob::kSequence,
     {"seq_length", "model.seq_length", "training.seq_len", "the sequence (--seq)",
      "the sequence (--seq)"}},
    {Knob::kSequenceParallel,
     {"sequence_parallel", "model.sequence_parallel", "sequence parallelism",
      "sequence parallelism", "megatron_lm_config.megatron_lm_sequence_parallelism"}},
};

std::string_view name_in(const LayoutField& field, LaunchFormat format) {
  return field.names.at(static_cast<std::size_t>(format));
}

}  // namespace

std::string_view to_string(LaunchFormat format) {
  return kFormats.name_of(format);
}

std::vector<std::string_view> launch_format_names() {
  std::vector<std::string_view> names;
  for (const auto& row : kFormats.rows) {
    names.push_back(row.second);
  }
  return names;
}

LaunchFormat launch_format_of(std::string_view name) {
  if (const auto format = kFormats.value_of(name)) {
    return *format;
  }
  throw Error("--format",
              fmt::format("'{}' is not a launch format; there are {}", name, kFormats.choices()));
}

const LayoutField& layout_field(Knob knob) {
  return kFields[static_cast<std::size_t>(knob)];
}

void read_layout_fields(LaunchConfig& config, LaunchFormat format) {
  // Megatron-Bridge's settings are kept under Megatron-LM's names.
  const LaunchFormat names =
      format == LaunchFormat::kMegatronBridge ? LaunchFormat::kMegatron : format;
  for (const LayoutField& field : kFields) {
    if (field.read != nullptr) {
      config.layout.*field.read = integer_setting(config, name_in(field, names), 1, 1'000'000);
    }
  }
}

std::string spelled(LaunchFormat format, Knob knob, const std::string& value) {
  std::string name(name_in(layout_field(knob), format));
  const bool is_key = name.find(' ') == std::string::npos;
  switch (format) {
    case LaunchFormat::kMegatron:
      return as_flag(name, true) + (value.empty() ? "" : " " + value);
    case LaunchFormat::kMegatronBridge:
      return fmt::format("{}={}", name, value.empty() ? "true" : value);
    case LaunchFormat::kTorchtitan:
      return fmt::format("{} = {}", name, value);
    case LaunchFormat::kDeepspeed:
      return fmt::format("{} {}", name, value);
    case LaunchFormat::kAccelerate:
      return fmt::format("{}: {}", is_key ? name.substr(name.rfind('.') + 1) : name, value);
  }
  return "";
}

}  // namespace trireme::planner
