#include "planner/lower/arithmetic.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include "core/error.h"

namespace trireme::planner::lowering {
namespace {

using models::Function;
using models::Transformer;

// Elements of a head that are turned.
std::int64_t turned_width(const Transformer& model) {
  if (model.latent) {
    return model.latent->qk_rope;
  }
  const double width = static_cast<double>(model.head_dim) * model.function.rotary_share;
  return static_cast<std::int64_t>(width + 1e-9) / 2 * 2;
}

std::vector<double> plain_frequencies(std::int64_t width, double base) {
  std::vector<double> frequencies(static_cast<std::size_t>(width / 2));
  for (std::size_t j = 0; j < frequencies.size(); ++j) {
    frequencies[j] = std::pow(base, -2.0 * static_cast<double>(j) / static_cast<double>(width));
  }
  return frequencies;
}

// Positions that the model was trained on before its scaling.
double trained_positions(const Transformer& model) {
  const std::int64_t trained = model.function.rotary_trained;
  return static_cast<double>(trained > 0 ? trained : model.max_sequence);
}

// The scalings are those of Hugging Face transformers, modeling_rope_utils.py (v5): the functions
// of the same names.
void scale_llama3(const Function& f, double trained, std::vector<double>& frequencies) {
  for (double& frequency : frequencies) {
    const double turns = trained * frequency / (2 * std::numbers::pi);  // over what was trained
    const double kept =
        std::clamp((turns - f.rotary_low) / (f.rotary_high - f.rotary_low), 0.0, 1.0);
    frequency *= kept + (1 - kept) / f.rotary_factor;
  }
}

// Peng et al. 2023 (YaRN), section 3.2: a ramp between the pair that turns `rotary_fast` times over
// what was trained and the one that turns `rotary_slow` times.
void scale_yarn(const Function& f, double trained, std::int64_t width,
                std::vector<double>& frequencies) {
  const auto dim = static_cast<double>(width);
  const auto pair_of = [&](double rotations) {
    return dim * std::log(trained / (rotations * 2 * std::numbers::pi)) /
           (2 * std::log(f.rotary_base));
  };
  double low = pair_of(f.rotary_fast);
  double high = pair_of(f.rotary_slow);
  if (f.rotary_rounds) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, dim - 1);
  high += low == high ? 0.001 : 0;
  for (std::size_t j = 0; j < frequencies.size(); ++j) {
    const double ramp = std::clamp((static_cast<double>(j) - low) / (high - low), 0.0, 1.0);
    frequencies[j] *= ramp / f.rotary_factor + 1 - ramp;
  }
}

double yarn_scale(double factor, double share) {
  return factor <= 1 ? 1 : 0.1 * share * std::log(factor) + 1;
}

// What turned elements are multiplied by.
double turned_scale(const Transformer& model) {
  const Function& f = model.function;
  const bool yarn = f.rotary_scaling == "yarn";
  if (!yarn && f.rotary_scaling != "longrope") {
    return 1;
  }
  if (f.rotary_attention_factor > 0) {
    return f.rotary_attention_factor;
  }
  if (yarn) {
    return f.rotary_mscale > 0 && f.rotary_mscale_all > 0
               ? yarn_scale(f.rotary_factor, f.rotary_mscale) /
                     yarn_scale(f.rotary_factor, f.rotary_mscale_all)
               : yarn_scale(f.rotary_factor, 1);
  }
  const double trained = trained_positions(model);
  const double factor =
      f.rotary_factor > 1 ? f.rotary_factor : static_cast<double>(model.max_sequence) / trained;
  return factor <= 1 ? 1 : std::sqrt(1 + std::log(factor) / std::log(trained));
}

void scale_longrope(const Transformer& model, std::int64_t sequence,
                    std::vector<double>& frequencies) {
  const Function& f = model.function;
  const bool is_long = static_cast<double>(sequence) > trained_positions(model);
  const std::vector<double>& factors = is_long ? f.rotary_long : f.rotary_short;
  if (factors.size() != frequencies.size()) {
    throw Error(
        model.name,
        fmt::format("{} has {} factors; a head turns {} pairs, each of which needs one",
                    is_long ? "rotary_long" : "rotary_short", factors.size(), frequencies.size()));
  }
  for (std::size_t j = 0; j < frequencies.size(); ++j) {
    frequencies[j] /= factors[j];
  }
}

RotaryTable scaled_table(const Transformer& model, std::int64_t sequence) {
  const Function& f = model.function;
  const std::int64_t width = turned_width(model);
  const double trained = trained_positions(model);
  const auto positions = static_cast<double>(sequence);
  double base = f.rotary_base;
  if (f.rotary_scaling == "dynamic" && positions > trained) {
    const double stretch = f.rotary_factor * positions / trained - (f.rotary_factor - 1);
    base *= std::pow(stretch, static_cast<double>(width) / static_cast<double>(width - 2));
  }
  RotaryTable table{plain_frequencies(width, base), turned_scale(model), f.rotary_interleaved};
  if (f.rotary_scaling == "linear") {
    for (double& frequency : table.frequencies) {
      frequency /= f.rotary_factor;
    }
  } else if (f.rotary_scaling == "llama3") {
    scale_llama3(f, trained, table.frequencies);
  } else if (f.rotary_scaling == "yarn") {
    scale_yarn(f, trained, width, table.frequencies);
  } else if (f.rotary_scaling == "longrope") {
    scale_longrope(model, sequence, table.frequencies);
  }
  return table;
}

// DeepSeek multiplies the scores by the square of what yarn makes of mscale_all_dim
// (modeling_deepseek_v3.py, DeepseekV3Attention).
double attention_scale(const Transformer& model) {
  const Function& f = model.function;
  if (f.attention_scale > 0) {
    return f.attention_scale;
  }
  if (!model.latent || f.rotary_scaling != "yarn" || f.rotary_mscale_all <= 0) {
    return 0;
  }
  const double stretch = yarn_scale(f.rotary_factor, f.rotary_mscale_all);
  return stretch * stretch /
         std::sqrt(static_cast<double>(model.latent->qk_nope + model.latent->qk_rope));
}

}  // namespace

