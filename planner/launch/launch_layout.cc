#include "planner/launch/launch_layout.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/enum_names.h"
#include "core/error.h"
#include "planner/launch/field_table.h"
#include "planner/launch/launch_config.h"
#include "planner/plan/framework_versions.h"

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

// ---- the program that a file of the format starts

struct Program {
  LaunchFormat format;
  std::string_view base, entry;
};

constexpr Program kPrograms[] = {
    {LaunchFormat::kTorchtitan, "fsdp2", "torchtitan"},
    {LaunchFormat::kAccelerate, "fsdp2", "accelerate"},
    {LaunchFormat::kAccelerate, "fsdp1", "accelerate-fsdp1"},
};

// A setting as the file spells it, and the newest release that takes it: torchtitan's [compile] is
// of 2025-08-20 (#1608), local_batch_size of 2025-06-05 (#1238), [parallelism] of spring 2025.
struct OlderName {
  LaunchFormat format;
  std::string_view spelled, release;
};

constexpr OlderName kOlderNames[] = {
    {LaunchFormat::kTorchtitan, "training.tensor_parallel_degree", "2024-12"},
    {LaunchFormat::kTorchtitan, "training.data_parallel_degree", "2024-12"},
    {LaunchFormat::kTorchtitan, "training.data_parallel_shard_degree", "2024-12"},
    {LaunchFormat::kTorchtitan, "experimental.pipeline_parallel_degree", "2024-12"},
    {LaunchFormat::kTorchtitan, "experimental.context_parallel_degree", "2024-12"},
    {LaunchFormat::kTorchtitan, "training.batch_size", "2025-05"},
    {LaunchFormat::kTorchtitan, "training.compile", "2025-07"},
};

bool is_listed(const std::string& entry, std::string_view release) {
  const std::vector<FrameworkVersion>& all = framework_versions();
  return std::any_of(all.begin(), all.end(), [&](const FrameworkVersion& one) {
    return one.name == entry && one.version == release;
  });
}

// "0.2.2" behind "torchtitan v" in a line that begins with '#'.
std::string release_in_comments(const std::string& entry, std::string_view text) {
  const std::string words = entry + " v";
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    const std::size_t at = line.find(words);
    if (line.starts_with('#') && at != std::string_view::npos) {
      const std::string_view rest = line.substr(at + words.size());
      std::string release(rest.substr(0, rest.find_first_not_of("0123456789.")));
      release.erase(release.find_last_not_of('.') + 1);
      return release;
    }
  }
  return {};
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

std::string program_of(LaunchFormat format, const std::string& base) {
  const auto* found =
      std::find_if(std::begin(kPrograms), std::end(kPrograms),
                   [&](const Program& one) { return one.format == format && one.base == base; });
  return found == std::end(kPrograms) ? base : std::string(found->entry);
}

bool is_program(const std::string& entry) {
  return std::any_of(std::begin(kPrograms), std::end(kPrograms),
                     [&](const Program& one) { return one.entry == entry; });
}

std::string release_of(const LaunchConfig& config, std::string_view text) {
  const std::string entry = program_of(config.format, config.framework);
  if (std::string release = release_in_comments(entry, text); !release.empty()) {
    return is_listed(entry, release) ? release : std::string();
  }
  for (const OlderName& name : kOlderNames) {
    const bool is_there =
        std::any_of(config.settings.begin(), config.settings.end(),
                    [&](const LaunchSetting& setting) { return setting.spelled == name.spelled; });
    if (name.format == config.format && is_there) {
      return std::string(name.release);
    }
  }
  return {};
}

std::string predicted_as(const LaunchConfig& config, std::string_view text) {
  const std::size_t at = text.find(fmt::format("# {}", kPredictedAs));
  if (at == std::string_view::npos) {
    return {};
  }
  const std::string_view rest = text.substr(at + 2 + kPredictedAs.size());
  const std::string entry(rest.substr(0, rest.find_first_of(": \n")));
  try {
    return find_framework(entry).base == config.framework ? entry : std::string();
  } catch (const Error&) {  // an entry of another release of this program
    return {};
  }
}

std::int64_t virtual_stages_of(const LaunchLayout& layout, std::int64_t layers,
                               std::int64_t pipeline) {
  if (layout.virtual_pipeline || layout.layers_per_virtual_stage == 0) {
    return layout.virtual_pipeline.value_or(1);
  }
  const std::int64_t all = layers + layout.first_chunk_less + layout.last_chunk_less;
  const std::int64_t chunks =
      (all + layout.layers_per_virtual_stage - 1) / layout.layers_per_virtual_stage;
  return std::max<std::int64_t>(1, chunks / pipeline);
}

std::vector<std::int64_t> split_of(const LaunchLayout& layout, std::int64_t layers,
                                   std::int64_t pipeline, std::int64_t virtual_pipeline) {
  if (!layout.stage_layers.empty()) {
    return layout.stage_layers;
  }
  if (pipeline == 1) {
    return {};
  }
  const auto stages = static_cast<std::size_t>(pipeline);
  const std::int64_t first = layout.first_stage_layers;
  const std::int64_t last = layout.last_stage_layers;
  if (first > 0 || last > 0) {
    const std::int64_t middle = pipeline - (first > 0 ? 1 : 0) - (last > 0 ? 1 : 0);
    const std::int64_t rest = layers - first - last;
    if (rest < 0 || (middle > 0 ? rest % middle != 0 : rest != 0)) {
      return {};
    }
    std::vector<std::int64_t> split(stages, middle > 0 ? rest / middle : 0);
    split.front() = first > 0 ? first : split.front();
    split.back() = last > 0 ? last : split.back();
    return split;
  }
  const std::int64_t chunks = pipeline * virtual_pipeline;
  const std::int64_t all = layers + layout.first_chunk_less + layout.last_chunk_less;
  const bool plain = all == layers && all % chunks == 0;
  if (plain || chunks > 100'000 ||
      (!layout.spread_layers && (all == layers || all % chunks != 0))) {
    return {};
  }
  std::vector<std::int64_t> split;
  for (std::int64_t chunk = 0; chunk < chunks; ++chunk) {
    split.push_back(all / chunks + (chunk < all % chunks ? 1 : 0));
  }
  split.front() -= layout.first_chunk_less;
  split.back() -= layout.last_chunk_less;
  const bool negative = std::any_of(split.begin(), split.end(), [](auto n) { return n < 0; });
  return negative ? std::vector<std::int64_t>() : split;
}

}  // namespace trireme::planner
