// The function of a model as Megatron-LM's arguments and Megatron-Bridge's configuration describe
// it.
#include <algorithm>
#include <type_traits>

#include "models/function_table.h"
#include "planner/launch/field_table.h"
#include "planner/launch/function_spellings.h"
#include "planner/launch/megatron/megatron.h"

namespace trireme::planner {
namespace {

using models::Function;
using models::Transformer;

// Settings that say several fields together, or a field in another way: with a value, and alone.
constexpr std::string_view kWithValue =
    "moe_router_load_balancing_type activation_func rotary_base no_rope_freq mrope_section "
    "rope_type "
    "rotary_seq_len_interpolation_factor seq_len_interpolation_factor rope_scaling_factor "
    "rotary_scaling_factor yarn_rotary_scaling_factor original_max_position_embeddings "
    "yarn_original_max_position_embeddings beta_fast beta_slow yarn_beta_fast yarn_beta_slow "
    "mscale "
    "mscale_all_dim yarn_mscale yarn_mscale_all_dim";
constexpr std::string_view kAlone =
    "moe_router_pre_softmax bias_activation_fusion no_bias_gelu_fusion squared_relu quick_geglu "
    "rotary_interleaved use_rope_scaling rope_scaling yarn_correction_range_round_to_int "
    "no_yarn_correction_range_round_to_int";

double number_of(const LaunchConfig& config, std::initializer_list<const char*> keys,
                 double otherwise) {
  for (const char* key : keys) {
    if (has_setting(config, key)) {
      return number_setting(config, key).value_or(otherwise);
    }
  }
  return otherwise;
}

std::string word_of(const LaunchConfig& config, std::string_view key) {
  std::string text = text_setting(config, key);
  std::erase(text, '"');
  std::erase(text, '\'');
  return text;
}

void read_field(const LaunchConfig& config, const FunctionSpelling& row, Function& function) {
  const char* key =
      has_setting(config, row.flag) || is_on(config, row.flag) ? row.flag : row.attribute;
  std::visit(
      [&](auto member) {
        auto& value = function.*member;
        using Value = std::decay_t<decltype(value)>;
        if constexpr (std::is_same_v<Value, bool>) {
          value = is_on(config, key);
        } else if constexpr (std::is_same_v<Value, double>) {
          value = number_of(config, {key}, value);
        } else if constexpr (std::is_same_v<Value, std::int64_t>) {
          value = integer_setting(config, key, 0, 1'000'000'000).value_or(value);
        } else if constexpr (std::is_same_v<Value, std::string>) {
          value = has_setting(config, key) ? word_of(config, key) : value;
        }
      },
      models::function_field(row.key).member);
}

std::string activation_of(const LaunchConfig& config, const Transformer& model) {
  const std::string given = text_setting(config, "activation_func");  // Megatron-Bridge's
  constexpr std::pair<std::string_view, const char*> kEnds[] = {
      {"squared_relu", "relu2"}, {"quick_gelu", "quick_gelu"}, {"silu", "silu"}, {"relu", "relu"}};
  for (const auto& [end, name] : kEnds) {
    if (given.ends_with(end)) {
      return name;
    }
  }
  if (given.empty() && is_on(config, "quick_geglu")) {
    return "quick_gelu";
  }
  if (given.empty() && is_on(config, "swiglu")) {
    return "silu";
  }
  if (is_on(config, "squared_relu")) {
    return "relu2";
  }
  const bool fused = !is_on(config, "no_bias_gelu_fusion") &&
                     switch_setting(config, "bias_activation_fusion").value_or(true);
  return fused && model.mlp_bias && !model.gated_mlp ? "gelu_tanh" : "gelu";
}

void read_no_rotary(const LaunchConfig& config, Transformer& model) {
  if (!has_setting(config, "no_rope_freq")) {
    return;
  }
  const LaunchSetting& setting = *find_setting(config, "no_rope_freq");
  std::vector<bool> without;
  if (setting.value.find('[') != std::string::npos) {
    without = read_layer_pattern(config, setting, model.layers);
  } else if (const auto every = integer_setting(config, "no_rope_freq", 1, 100'000)) {
    for (std::int64_t layer = 0; layer < model.layers; ++layer) {
      without.push_back((layer + 1) % *every == 0);
    }
  }
  for (std::size_t layer = 0; layer < without.size(); ++layer) {
    if (without[layer]) {
      model.function.no_rotary_layers.push_back(static_cast<std::int64_t>(layer));
    }
  }
}

std::vector<std::int64_t> numbers_in(const std::string& text) {
  std::vector<std::int64_t> numbers;
  std::int64_t value = -1;
  for (const char c : text + " ") {
    if (c >= '0' && c <= '9') {
      value = std::min<std::int64_t>(1'000'000, (value < 0 ? 0 : value) * 10 + (c - '0'));
    } else if (value >= 0) {
      numbers.push_back(value);
      value = -1;
    }
  }
  return numbers;
}

void read_yarn(const LaunchConfig& config, const Transformer& model, Function& f) {
  f.rotary_scaling = "yarn";
  const double silent = model.latent ? 40 : 1;  // MLATransformerConfig's own
  f.rotary_factor = number_of(config, {"yarn_rotary_scaling_factor", "rotary_scaling_factor"},
                              config.format == LaunchFormat::kMegatron ? 1 : silent);
  f.rotary_trained = static_cast<std::int64_t>(number_of(
      config, {"yarn_original_max_position_embeddings", "original_max_position_embeddings"},
      static_cast<double>(kLatentTrained)));
  f.rotary_fast = number_of(config, {"yarn_beta_fast", "beta_fast"}, 32);
  f.rotary_slow = number_of(config, {"yarn_beta_slow", "beta_slow"}, 1);
  f.rotary_mscale_all = number_of(config, {"yarn_mscale_all_dim", "mscale_all_dim"}, 0);
  const double mscale = number_of(config, {"yarn_mscale", "mscale"}, 1);
  f.rotary_mscale = mscale == 1 && f.rotary_mscale_all == 0 ? 0 : mscale;
  f.rotary_rounds = !is_on(config, "no_yarn_correction_range_round_to_int") &&
                    switch_setting(config, "yarn_correction_range_round_to_int").value_or(true);
}

void read_rotation(const LaunchConfig& config, Transformer& model) {
  Function& f = model.function;
  f.rotary_base = number_of(config, {"rotary_base"}, f.rotary_base);
  f.rotary_interleaved = model.latent || is_on(config, "rotary_interleaved");
  read_no_rotary(config, model);
  if (has_setting(config, "mrope_section")) {
    f.rotary_sections = numbers_in(text_setting(config, "mrope_section"));
  }
  const double interpolation =
      number_of(config, {"rotary_seq_len_interpolation_factor", "seq_len_interpolation_factor"}, 0);
  const std::string type = word_of(config, "rope_type");
  const bool latent_yarn = model.latent && (type.empty() || type == "yarn");
  if (latent_yarn || word_of(config, "position_embedding_type") == "yarn") {
    read_yarn(config, model, f);
  } else if (is_on(config, "use_rope_scaling") || is_on(config, "rope_scaling")) {
    f.rotary_scaling = "llama3";
    f.rotary_factor = number_of(config, {"rope_scaling_factor"}, 8);
    f.rotary_trained = kLlamaTrained;
  } else if (interpolation > 0) {
    f.rotary_scaling = "linear";
    f.rotary_factor = interpolation;
  }
}

}  // namespace

std::vector<FunctionName> function_settings_read() {
  std::vector<FunctionName> all;
  for (const std::string_view name : names_in(kWithValue)) {
    all.push_back({name, false});
  }
  for (const std::string_view name : names_in(kAlone)) {
    all.push_back({name, true});
  }
  for (const FunctionSpelling& row : function_spellings()) {
    if (row.flag == nullptr) {
      continue;
    }
    const bool alone =
        std::holds_alternative<bool Function::*>(models::function_field(row.key).member);
    all.push_back({row.flag, alone});
    if (std::string_view(row.flag) != row.attribute) {
      all.push_back({row.attribute, alone});
    }
  }
  return all;
}

void read_megatron_function(const LaunchConfig& config, Transformer& model) {
  Function& f = model.function;
  for (const FunctionSpelling& row : function_spellings()) {
    if (row.flag != nullptr) {
      read_field(config, row, f);
    }
  }
  f.activation = activation_of(config, model);
  if (model.position == models::Position::kRotary) {
    read_rotation(config, model);
  }
  if (model.moe) {
    f.router_normalises = f.router_score == "sigmoid" ? model.moe->experts_per_token > 1
                                                      : !is_on(config, "moe_router_pre_softmax");
    const std::int64_t best =
        model.moe->experts_per_token / std::max<std::int64_t>(1, f.router_groups_chosen);
    f.router_group_score = f.router_groups > 0 && best == 1 ? "max" : "top2";
    if (word_of(config, "moe_router_load_balancing_type") == "none") {
      f.router_aux_loss = 0;
    }
  }
  models::settle_function(model);
}

}  // namespace trireme::planner
