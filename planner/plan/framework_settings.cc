// The choices of a framework by name: values of `--set` and of frameworks.json read, applied and
// printed.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <span>
#include <tuple>
#include <utility>

#include "core/edits.h"
#include "core/error.h"
#include "planner/plan/framework_fields.h"

namespace trireme::planner {
namespace {

using Implementation = models::Implementation;

// Choices that move several fields together.
const Setting compound[] = {
    {"implementation",
     "whose layers: transformer_engine, local (classic_megatron), eager_torch, compiled_torch or "
     "trireme",
     "Megatron --transformer-impl"},
    {"grad_dtype", "fp32, bf16 or fp16: of the gradient buffer and of the wire",
     "Megatron --grad-reduce-in-bf16; Bridge grad_reduce_in_fp32"},
    {"reduce_dtype", "fp32, bf16 or fp16: of the wire of the gradient reduction",
     "FSDP MixedPrecision.reduce_dtype"},
    {"parameter_dtype", "fp32 or bf16: of the parameter that rests", "torchtitan training.dtype"},
    {"optimizer_dtype", "fp32, bf16 or fp16: of Adam's moments", "Megatron --exp-avg-dtype"},
    {"mixed_precision",
     "pure (bf16 throughout), autocast (fp32 units under torch.autocast) or default",
     "llm-foundry fsdp_config.mixed_precision"},
    {"fp8_recipe",
     "of this project's runtime under fp8: tensorwise (one scale a tensor, of its own largest "
     "value), delayed (of those of earlier steps) or blockwise (one a block of 128)",
     "Megatron --fp8-recipe; Transformer Engine Float8CurrentScaling, DelayedScaling, "
     "Float8BlockScaling"},
    {"apex", "local layers have Apex's masked softmax, fused accumulation and optimizer",
     "what is installed beside Megatron-LM"},
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

double parse_number(const std::string& key, const std::string& value, const SettingRange& range) {
  double number = 0;
  const char* end = value.data() + value.size();
  const auto [stop, failure] = std::from_chars(value.data(), end, number);
  if (failure != std::errc() || stop != end || !(number >= range.low) || number > range.high) {
    refuse(key, value, fmt::format("a number from {:g} to {:g}", range.low, range.high));
  }
  return number;
}

// A number that its field can hold and that is whole.
template <typename Count>
Count parse_count(const std::string& key, const std::string& value, SettingRange range) {
  range.high = std::min(range.high, static_cast<double>(std::numeric_limits<Count>::max()));
  const double number = parse_number(key, value, range);
  if (number != std::floor(number)) {
    refuse(key, value, fmt::format("a whole number from {:g} to {:.0f}", range.low, range.high));
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

constexpr std::pair<const char*, Fp8Recipe> kRecipes[] = {
    {"tensorwise", Fp8Recipe::kTensorwise},
    {"delayed", Fp8Recipe::kDelayed},
    {"blockwise", Fp8Recipe::kBlockwise},
};

Fp8Recipe parse_recipe(const Framework& framework, const std::string& key,
                       const std::string& value) {
  if (framework.implementation != Implementation::kTrireme) {
    throw Error(fmt::format("--set {}", key),
                "is of this project's runtime; of other frameworks fp8_product_rate and "
                "fp8_casts_weights say what a recipe costs");
  }
  for (const auto& [name, recipe] : kRecipes) {
    if (value == name) {
      return recipe;
    }
  }
  refuse(key, value, "tensorwise, delayed or blockwise");
}

// The choices that move several fields together.
bool apply_compound(Framework& framework, const std::string& key, const std::string& value) {
  if (key == "implementation") {
    framework.implementation = parse_implementation(key, value);
  } else if (key == "fp8_recipe") {
    framework.fp8_recipe = parse_recipe(framework, key, value);
  } else if (key == "apex") {
    const bool installed = parse_switch(key, value);
    if (framework.implementation == Implementation::kClassicMegatron) {
      framework.masked_softmax_fusion = framework.gradient_accumulation_fusion = installed;
      framework.foreach_optimizer = !installed;  // PyTorch's own takes its place
    }
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
    if (value != "pure" && value != "default" && value != "autocast") {
      refuse(key, value, "pure, default or autocast");
    }
    framework.mixed_precision_pure = value == "pure";
    if (framework.mixed_precision_pure) {
      framework.reduce_bytes = 2;  // llm-foundry: parameters, reduction and buffers in bf16
    } else if (value == "autocast") {
      // FSDP has no type of its own: units are gathered as they rest, and reduced so.
      framework.parameter_bytes = framework.reduce_bytes = 4;
    }
  } else if (key == "compile") {
    framework.compile = parse_switch(key, value);
    framework.cross_entropy_fusion |= framework.compile && framework.compiles_loss;
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

// What an unknown key was meant to be: a slip, or the settings that hold one of its words.
std::string near_settings(const std::string& key) {
  std::vector<std::string> near;
  for (const std::string& name : setting_names()) {
    const bool within = key.size() >= 3 && (name.find(key) != std::string::npos ||
                                            key.find(name) != std::string::npos);
    if (within || is_a_slip(key, name)) {
      near.push_back(name);
    }
  }
  return near.empty()
             ? std::string("'trireme frameworks NAME --settings' lists those there are")
             : fmt::format("{} would be right ('trireme frameworks NAME --settings' lists all)",
                           fmt::join(near, " or "));
}

// Types in which states rest and travel, in bytes an element.
auto state_types(const Framework& f) {
  return std::tuple(f.parameter_bytes, f.master_bytes, f.gradient_bytes, f.moment_bytes,
                    f.sgd_moment_bytes, f.reduce_bytes, f.fp32_shard_is_parameter,
                    f.mixed_precision_pure);
}

void apply_field(Framework& framework, const std::string& key, const std::string& value) {
  for (const FrameworkField& field : framework_fields()) {
    if (key != field.setting.name) {
      continue;
    }
    std::visit(
        [&](auto member) {
          using Type = std::decay_t<decltype(framework.*member)>;
          if constexpr (std::is_same_v<Type, bool>) {
            framework.*member = parse_switch(key, value);
          } else if constexpr (std::is_same_v<Type, double>) {
            framework.*member = parse_number(key, value, field.range);
          } else {
            framework.*member = parse_count<Type>(key, value, field.range);
          }
        },
        field.member);
    return;
  }
  throw Error(fmt::format("--set {}", key), fmt::format("no such setting; {}", near_settings(key)));
}

}  // namespace

Implementation implementation_of(const std::string& name) {
  return parse_implementation("implementation", name);
}

void apply_setting(Framework& framework, const std::string& key, const std::string& value) {
  const auto types = state_types(framework);
  if (!apply_compound(framework, key, value)) {
    apply_field(framework, key, value);
  }
  // Its program is written with these types, and its memory is counted as that holds it: others
  // would change the time alone.
  if (framework.sharder == Sharder::kTrireme && state_types(framework) != types) {
    throw Error(fmt::format("--set {}", key),
                "this project's runtime keeps bf16 parameters beside fp32 masters, gradients and "
                "moments, and has no other types; --framework fsdp2, or another, would be right");
  }
}

std::string setting_value(const Framework& framework, const std::string& name) {
  for (const FrameworkField& field : framework_fields()) {
    if (name == field.setting.name) {
      return std::visit([&](auto member) { return fmt::format("{}", framework.*member); },
                        field.member);
    }
  }
  for (const auto& [text, implementation] : kImplementations) {
    if (name == "implementation" && framework.implementation == implementation) {
      return text;
    }
  }
  return "";
}

const std::vector<Setting>& settings() {
  static const std::vector<Setting> all = [] {
    std::vector<Setting> list;
    for (const FrameworkField& field : framework_fields()) {
      list.push_back(field.setting);
    }
    list.insert(list.end(), std::begin(compound), std::end(compound));
    return list;
  }();
  return all;
}

std::vector<std::string> setting_names() {
  std::vector<std::string> names;
  for (const Setting& setting : settings()) {
    names.push_back(setting.name);
  }
  return names;
}

}  // namespace trireme::planner