Arithmetic arithmetic_of(const Transformer& model, std::int64_t sequence) {
  const Function& f = model.function;
  Arithmetic a;
  a.activation = find_activation(f.activation).value_or(Activation::kPlain);
  a.norm_epsilon = f.norm_epsilon;
  a.norm_plus_one = f.norm_plus_one;
  a.attention_scale = attention_scale(model);
  a.attention_cap = f.attention_cap;
  a.embedding_multiplier = f.embedding_multiplier;
  a.residual_multiplier = f.residual_multiplier;
  a.logit_multiplier = f.logit_multiplier;
  a.logit_cap = f.logit_cap;
  a.router_normalises = f.router_normalises;
  a.router_scale = f.router_scale;
  a.router_groups = f.router_groups;
  a.router_groups_chosen = f.router_groups_chosen;
  a.router_groups_by_two = f.router_group_score == "top2";
  a.initial_deviation = f.init_std;
  if (model.position == models::Position::kRotary) {
    a.rotary.push_back(scaled_table(model, sequence));
    if (f.rotary_local_base > 0) {
      a.rotary.push_back(
          {plain_frequencies(turned_width(model), f.rotary_local_base), 1, f.rotary_interleaved});
    }
  }
  return a;
}

std::int64_t rotary_table_of(const Transformer& model, std::int64_t layer) {
  const Function& f = model.function;
  const bool without = std::find(f.no_rotary_layers.begin(), f.no_rotary_layers.end(), layer) !=
                       f.no_rotary_layers.end();
  if (model.position != models::Position::kRotary || without) {
    return -1;
  }
  return f.rotary_local_base > 0 && models::attention_window(model, layer) > 0 ? 1 : 0;
}

std::string uncomputed_part(const Transformer& model) {
  const Function& f = model.function;
  const bool experts = model.moe.has_value();
  const std::pair<bool, const char*> parts[] = {
      {f.activation_limit > 0, "a limit on what its MLP activates (activation_limit)"},
      {f.up_offset != 0, "an offset inside its MLP (up_offset)"},
      {f.residual_after_norm, "residuals taken behind the norms (residual_after_norm)"},
      {f.qkv_clip > 0, "clamped queries, keys and values (qkv_clip)"},
      {f.query_growth > 0, "scores that grow with the position (query_growth)"},
      {f.chunked_windows, "windows that start anew in each block (chunked_windows)"},
      {f.scales_by_layer, "scores divided by the layer's number (scales_by_layer)"},
      {f.qk_norm_unweighted, "norms of queries and keys without weights (qk_norm_unweighted)"},
      {model.qk_norm && model.qk_norm_all_heads,
       "norms over all heads of queries and keys (qk_norm_all_heads)"},
      {model.norm == models::Norm::kLayerNorm && !model.norm_bias,
       "layer norms without a bias (norm_bias)"},
      {model.head_bias, "a bias of the output matrix (head_bias)"},
      {model.parallel_block && f.norm_after, "norms behind the halves of a parallel block"},
      {experts && model.moe->router_bias && !f.router_bias_selects,
       "a router's bias that weighs experts too (router_bias_selects)"},
      {f.router_scales_input, "router weights on what experts read (router_scales_input)"},
      {f.router_sparsemixer, "SparseMixer's routing (router_sparsemixer)"}};
  for (const auto& [is_there, part] : parts) {
    if (is_there) {
      return part;
    }
  }
  return "";
}

std::vector<std::string> parts_left_out(const Transformer& model) {
  const Function& f = model.function;
  std::vector<std::string> parts;
  if (f.router_aux_loss > 0) {
    parts.emplace_back("the router's balancing loss");
  }
  if (f.router_z_loss > 0) {
    parts.emplace_back("the router's z-loss");
  }
  if (f.router_jitter > 0) {
    parts.emplace_back("noise on what the router reads");
  }
  return parts;
}

}  // namespace trireme::planner::lowering
