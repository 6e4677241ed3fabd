#include "models/function_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "core/check.h"
#include "core/error.h"
#include "core/json_reader.h"
#include "models/config_fields.h"

namespace trireme::models {
namespace {

constexpr double kLargest = 1e12;

using F = Function;
constexpr FunctionField kFields[] = {
    {"activation", &F::activation, {}, " silu gelu gelu_tanh relu relu2 quick_gelu "},
    {"activation_limit", &F::activation_limit, {"swiglu_limit"}},
    {"up_offset", &F::up_offset},
    {"norm_epsilon",
     &F::norm_epsilon,
     {"rms_norm_eps", "layer_norm_epsilon", "layer_norm_eps", "norm_epsilon"}},
    {"norm_plus_one", &F::norm_plus_one},
    {"norm_after", &F::norm_after},
    {"residual_after_norm", &F::residual_after_norm, {"apply_residual_connection_post_layernorm"}},
    {"rotary_base",
     &F::rotary_base,
     {"rope_theta", "rotary_emb_base", "rope_parameters.rope_theta",
      "rope_parameters.full_attention.rope_theta"}},
    {"rotary_local_base",
     &F::rotary_local_base,
     {"rope_local_base_freq", "rope_parameters.sliding_attention.rope_theta"}},
    {"rotary_share",
     &F::rotary_share,
     {"partial_rotary_factor", "rotary_pct", "rope_pct", "rope_parameters.partial_rotary_factor"}},
    {"rotary_interleaved", &F::rotary_interleaved, {"rope_interleave"}},
    {"no_rotary_layers", &F::no_rotary_layers},
    {"rotary_sections",
     &F::rotary_sections,
     {"rope_scaling.mrope_section", "rope_parameters.mrope_section"}},
    {"rotary_scaling", &F::rotary_scaling, {}, " none linear dynamic llama3 yarn longrope "},
    {"rotary_factor", &F::rotary_factor, {"rope_scaling.factor", "rope_parameters.factor"}},
    {"rotary_trained",
     &F::rotary_trained,
     {"rope_scaling.original_max_position_embeddings",
      "rope_parameters.original_max_position_embeddings", "original_max_position_embeddings"}},
    {"rotary_low",
     &F::rotary_low,
     {"rope_scaling.low_freq_factor", "rope_parameters.low_freq_factor"}},
    {"rotary_high",
     &F::rotary_high,
     {"rope_scaling.high_freq_factor", "rope_parameters.high_freq_factor"}},
    {"rotary_fast", &F::rotary_fast, {"rope_scaling.beta_fast", "rope_parameters.beta_fast"}},
    {"rotary_slow", &F::rotary_slow, {"rope_scaling.beta_slow", "rope_parameters.beta_slow"}},
    {"rotary_mscale", &F::rotary_mscale, {"rope_scaling.mscale", "rope_parameters.mscale"}},
    {"rotary_mscale_all",
     &F::rotary_mscale_all,
     {"rope_scaling.mscale_all_dim", "rope_parameters.mscale_all_dim"}},
    {"rotary_attention_factor",
     &F::rotary_attention_factor,
     {"rope_scaling.attention_factor", "rope_parameters.attention_factor"}},
    {"rotary_rounds", &F::rotary_rounds, {"rope_scaling.truncate", "rope_parameters.truncate"}},
    {"rotary_short",
     &F::rotary_short,
     {"rope_scaling.short_factor", "rope_parameters.short_factor"}},
    {"rotary_long", &F::rotary_long, {"rope_scaling.long_factor", "rope_parameters.long_factor"}},
    {"attention_scale", &F::attention_scale, {"attention_multiplier", "attn_config.softmax_scale"}},
    {"attention_cap", &F::attention_cap, {"attn_logit_softcapping"}},
    {"qkv_clip", &F::qkv_clip, {"clip_qkv", "attn_config.clip_qkv"}},
    {"query_growth", &F::query_growth},
    {"query_growth_length", &F::query_growth_length},
    {"chunked_windows", &F::chunked_windows},
    {"scales_by_layer", &F::scales_by_layer, {"scale_attn_by_inverse_layer_idx"}},
    {"qk_norm_unweighted", &F::qk_norm_unweighted},
    {"qk_norm_after_rotary", &F::qk_norm_after_rotary},
    {"alibi_max", &F::alibi_max, {"attn_config.alibi_bias_max"}},
    {"embedding_multiplier", &F::embedding_multiplier, {"embedding_multiplier", "scale_emb"}},
    {"residual_multiplier", &F::residual_multiplier, {"residual_multiplier"}},
    {"logit_multiplier", &F::logit_multiplier, {"logit_scale"}},
    {"logit_cap", &F::logit_cap, {"final_logit_softcapping"}},
    {"router_score", &F::router_score, {}, " softmax sigmoid "},
    {"router_normalises", &F::router_normalises, {"norm_topk_prob"}},
    {"router_scale", &F::router_scale, {"routed_scaling_factor"}},
    {"router_groups", &F::router_groups, {"n_group"}},
    {"router_groups_chosen", &F::router_groups_chosen, {"topk_group"}},
    {"router_group_score", &F::router_group_score, {}, " top2 max "},
    {"router_bias_selects", &F::router_bias_selects},
    {"router_scales_input", &F::router_scales_input},
    {"router_sparsemixer", &F::router_sparsemixer},
    {"router_jitter", &F::router_jitter, {"router_jitter_noise"}},
    {"router_aux_loss", &F::router_aux_loss, {"router_aux_loss_coef", "aux_loss_alpha"}},
    {"router_z_loss", &F::router_z_loss, {"router_z_loss_coef"}},
    {"init_std", &F::init_std, {"initializer_range"}},
};

// The object that holds the last part of "a.b.c", if every part before it is there.
const nlohmann::json* find_path(const nlohmann::json& json, std::string_view path) {
  const nlohmann::json* at = &json;
  while (true) {
    const auto dot = path.find('.');
    if (!at->is_object()) {
      return nullptr;
    }
    const auto found = at->find(std::string(path.substr(0, dot)));
    if (found == at->end() || found->is_null()) {
      return nullptr;
    }
    at = &*found;
    if (dot == std::string_view::npos) {
      return at;
    }
    path.remove_prefix(dot + 1);
  }
}

[[noreturn]] void refuse(const std::string& where, std::string_view key, const char* right) {
  throw Error(fmt::format("{}#/{}", where, key), fmt::format("must be {}", right));
}

bool is_number(const nlohmann::json& value) {
  return value.is_number() && std::abs(value.get<double>()) <= kLargest;
}

template <typename Value>
std::vector<Value> numbers_of(const nlohmann::json& list, const std::string& where,
                              std::string_view key) {
  const bool right =
      list.is_array() && list.size() <= kListMax &&
      std::all_of(list.begin(), list.end(), [](const nlohmann::json& value) {
        return is_number(value) && (std::is_floating_point_v<Value> || value.is_number_unsigned());
      });
  if (!right) {
    refuse(where, key, "a list of numbers");
  }
  return list.get<std::vector<Value>>();
}

void set_value(const FunctionField& field, const nlohmann::json& json, const std::string& where,
               std::string_view key, Function& function) {
  std::visit(
      [&](auto member) {
        auto& value = function.*member;
        using Value = std::decay_t<decltype(value)>;
        if constexpr (std::is_same_v<Value, bool>) {
          json.is_boolean() ? void(value = json.get<bool>()) : refuse(where, key, "true or false");
        } else if constexpr (std::is_same_v<Value, std::string>) {
          const std::string word = json.is_string() ? json.get<std::string>() : "";
          if (word.empty() ||
              std::string_view(field.words).find(" " + word + " ") == std::string_view::npos) {
            refuse(where, key, fmt::format("one of{}", field.words).c_str());
          }
          value = word;
        } else if constexpr (std::is_same_v<Value, double>) {
          is_number(json) ? void(value = json.get<double>()) : refuse(where, key, "a number");
        } else if constexpr (std::is_same_v<Value, std::int64_t>) {
          const bool whole =
              is_number(json) && std::floor(json.get<double>()) == json.get<double>();
          whole&& json.get<double>() >= 0
              ? void(value = static_cast<std::int64_t>(json.get<double>()))
              : refuse(where, key, "a whole number");
        } else {
          value = numbers_of<typename Value::value_type>(json, where, key);
        }
      },
      field.member);
}

}  // namespace

std::span<const FunctionField> function_fields() {
  return kFields;
}

const FunctionField& function_field(const std::string& key) {
  const auto* found = std::find_if(std::begin(kFields), std::end(kFields),
                                   [&](const FunctionField& field) { return key == field.key; });
  TRIREME_CHECK(found != std::end(kFields));
  return *found;
}

bool same_value(const FunctionField& field, const Function& a, const Function& b) {
  return std::visit([&](auto member) { return a.*member == b.*member; }, field.member);
}

bool has_default(const FunctionField& field, const Function& function) {
  return same_value(field, function, Function{});
}

std::string value_text(const FunctionField& field, const Function& function) {
  return std::visit(
      [&](auto member) {
        const auto& value = function.*member;
        using Value = std::decay_t<decltype(value)>;
        if constexpr (std::is_same_v<Value, std::string>) {
          return value;
        } else if constexpr (std::is_arithmetic_v<Value>) {
          return fmt::format("{}", value);
        } else {
          return fmt::format("[{}]", fmt::join(value, ", "));
        }
      },
      field.member);
}

double value_number(const FunctionField& field, const Function& function) {
  return std::visit(
      [&](auto member) {
        const auto& value = function.*member;
        if constexpr (std::is_arithmetic_v<std::decay_t<decltype(value)>>) {
          return static_cast<double>(value);
        } else {
          TRIREME_CHECK(false);
          return 0.0;
        }
      },
      field.member);
}

nlohmann::ordered_json write_function(const Function& function) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  for (const FunctionField& field : kFields) {
    if (!has_default(field, function)) {
      std::visit([&](auto member) { json[field.key] = function.*member; }, field.member);
    }
  }
  return json;
}

