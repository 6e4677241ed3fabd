// What the numbers of a family are where its config.json is silent, and what its keys mean that are
// not a field of their own. Source: the configuration classes and modelling files of Hugging Face
// transformers 5.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>

#include "models/families.h"
#include "models/function_table.h"

namespace trireme::models {
namespace {

using Set = void (*)(Transformer&);
using Finish = void (*)(ConfigFields&, Transformer&);
struct Family {
  const char* types = "";   // each between blanks
  Set set = nullptr;        // before the file is read
  Finish finish = nullptr;  // behind it
};

double root(std::int64_t value) {
  return std::sqrt(static_cast<double>(value));
}

template <typename Holds>
std::vector<std::int64_t> layers_that(const Transformer& model, Holds holds) {
  std::vector<std::int64_t> layers;
  for (std::int64_t layer = 0; layer < model.layers; ++layer) {
    if (holds(layer)) {
      layers.push_back(layer);
    }
  }
  return layers;
}
std::vector<std::int64_t> full_layers(const Transformer& model) {
  return layers_that(model,
                     [&](std::int64_t layer) { return attention_window(model, layer) == 0; });
}

void set_epsilon(Transformer& m) {
  m.function.norm_epsilon = 1e-5;
}
void set_gemma(Transformer& m) {
  m.function.norm_plus_one = true;
  m.function.activation = "gelu_tanh";
  m.function.embedding_multiplier = root(m.hidden);
}
void set_gemma2(Transformer& m) {
  set_gemma(m);
  m.function.attention_cap = 50;
  m.function.logit_cap = 30;
}
void set_gemma3(Transformer& m) {
  set_gemma(m);
  m.function.rotary_base = 1e6;
  m.function.rotary_local_base = 1e4;
}
void finish_gemma(ConfigFields& fields, Transformer& m) {
  // Gemma's first files say "gelu" and mean hidden_activation's default.
  m.function.activation = "gelu_tanh";
  read_activation(fields, {"hidden_activation"}, m.function);
}
void finish_gemma2(ConfigFields& fields, Transformer& m) {
  finish_gemma(fields, m);
  m.function.attention_scale = 1 / std::sqrt(fields.number_or("query_pre_attn_scalar", 256));
}

void set_glm(Transformer& m) {
  m.function.norm_epsilon = 1.5625e-07;
  m.function.rotary_share = 0.5;
  m.function.rotary_interleaved = true;
}
void set_post_norm(Transformer& m) {
  m.function.norm_epsilon = 1e-5;
  m.function.norm_after = true;
}
// OLMo 3 scales the rotation of its full layers alone.
void finish_olmo3(ConfigFields&, Transformer& m) {
  if (m.function.rotary_local_base == 0) {
    m.function.rotary_local_base = m.function.rotary_base;
  }
}
void set_flex_olmo(Transformer& m) {
  m.function.norm_after = true;
  m.function.rotary_base = 5e5;
}
void finish_exaone4(ConfigFields&, Transformer& m) {
  if (m.sliding_window > 0) {
    m.function.no_rotary_layers = full_layers(m);
  }
}
void set_ernie(Transformer& m) {
  m.function.norm_epsilon = 1e-5;
  m.function.rotary_base = 5e5;
  m.function.rotary_interleaved = true;
  m.function.router_normalises = m.function.router_bias_selects = true;
}
void set_hunyuan(Transformer& m) {
  m.function.norm_epsilon = 1e-5;
  m.function.qk_norm_after_rotary = true;
}
void set_hunyuan_moe(Transformer& m) {
  set_hunyuan(m);
  m.function.router_normalises = true;
}
// Its "dynamic" scaling with an alpha is another base.
void finish_hunyuan(ConfigFields& fields, Transformer& m) {
  if (fields.has({"rope_scaling"})) {
    const double alpha = fields.object("rope_scaling").number_or("alpha", 0);
    const auto width = static_cast<double>(m.head_dim);
    if (alpha > 0) {
      m.function.rotary_base *= std::pow(alpha, width / (width - 2));
      m.function.rotary_scaling = "none";
    }
  }
}

void set_nemotron(Transformer& m) {
  m.function.norm_epsilon = 1e-5;
  m.function.norm_plus_one = true;
  m.function.activation = "relu2";
  m.function.rotary_share = 0.5;
}
void finish_nemotron(ConfigFields& fields, Transformer& m) {
  m.function.norm_epsilon = fields.number_or("norm_eps", m.function.norm_epsilon);
}
void set_arcee(Transformer& m) {
  m.function.norm_epsilon = 1e-5;
  m.function.activation = "relu2";
}
void set_jais2(Transformer& m) {
  set_arcee(m);
  m.function.rotary_base = 5e5;
}
void set_cwm(Transformer& m) {
  m.function.norm_epsilon = 1e-5;
  m.function.rotary_base = 1e6;
}
void set_cohere(Transformer& m) {
  m.function.norm_epsilon = 1e-5;
  m.function.rotary_interleaved = true;
  m.function.logit_multiplier = 0.0625;
}
void finish_cohere2(ConfigFields&, Transformer& m) {
  m.function.no_rotary_layers = full_layers(m);
}
void set_stablelm(Transformer& m) {
  m.function.norm_epsilon = 1e-5;
  m.function.rotary_share = 0.25;
}
void set_tanh(Transformer& m) {
  m.function.norm_epsilon = 1e-5;
  m.function.activation = "gelu_tanh";
}
void finish_granite(ConfigFields& fields, Transformer& m) {
  m.function.logit_multiplier = 1 / fields.number_or("logits_scaling", 1);
}
void set_granite_experts(Transformer& m) {
  m.function.router_normalises = m.moe.has_value();
}
void finish_minicpm(ConfigFields& fields, Transformer& m) {
  const double depth = fields.number_or("scale_depth", 0);
  const double width = fields.number_or("dim_model_base", 0);
  m.function.residual_multiplier = depth > 0 ? depth / root(m.layers) : 1;
  m.function.logit_multiplier = width > 0 ? width / static_cast<double>(m.hidden) : 1;
}
void set_smollm3(Transformer& m) {
  m.function.rotary_base = 2e6;
}
// no_rope_layers holds a 1 for every layer that has positions.
void finish_no_rotary(ConfigFields& fields, Transformer& m) {
  const std::vector<std::int64_t> has = fields.indices("no_rope_layers");
  const std::int64_t step = fields.count_or({"no_rope_layer_interval"}, 4);
  m.function.no_rotary_layers = layers_that(m, [&](std::int64_t layer) {
    const auto l = static_cast<std::size_t>(layer);
    return has.empty() ? (layer + 1) % step == 0 : l < has.size() && has[l] == 0;
  });
}
void finish_ministral3(ConfigFields& fields, Transformer& m) {
  if (fields.has({"rope_parameters"})) {
    m.function.query_growth = fields.object("rope_parameters").number_or("llama_4_scaling_beta", 0);
    m.function.query_growth_length =
        m.function.query_growth > 0 ? static_cast<double>(m.function.rotary_trained) : 8192;
  }
}

void set_mixtral(Transformer& m) {
  m.function.norm_epsilon = 1e-5;
  m.function.rotary_base = 1e6;
  m.function.router_normalises = true;
}
void set_phimoe(Transformer& m) {
  set_mixtral(m);
  m.function.router_normalises = false;
  m.function.router_sparsemixer = true;
}
void set_dbrx(Transformer& m) {
  m.function.norm_epsilon = 1e-5;
  m.function.router_normalises = true;
}
void finish_dbrx(ConfigFields& fields, Transformer& m) {
  m.function.rotary_base = fields.object("attn_config").number_or("rope_theta", 1e4);
}
void set_deepseek_v2(Transformer& m) {
  m.function.rotary_interleaved = true;
}
// Groups of experts count where the method of choosing asks for them.
void finish_deepseek_v2(ConfigFields& fields, Transformer& m) {
  const std::string method = fields.text_or("topk_method", "greedy");
  Function& f = m.function;
  f.router_group_score = method == "noaux_tc" ? "top2" : "max";
  f.router_bias_selects = method == "noaux_tc";
  f.router_score = fields.text_or("scoring_func", "softmax");
  if (method == "greedy") {
    f.router_groups = f.router_groups_chosen = 0;
  }
}
void set_sigmoid_router(Transformer& m) {
  m.function.router_score = "sigmoid";
  m.function.router_normalises = true;
  m.function.router_bias_selects = true;
}
void set_deepseek_v3(Transformer& m) {
  set_sigmoid_router(m);
  m.function.rotary_interleaved = true;
  m.function.router_scale = 2.5;
  m.function.router_groups = 8;
  m.function.router_groups_chosen = 4;
}
void finish_deepseek_v3(ConfigFields& fields, Transformer& m) {
  m.function.router_score = fields.text_or("scoring_func", "sigmoid");
  m.function.router_bias_selects = fields.text_or("topk_method", "noaux_tc") == "noaux_tc";
}
void set_exaone_moe(Transformer& m) {
  set_sigmoid_router(m);
  m.function.norm_epsilon = 1e-5;
  m.function.router_scale = 2.5;
}
void set_youtu(Transformer& m) {
  m.function.rotary_interleaved = true;
}
void set_solar_open(Transformer& m) {
  set_sigmoid_router(m);
  m.function.norm_epsilon = 1e-5;
  m.function.rotary_base = 1e6;
}
void set_glm4_moe(Transformer& m) {
  set_sigmoid_router(m);
  m.function.norm_epsilon = 1e-5;
  m.function.rotary_share = 0.5;
}
void set_glm4_moe_lite(Transformer& m) {
  set_sigmoid_router(m);
  m.function.norm_epsilon = 1e-5;
  m.function.rotary_interleaved = true;
}
void set_minimax(Transformer& m) {
  set_sigmoid_router(m);
  m.function.rotary_base = 5e6;
}
// Rotated elements of a head as a number.
void finish_rotary_width(ConfigFields& fields, Transformer& m) {
  const std::int64_t width = fields.count_or({"rotary_dim"}, m.head_dim, /*low=*/0);
  m.function.rotary_share = static_cast<double>(width) / static_cast<double>(m.head_dim);
}
void finish_bailing(ConfigFields& fields, Transformer& m) {
  m.function.router_score = fields.text_or("score_function", "softmax");
  m.function.router_bias_selects = m.moe && m.moe->router_bias;
}
void set_gpt_oss(Transformer& m) {
  m.function.norm_epsilon = 1e-5;
  m.function.rotary_base = 150000;
  m.function.activation_limit = 7;
  m.function.router_normalises = true;
}
// Its files name silu, its experts compute gate * sigmoid(1.702 gate) * (up + 1) within a limit.
void finish_gpt_oss(ConfigFields&, Transformer& m) {
  m.function.activation = "quick_gelu";
  m.function.up_offset = 1;
}
void set_llama4(Transformer& m) {
  m.function.norm_epsilon = 1e-5;
  m.function.rotary_base = 5e5;
  m.function.rotary_interleaved = m.function.chunked_windows = true;
  m.function.router_score = "sigmoid";
  m.function.router_scales_input = true;
}
void finish_llama4(ConfigFields& fields, Transformer& m) {
  finish_no_rotary(fields, m);
  m.function.qk_norm_unweighted = fields.flag("use_qk_norm", true);
  const bool tuned = fields.truth("attn_temperature_tuning", true);
  m.function.query_growth = tuned ? fields.number_or("attn_scale", 0.1) : 0;
  m.function.query_growth_length = tuned ? fields.number_or("floor_scale", 8192) : 8192;
}

void set_gptj(Transformer& m) {
  set_tanh(m);
  m.function.rotary_interleaved = true;
}
void set_gpt_neo(Transformer& m) {
  set_tanh(m);
  m.function.attention_scale = 1;
}
void set_neox(Transformer& m) {
  m.function.norm_epsilon = 1e-5;
  m.function.activation = "gelu";
  m.function.rotary_share = 0.25;
}
void set_phi(Transformer& m) {
  set_tanh(m);
  m.function.rotary_share = 0.5;
}
void set_gelu(Transformer& m) {
  m.function.norm_epsilon = 1e-5;
  m.function.activation = "gelu";
}
void set_relu(Transformer& m) {
  m.function.norm_epsilon = 1e-5;
  m.function.activation = "relu";
}

// Silence: a Llama's, whose class has 1e-6.
constexpr Family kFunctionFamilies[] = {
    {" gemma ", set_gemma, finish_gemma},
    {" gemma2 vaultgemma ", set_gemma2, finish_gemma2},
    {" gemma3 gemma3_text ", set_gemma3, finish_gemma2},
    {" phi3 phi4 seed_oss_36b olmo dots_llm ", set_epsilon},
    {" smollm3 ", set_smollm3, finish_no_rotary},
    {" ministral3 ", set_epsilon, finish_ministral3},
    {" glm glm4 ", set_glm},
    {" olmo2 ", set_post_norm},
    {" olmo3 ", set_post_norm, finish_olmo3},
    {" flex_olmo ", set_flex_olmo},
    {" exaone_moe ", set_exaone_moe, finish_exaone4},
    {" exaone4 ", set_post_norm, finish_exaone4},
    {" ernie4_5 ernie4_5_moe ", set_ernie},
    {" hunyuan_v1_dense ", set_hunyuan, finish_hunyuan},
    {" hunyuan_v1_moe ", set_hunyuan_moe, finish_hunyuan},
    {" nemotron ", set_nemotron, finish_nemotron},
    {" arcee ", set_arcee},
    {" jais2 ", set_jais2},
    {" cwm ", set_cwm},
    {" cohere ", set_cohere},
    {" cohere2 ", set_cohere, finish_cohere2},
    {" stablelm ", set_stablelm},
    {" starcoder2 gpt2 gpt_bigcode ", set_tanh},
    {" granite ", nullptr, finish_granite},
    {" granitemoe granitemoeshared granitemoehybrid ", set_granite_experts, finish_granite},
    {" minicpm ", nullptr, finish_minicpm},
    {" mixtral ", set_mixtral},
    {" phimoe ", set_phimoe},
    {" olmoe ", set_epsilon},
    {" dbrx ", set_dbrx, finish_dbrx},
    {" deepseek_v2 ", set_deepseek_v2, finish_deepseek_v2},
    {" deepseek_v3 kimi_k2 ", set_deepseek_v3, finish_deepseek_v3},
    {" glm4_moe glm4v_moe_text ", set_glm4_moe},
    {" glm4_moe_lite ", set_glm4_moe_lite},
    {" dots1 ", set_sigmoid_router},
    {" solar_open ", set_solar_open},
    {" youtu ", set_youtu},
    {" minimax_m2 ", set_minimax, finish_rotary_width},
    {" bailing_moe bailing_moe_v2 ", nullptr, finish_bailing},
    {" gpt_oss ", set_gpt_oss, finish_gpt_oss},
    {" llama4 llama4_text ", set_llama4, finish_llama4},
    {" gptj codegen ", set_gptj, finish_rotary_width},
    {" gpt_neo ", set_gpt_neo},
    {" gpt_neox ", set_neox},
    {" phi ", set_phi},
    {" falcon RefinedWeb RefinedWebModel mpt ", set_gelu},
    {" bloom ", set_tanh},
    {" opt ", set_relu},
};

}  // namespace

void read_family_function(ConfigFields& fields, const std::string& model_type, Transformer& model) {
  const auto* family = std::find_if(
      std::begin(kFunctionFamilies), std::end(kFunctionFamilies), [&](const Family& each) {
        return std::string_view(each.types).find(" " + model_type + " ") != std::string_view::npos;
      });
  const bool known = family != std::end(kFunctionFamilies) && !model_type.empty();
  model.function.norm_epsilon = 1e-6;
  if (known && family->set != nullptr) {
    family->set(model);
  }
  read_config_function(fields, model.function);
  read_activation(fields, {"hidden_act", "activation_function", "activation"}, model.function);
  read_rotary_scaling(fields, model.function);
  if (known && family->finish != nullptr) {
    family->finish(fields, model);
  }
  settle_function(model);
}

}  // namespace trireme::models
