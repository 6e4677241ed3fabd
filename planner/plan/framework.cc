#include "planner/plan/framework.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>
#include <variant>

#include "core/embedded_file.h"
#include "core/error.h"
#include "core/json_reader.h"

namespace trireme::planner {

namespace embedded {
std::span<const core::EmbeddedFile> frameworks();
}  // namespace embedded

namespace {

using Member = std::variant<double Framework::*, bool Framework::*, int Framework::*,
                            std::int64_t Framework::*>;
using Implementation = models::Implementation;

struct Field {
  const char* name;
  Member member;
};
// Every number and switch of a framework under its own name: the file's keys and also settings.
constexpr Field kFields[] = {
    {"parameter_bytes", &Framework::parameter_bytes},
    {"master_bytes", &Framework::master_bytes},
    {"gradient_bytes", &Framework::gradient_bytes},
    {"moment_bytes", &Framework::moment_bytes},
    {"sgd_moment_bytes", &Framework::sgd_moment_bytes},
    {"reduce_bytes", &Framework::reduce_bytes},
    {"fp8_parameters", &Framework::fp8_parameters},
    {"fp32_shard_is_parameter", &Framework::fp32_shard_is_parameter},
    {"overlap_grad_reduce", &Framework::overlap_grad_reduce},
    {"overlap_param_gather", &Framework::overlap_param_gather},
    {"reduce_every_micro_batch", &Framework::reduce_every_micro_batch},
    {"root_unit_stays_gathered", &Framework::root_unit_stays_gathered},
    {"prefetch_units", &Framework::prefetch_units},
    {"prefetch_elements", &Framework::prefetch_elements},
    {"reshard_after_forward", &Framework::reshard_after_forward},
    {"shard_over_context", &Framework::shard_over_context},
    {"bucket_elements", &Framework::bucket_elements},
    {"tp_comm_overlap", &Framework::tp_comm_overlap},
    {"tp_backward_overlap", &Framework::tp_backward_overlap},
    {"regather_in_backward", &Framework::regather_in_backward},
    {"blocking_p2p", &Framework::blocking_p2p},
    {"host_runs_ahead", &Framework::host_runs_ahead},
    {"p2p_overlap_interleaved", &Framework::p2p_overlap_interleaved},
    {"scattered_boundary", &Framework::scattered_boundary},
    {"context_all_to_all", &Framework::context_all_to_all},
    {"logit_bytes", &Framework::logit_bytes},
    {"fused_logit_bytes", &Framework::fused_logit_bytes},
    {"kept_logit_bytes", &Framework::kept_logit_bytes},
    {"cross_entropy_fusion", &Framework::cross_entropy_fusion},
    {"loss_chunks", &Framework::loss_chunks},
    {"gradient_accumulation_fusion", &Framework::gradient_accumulation_fusion},
    {"decomposed_norms", &Framework::decomposed_norms},
    {"attention_output_copy", &Framework::attention_output_copy},
    {"unit_gather_launches", &Framework::unit_gather_launches},
    {"unit_reduce_launches", &Framework::unit_reduce_launches},
    {"unit_hook_launches", &Framework::unit_hook_launches},
    {"sharded_tensor_launches", &Framework::sharded_tensor_launches},
    {"compile", &Framework::compile},
    {"traced_graph", &Framework::traced_graph},
    {"pad_vocabulary", &Framework::pad_vocabulary},
    {"dropout", &Framework::dropout},
    {"fp32_norms", &Framework::fp32_norms},
    {"foreach_optimizer", &Framework::foreach_optimizer},
    {"frozen_graph_stays", &Framework::frozen_graph_stays},
    {"reserved_low", &Framework::reserved_low},
    {"reserved_typical", &Framework::reserved_typical},
    {"reserved_high", &Framework::reserved_high},
    {"interleaved_fragmentation", &Framework::interleaved_fragmentation},
    {"expandable_segments", &Framework::expandable_segments},
    {"recorded_collectives", &Framework::recorded_collectives},
    {"launch_blocking", &Framework::launch_blocking},
    {"world_group", &Framework::world_group},
    {"workspace_libraries", &Framework::workspace_libraries},
    {"lasting_gib", &Framework::lasting_gib},
    {"context_gib", &Framework::context_gib},
};

constexpr std::pair<const char*, Implementation> kImplementations[] = {
    {"transformer_engine", Implementation::kTransformerEngine},
    {"eager_torch", Implementation::kEagerTorch},
    {"trireme", Implementation::kTrireme},
    {"compiled_torch", Implementation::kCompiledTorch},
    {"classic_megatron", Implementation::kClassicMegatron},
    {"local", Implementation::kClassicMegatron},  // Megatron-LM's --transformer-impl local
};

[[noreturn]] void refuse(const std::string& key, const std::string& value,
                         const std::string& right) {
  throw Error(fmt::format("--set {}", key),
              fmt::format("'{}' is wrong; {} would be right", value, right));
}

bool parse_switch(const std::string& key, const std::string& value) {
  if (value == "true" || value == "on" || value == "1" || value == "yes") {
    return true;
  }
  if (value == "false" || value == "off" || value == "0" || value == "no") {
    return false;
  }
  refuse(key, value, "true or false");
}

double parse_number(const std::string& key, const std::string& value) {
  double number = 0;
  const char* end = value.data() + value.size();
  const auto [stop, failure] = std::from_chars(value.data(), end, number);
  if (failure != std::errc() || stop != end || !(number >= 0) || number > 1e15) {
    refuse(key, value, "a number of 0 or more");
  }
  return number;
}

// A number that its field can hold and that is whole.
template <typename Count>
Count parse_count(const std::string& key, const std::string& value) {
  const double number = parse_number(key, value);
  const auto most = static_cast<double>(std::numeric_limits<Count>::max());
  if (number != std::floor(number) || number > most) {
    refuse(key, value, fmt::format("a whole number from 0 to {:.0f}", std::min(most, 1e15)));
  }
  return static_cast<Count>(number);
}

// Bytes of one element named by its type.
double parse_dtype(const std::string& key, const std::string& value) {
  if (value == "fp32") {
    return 4;
  }
  if (value == "bf16" || value == "fp16") {
    return 2;
  }
  refuse(key, value, "fp32, bf16 or fp16");
}

Implementation parse_implementation(const std::string& key, const std::string& value) {
  for (const auto& [name, implementation] : kImplementations) {
    if (value == name) {
      return implementation;
    }
  }
  refuse(key, value,
         "transformer_engine, local, eager_torch, compiled_torch, classic_megatron or trireme");
}

StateLayout parse_states(const std::string& value) {
  if (value == "torch") {
    return StateLayout::kTorch;
  }
  if (value == "deepspeed") {
    return StateLayout::kDeepSpeed;
  }
  if (value != "flat_buffers") {
    throw Error("frameworks.json#states",
                fmt::format("'{}' is none of flat_buffers, torch, deepspeed", value));
  }
  return StateLayout::kFlatBuffers;
}

// The choices that move several fields together.
bool apply_compound(Framework& framework, const std::string& key, const std::string& value) {
  if (key == "implementation") {
    framework.implementation = parse_implementation(key, value);
  } else if (key == "grad_dtype") {
    framework.reduce_bytes = parse_dtype(key, value);
    framework.gradient_bytes = framework.reduce_bytes;
  } else if (key == "reduce_dtype") {
    framework.reduce_bytes = parse_dtype(key, value);
  } else if (key == "parameter_dtype") {
    // bf16: parameters, and gradients with them, exist in bf16 only. fp32: the stored parameter is
    // the master.
    const bool half = parse_dtype(key, value) < 4;
    framework.fp32_shard_is_parameter = !half;
    framework.parameter_bytes = 2;
    framework.master_bytes = half ? 0 : 4;
    framework.gradient_bytes = half ? 2 : 4;
    framework.reduce_bytes = half ? 2 : framework.reduce_bytes;
  } else if (key == "optimizer_dtype") {
    framework.moment_bytes = 2 * parse_dtype(key, value);
    framework.sgd_moment_bytes = framework.sgd_moment_bytes > 0 ? framework.moment_bytes / 2 : 0;
  } else if (key == "mixed_precision") {
    if (value != "pure" && value != "default") {
      refuse(key, value, "pure or default");
    }
    framework.mixed_precision_pure = value == "pure";
    if (framework.mixed_precision_pure) {
      framework.reduce_bytes = 2;  // llm-foundry: parameters, reduction and buffers in bf16
    }
  } else if (key == "compile") {
    framework.compile = parse_switch(key, value);
    if (framework.implementation == Implementation::kEagerTorch && framework.compile) {
      framework.implementation = Implementation::kCompiledTorch;
    } else if (framework.implementation == Implementation::kCompiledTorch && !framework.compile) {
      framework.implementation = Implementation::kEagerTorch;
    }
  } else {
    return false;
  }
  return true;
}

constexpr const char* kCompound[] = {"implementation",  "grad_dtype",      "reduce_dtype",
                                     "parameter_dtype", "optimizer_dtype", "mixed_precision"};

Framework read_framework(JsonReader& reader) {
  Framework framework;
  framework.name = reader.text("name");
  if (reader.has("implementation")) {
    framework.implementation =
        parse_implementation("implementation", reader.text("implementation"));
  }
  if (reader.has("states")) {
    framework.states = parse_states(reader.text("states"));
  }
  for (const Field& field : kFields) {
    const std::string key = field.name;
    if (!reader.has(key)) {
      continue;
    }
    std::visit(
        [&](auto member) {
          using Type = std::decay_t<decltype(framework.*member)>;
          if constexpr (std::is_same_v<Type, bool>) {
            framework.*member = reader.boolean(key);
          } else if constexpr (std::is_same_v<Type, double>) {
            framework.*member = reader.number(key, 0);
          } else {
            framework.*member =
                static_cast<Type>(reader.integer(key, 0, std::numeric_limits<Type>::max()));
          }
        },
        field.member);
  }
  reader.finish();
  return framework;
}

std::vector<Framework> all_frameworks() {
  std::vector<Framework> found;
  for (const core::EmbeddedFile& file : embedded::frameworks()) {
    const nlohmann::json json = parse_json(file.content, "frameworks.json");
    JsonReader reader(json, "frameworks.json");
    reader.ignore("sources");
    for (JsonReader& entry : reader.objects("frameworks")) {
      found.push_back(read_framework(entry));
    }
    reader.finish();
  }
  return found;
}

}  // namespace

bool overlaps_gradient_reduction(const Framework& framework) {
  return framework.overlap_grad_reduce &&
         framework.implementation != models::Implementation::kClassicMegatron;
}

bool overlaps_parameter_gather(const Framework& framework) {
  return framework.overlap_param_gather &&
         framework.implementation != models::Implementation::kClassicMegatron;
}

bool overlaps_tensor_backward(const Framework& framework, bool sequence_parallel) {
  const bool classic = framework.implementation == models::Implementation::kClassicMegatron;
  return framework.tp_backward_overlap && (sequence_parallel || !classic);
}

std::vector<std::string> framework_names() {
  std::vector<std::string> names;
  for (const Framework& framework : all_frameworks()) {
    names.push_back(framework.name);
  }
  return names;
}

Framework find_framework(const std::string& name) {
  for (Framework& framework : all_frameworks()) {
    if (framework.name == name) {
      return std::move(framework);
    }
  }
  throw Error("--framework", fmt::format("'{}' is not a framework; there are {}", name,
                                         fmt::join(framework_names(), ", ")));
}

void apply_setting(Framework& framework, const std::string& key, const std::string& value) {
  if (apply_compound(framework, key, value)) {
    return;
  }
  for (const Field& field : kFields) {
    if (key != field.name) {
      continue;
    }
    std::visit(
        [&](auto member) {
          using Type = std::decay_t<decltype(framework.*member)>;
          if constexpr (std::is_same_v<Type, bool>) {
            framework.*member = parse_switch(key, value);
          } else if constexpr (std::is_same_v<Type, double>) {
            framework.*member = parse_number(key, value);
          } else {
            framework.*member = parse_count<Type>(key, value);
          }
        },
        field.member);
    return;
  }
  throw Error(fmt::format("--set {}", key),
              fmt::format("no such setting; there are {}", fmt::join(setting_names(), ", ")));
}

std::vector<std::string> setting_names() {
  std::vector<std::string> names;
  for (const Field& field : kFields) {
    names.emplace_back(field.name);
  }
  for (const char* name : kCompound) {
    names.emplace_back(name);
  }
  return names;
}

}  // namespace trireme::planner