Function read_function(JsonReader reader) {
  Function function;
  for (const FunctionField& field : kFields) {
    if (reader.has(field.key)) {
      const nlohmann::json& value = reader.raw(field.key);
      const std::string where = reader.where(field.key);
      set_value(field, value, where.substr(0, where.rfind('/')), field.key, function);
    }
  }
  reader.finish();
  return function;
}

void read_config_function(ConfigFields& fields, Function& function) {
  const nlohmann::json& config = fields.json();
  for (const FunctionField& field : kFields) {
    for (const char* key : field.config_keys) {
      const nlohmann::json* value = key == nullptr ? nullptr : find_path(config, key);
      if (value != nullptr) {
        set_value(field, *value, fields.where(), key, function);
        break;
      }
    }
  }
}

void check_function(const Function& function, const std::string& where) {
  struct Range {
    const char* key;
    double low, high;
  };
  constexpr Range kRanges[] = {
      {"activation_limit", 0, kLargest},
      {"norm_epsilon", 0, 1},
      {"rotary_base", 1e-3, kLargest},
      {"rotary_local_base", 0, kLargest},
      {"rotary_share", 0, 1},
      {"rotary_factor", 1e-6, 1e9},
      {"rotary_trained", 0, 1e9},
      {"attention_scale", 0, 1e9},
      {"attention_cap", 0, kLargest},
      {"qkv_clip", 0, kLargest},
      {"alibi_max", 1e-6, 1e6},
      {"logit_cap", 0, kLargest},
      {"router_groups", 0, 1e6},
      {"router_groups_chosen", 0, 1e6},
      {"router_jitter", 0, 1},
      {"init_std", 0, 1e3},
  };
  for (const Range& range : kRanges) {
    const double value = value_number(function_field(range.key), function);
    if (!(value >= range.low && value <= range.high)) {
      throw Error(where, fmt::format("{} is {}; it must be between {} and {}", range.key, value,
                                     range.low, range.high));
    }
  }
}

}  // namespace trireme::models
