#include "planner/launch/function_spellings.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "models/function_table.h"
#include "planner/launch/export.h"
#include "planner/launch/megatron/megatron.h"

namespace trireme::planner {
namespace {

using models::Function;
using models::FunctionField;
using models::Transformer;

constexpr const char* kNoMultiplier =
    "a factor that Megatron-Core applies under muP alone, with its other rules";
constexpr const char* kNoRouter = "a way of routing that Megatron-Core's router lacks";

constexpr FunctionSpelling kSpellings[] = {
    {"activation"},
    {"activation_limit", "activation_func_clamp_value", "activation_func_clamp_value"},
    {"up_offset", "glu_linear_offset", "glu_linear_offset"},
    {"norm_epsilon", "norm_epsilon", "layernorm_epsilon"},
    {"norm_plus_one", "apply_layernorm_1p", "layernorm_zero_centered_gamma"},
    {"norm_after", nullptr, nullptr,
     "norms of what a half gives; Megatron-Core's norms are before"},
    {"residual_after_norm", "apply_residual_connection_post_layernorm",
     "apply_residual_connection_post_layernorm"},
    {"rotary_base"},
    {"rotary_local_base", nullptr, nullptr,
     "another base in sliding layers; Megatron-Core has one"},
    {"rotary_share", "rotary_percent", "rotary_percent"},
    {"rotary_interleaved"},
    {"no_rotary_layers"},
    {"rotary_sections"},
    {"rotary_scaling"},
    {"rotary_factor"},
    {"rotary_trained"},
    {"rotary_low"},
    {"rotary_high"},
    {"rotary_fast"},
    {"rotary_slow"},
    {"rotary_mscale"},
    {"rotary_mscale_all"},
    {"rotary_attention_factor", nullptr, nullptr,
     "a factor of its own; Megatron-Core takes it from the scaling"},
    {"rotary_rounds"},
    {"rotary_short", nullptr, nullptr, "longrope, which Megatron-Core lacks"},
    {"rotary_long", nullptr, nullptr, "longrope, which Megatron-Core lacks"},
    {"attention_scale", "softmax_scale", "softmax_scale"},
    {"attention_cap", nullptr, nullptr, "a cap of the scores, which Megatron-Core lacks"},
    {"qkv_clip", nullptr, nullptr, "a clamp of q, k and v, which Megatron-Core lacks"},
    {"query_growth", nullptr, nullptr,
     "scores that grow with the position, which Megatron-Core lacks"},
    {"query_growth_length", nullptr, nullptr,
     "scores that grow with the position, which Megatron-Core lacks"},
    {"chunked_windows", nullptr, nullptr, "windows that start anew; Megatron-Core's slide"},
    {"scales_by_layer", nullptr, nullptr,
     "scores over the layer's number, which Megatron-Core lacks"},
    {"qk_norm_unweighted", nullptr, nullptr,
     "norms of q and k without weights, which Megatron-Core lacks"},
    {"qk_norm_after_rotary", nullptr, nullptr,
     "norms of q and k behind the rotation; Megatron-Core's stand before it"},
    {"alibi_max", nullptr, nullptr, "ALiBi, which Megatron-Core lacks"},
    {"embedding_multiplier", nullptr, nullptr, kNoMultiplier},
    {"residual_multiplier", nullptr, nullptr, kNoMultiplier},
    {"logit_multiplier", nullptr, nullptr, kNoMultiplier},
    {"logit_cap", nullptr, nullptr, "a cap of the logits, which Megatron-Core lacks"},
    {"router_score", "moe_router_score_function", "moe_router_score_function"},
    {"router_normalises"},
    {"router_scale", "moe_router_topk_scaling_factor", "moe_router_topk_scaling_factor"},
    {"router_groups", "moe_router_num_groups", "moe_router_num_groups"},
    {"router_groups_chosen", "moe_router_group_topk", "moe_router_group_topk"},
    {"router_group_score"},
    {"router_bias_selects", "moe_router_enable_expert_bias", "moe_router_enable_expert_bias"},
    {"router_scales_input", "moe_apply_probs_on_input", "moe_apply_probs_on_input"},
    {"router_sparsemixer", nullptr, nullptr, kNoRouter},
    {"router_jitter", nullptr, nullptr, kNoRouter},
    {"router_aux_loss", "moe_aux_loss_coeff", "moe_aux_loss_coeff"},
    {"router_z_loss", "moe_z_loss_coeff", "moe_z_loss_coeff"},
    {"init_std", "init_method_std", "init_method_std"},
};

[[noreturn]] void refuse_field(const Transformer& model, const char* key, const std::string& why) {
  refuse(fmt::format("{} of {}", key, model.name),
         fmt::format("is {}: {}; a model without it would be right",
                     models::value_text(models::function_field(key), model.function), why));
}

class Writer {
 public:
  Writer(const Transformer& model, FunctionFormat format)
      : model_(model), f_(model.function), bridge_(format == FunctionFormat::kBridge) {}

  std::vector<FunctionSetting> run() {
    for (const FunctionSpelling& row : kSpellings) {
      const FunctionField& field = models::function_field(row.key);
      if (models::has_default(field, f_)) {
        continue;
      }
      if (row.refusal != nullptr) {
        refuse_field(model_, row.key, row.refusal);
      }
      if (row.flag != nullptr) {
        add_field(row, field);
      }
    }
    if (model_.latent && f_.attention_scale > 0) {
      refuse_field(model_, "attention_scale",
                   "Megatron-Core's MLA has the scale of its head width");
    }
    add_activation();
    if (model_.position == models::Position::kRotary) {
      add_rotation();
    }
    if (model_.moe) {
      add_routing();
    }
    return std::move(out_);
  }

 private:
  void add(std::string name, std::string value) {
    out_.push_back({std::move(name), std::move(value)});
  }
  void add_switch(std::string name) { add(std::move(name), bridge_ ? "True" : ""); }

  void add_field(const FunctionSpelling& row, const FunctionField& field) {
    const std::string name = bridge_ ? row.attribute : row.flag;
    const std::string text = models::value_text(field, f_);
    if (std::holds_alternative<bool Function::*>(field.member)) {
      add_switch(name);
    } else if (std::holds_alternative<std::string Function::*>(field.member)) {
      add(name, bridge_ ? "\"" + text + "\"" : text);
    } else {
      add(name, text);
    }
  }

  void add_activation() {
    const std::string& word = f_.activation;
    if (bridge_) {
      const std::pair<const char*, const char*> names[] = {{"silu", "torch.nn.functional.silu"},
                                                           {"gelu", "torch.nn.functional.gelu"},
                                                           {"relu", "torch.nn.functional.relu"},
                                                           {"relu2", "squared_relu"},
                                                           {"quick_gelu", "quick_gelu"}};
      const bool fused = word == "gelu_tanh" && model_.mlp_bias && !model_.gated_mlp;
      for (const auto& [name, spelled] : names) {
        if (word == name || (fused && std::string_view(name) == "gelu")) {
          add("activation_func", spelled);
          add("bias_activation_fusion", word == "gelu" || word == "relu2" ? "False" : "True");
          return;
        }
      }
    } else if (model_.gated_mlp && (word == "silu" || word == "quick_gelu")) {
      add(word == "silu" ? "swiglu" : "quick_geglu", "");
      return;
    } else if (!model_.gated_mlp && word == "relu2") {
      add("squared_relu", "");
      return;
    } else if (!model_.gated_mlp && word == "gelu") {
      // The fused kernel with biases is the tanh form.
      if (model_.mlp_bias) {
        add("no_bias_gelu_fusion", "");
      }
      return;
    } else if (!model_.gated_mlp && word == "gelu_tanh" && model_.mlp_bias) {
      return;
    }
    refuse_field(model_, "activation",
                 fmt::format("Megatron has no {}{} MLP{}", model_.gated_mlp ? "gated " : "", word,
                             model_.mlp_bias ? "" : " without biases"));
  }

  void add_rotation() {
    if (f_.rotary_base != std::floor(f_.rotary_base)) {
      refuse_field(model_, "rotary_base", "Megatron takes whole numbers");
    }
    add("rotary_base", fmt::format("{:.0f}", f_.rotary_base));
    if (model_.latent) {
      // Megatron-Core's MLA pairs neighbours by itself.
      if (!f_.rotary_interleaved) {
        refuse_field(model_, "rotary_interleaved", "Megatron-Core's MLA pairs neighbours");
      }
    } else if (f_.rotary_interleaved) {
      add_switch("rotary_interleaved");
    }
    if (!f_.no_rotary_layers.empty()) {
      std::vector<bool> without(static_cast<std::size_t>(model_.layers), false);
      for (const std::int64_t layer : f_.no_rotary_layers) {
        if (layer < model_.layers) {
          without[static_cast<std::size_t>(layer)] = true;
        }
      }
      add("no_rope_freq", layer_pattern(without));
    }
    std::string type = "rope";
    if (!f_.rotary_sections.empty()) {
      type = "mrope";
      add("mrope_section", bridge_ ? fmt::format("[{}]", fmt::join(f_.rotary_sections, ", "))
                                   : fmt::format("{}", fmt::join(f_.rotary_sections, " ")));
    }
    if (f_.rotary_scaling == "yarn" && !model_.latent) {
      if (type == "mrope") {
        refuse_field(model_, "rotary_sections", "Megatron scales them by nothing");
      }
      type = "yarn";
    }
    add("position_embedding_type", bridge_ ? "\"" + type + "\"" : type);
    add_scaling();
  }

  void add_scaling() {
    const std::string& scaling = f_.rotary_scaling;
    if (model_.latent) {
      add("rope_type", bridge_ ? (scaling == "yarn" ? "\"yarn\"" : "\"rope\"")
                               : (scaling == "yarn" ? "yarn" : "rope"));
    }
    if (scaling == "none") {
      return;
    }
    if (scaling == "linear" && !model_.latent && f_.rotary_factor == std::floor(f_.rotary_factor)) {
      add(bridge_ ? "seq_len_interpolation_factor" : "rotary_seq_len_interpolation_factor",
          fmt::format("{:.0f}", f_.rotary_factor));
    } else if (scaling == "llama3" && !model_.latent) {
      if (f_.rotary_low != 1 || f_.rotary_high != 4 || f_.rotary_trained != kLlamaTrained) {
        refuse_field(model_, "rotary_scaling",
                     fmt::format("Megatron's has low 1, high 4 and {} positions, not {}, {} and {}",
                                 kLlamaTrained, f_.rotary_low, f_.rotary_high, f_.rotary_trained));
      }
      add_switch(bridge_ ? "rope_scaling" : "use_rope_scaling");
      add("rope_scaling_factor", fmt::format("{}", f_.rotary_factor));
    } else if (scaling == "yarn") {
      model_.latent ? add_latent_yarn() : add_yarn();
    } else {
      refuse_field(model_, "rotary_scaling",
                   model_.latent ? "Megatron-Core's MLA scales by yarn or not at all"
                                 : "Megatron has linear, llama3 and yarn");
    }
  }

  void add_mscale() {
    // Where a config.json says neither, both projects take 0.1 ln(factor) + 1.
    add(bridge_ && !model_.latent ? "yarn_mscale" : "mscale",
        fmt::format("{}", f_.rotary_mscale > 0 ? f_.rotary_mscale : 1.0));
    add(bridge_ && !model_.latent ? "yarn_mscale_all_dim" : "mscale_all_dim",
        fmt::format("{}", f_.rotary_mscale_all));
  }

  void add_yarn() {
    add(bridge_ ? "yarn_rotary_scaling_factor" : "rotary_scaling_factor",
        fmt::format("{}", f_.rotary_factor));
    add("yarn_original_max_position_embeddings", fmt::format("{}", f_.rotary_trained));
    add("yarn_beta_fast", fmt::format("{}", f_.rotary_fast));
    add("yarn_beta_slow", fmt::format("{}", f_.rotary_slow));
    if (bridge_) {
      add("yarn_correction_range_round_to_int", f_.rotary_rounds ? "True" : "False");
    } else {
      add(f_.rotary_rounds ? "yarn_correction_range_round_to_int"
                           : "no_yarn_correction_range_round_to_int",
          "");
    }
    add_mscale();
  }

  void add_latent_yarn() {
    add("rotary_scaling_factor", fmt::format("{}", f_.rotary_factor));
    add_mscale();
    if (bridge_) {
      add("original_max_position_embeddings", fmt::format("{}", f_.rotary_trained));
      add("beta_fast", fmt::format("{}", f_.rotary_fast));
      add("beta_slow", fmt::format("{}", f_.rotary_slow));
    } else if (f_.rotary_trained != kLatentTrained || f_.rotary_fast != 32 || f_.rotary_slow != 1) {
      refuse_field(model_, "rotary_scaling",
                   fmt::format("Megatron-LM's MLA has {} positions, 32 and 1, not {}, {} and {}",
                               kLatentTrained, f_.rotary_trained, f_.rotary_fast, f_.rotary_slow));
    }
    if (!f_.rotary_rounds) {
      refuse_field(model_, "rotary_rounds", "Megatron-Core's MLA rounds the ramp's bounds");
    }
  }

  void add_routing() {
    const models::MixtureOfExperts& moe = *model_.moe;
    const bool sigmoid = f_.router_score == "sigmoid";
    if (!sigmoid && !f_.router_normalises) {
      add_switch("moe_router_pre_softmax");
    }
    // With one expert a token Megatron-Core does not divide by the sum (moe_utils.py).
    const bool divides = moe.experts_per_token > 1;
    if (sigmoid && f_.router_normalises != divides) {
      refuse_field(model_, "router_normalises",
                   "Megatron-Core's sigmoid router does so with several experts a token alone");
    }
    if (f_.router_groups > 0) {
      const std::int64_t best =
          moe.experts_per_token / std::max<std::int64_t>(1, f_.router_groups_chosen);
      if (best != (f_.router_group_score == "max" ? 1 : 2)) {
        refuse_field(model_, "router_group_score",
                     fmt::format("Megatron-Core chooses a group by the sum of its best {}", best));
      }
    }
    if (f_.router_bias_selects && !sigmoid) {
      refuse_field(model_, "router_bias_selects", "Megatron-Core's expert bias needs a sigmoid");
    }
    if (moe.router_bias && !f_.router_bias_selects && !has_linear_biases(model_)) {
      refuse_field(model_, "router_bias_selects",
                   "Megatron-Core's router weighs by a bias only where every matrix has one");
    }
    const std::string balancing = f_.router_aux_loss > 0 ? "aux_loss" : "none";
    add("moe_router_load_balancing_type", bridge_ ? "\"" + balancing + "\"" : balancing);
  }

  const Transformer& model_;
  const Function& f_;
  bool bridge_;
  std::vector<FunctionSetting> out_;
};

}  // namespace

std::span<const FunctionSpelling> function_spellings() {
  return kSpellings;
}

std::vector<FunctionSetting> megatron_function(const Transformer& model, FunctionFormat format) {
  return Writer(model, format).run();
}

}  // namespace trireme::planner
