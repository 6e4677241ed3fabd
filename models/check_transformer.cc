// The dimensions that a model may have. A wrong one is the user's, so it is an Error with its name.
#include <fmt/format.h>

#include "core/error.h"
#include "models/function_table.h"
#include "models/transformer.h"

namespace trireme::models {
namespace {

// Above any model that will be planned for, and low enough that no product of two overflows.
constexpr std::int64_t kDimensionMax = 100'000'000;
constexpr double kParametersMax = 1e15;

class Checker {
 public:
  explicit Checker(const std::string& where) : where_(where) {}

  [[noreturn]] void fail(const std::string& what) const { throw Error(where_, what); }

  void within(const char* name, std::int64_t value, std::int64_t low, std::int64_t high) const {
    if (value < low || value > high) {
      fail(fmt::format("{} is {}; it must be between {} and {}", name, value, low, high));
    }
  }

  void flags(const char* name, std::size_t size, std::int64_t layers) const {
    if (size != 0 && static_cast<std::int64_t>(size) != layers) {
      fail(fmt::format("{} lists {} layers; the model has {}", name, size, layers));
    }
  }

 private:
  const std::string& where_;
};

void check_latent(const Checker& checker, const LatentAttention& latent) {
  checker.within("q_lora", latent.q_lora, 0, kDimensionMax);
  checker.within("kv_lora", latent.kv_lora, 1, kDimensionMax);
  checker.within("qk_nope", latent.qk_nope, 0, kDimensionMax);
  checker.within("qk_rope", latent.qk_rope, 0, kDimensionMax);
  checker.within("qk_nope + qk_rope", latent.qk_nope + latent.qk_rope, 1, kDimensionMax);
  checker.within("v_head", latent.v_head, 1, kDimensionMax);
}

void check_experts(const Checker& checker, const MixtureOfExperts& moe) {
  checker.within("experts", moe.experts, 1, 1'000'000);
  checker.within("experts_per_token", moe.experts_per_token, 1, moe.experts);
  checker.within("expert_ffn", moe.expert_ffn, 1, kDimensionMax);
  checker.within("shared_ffn", moe.shared_ffn, 0, kDimensionMax);
  if (!(moe.capacity_factor >= 0.0 && moe.capacity_factor <= 1e6)) {
    checker.fail(fmt::format("capacity_factor is {}; it must be between 0 (dropless) and 1e6",
                             moe.capacity_factor));
  }
}

// Groups of experts, of which a token chooses some first.
void check_router_groups(const Checker& checker, const MixtureOfExperts& moe,
                         const Function& function) {
  const std::int64_t groups = function.router_groups;
  if (groups <= 1) {
    return;
  }
  if (moe.experts % groups != 0) {
    checker.fail(
        fmt::format("router_groups is {}; it must divide the {} experts", groups, moe.experts));
  }
  checker.within("router_groups_chosen", function.router_groups_chosen, 1, groups);
  if (function.router_groups_chosen * (moe.experts / groups) < moe.experts_per_token) {
    checker.fail(
        fmt::format("router_groups_chosen is {}; so many groups hold fewer experts than the "
                    "{} of a token",
                    function.router_groups_chosen, moe.experts_per_token));
  }
}

// In floating point, so that dimensions whose product leaves 64 bits are refused before it is
// taken.
double rough_parameter_count(const Transformer& model) {
  const auto as_double = [](std::int64_t value) { return static_cast<double>(value); };
  const double hidden = as_double(model.hidden);
  double mlp = as_double(model.ffn);
  if (model.moe) {
    mlp += as_double(model.moe->experts) * as_double(model.moe->expert_ffn) +
           as_double(model.moe->shared_ffn) + as_double(model.moe->experts);
  }
  double attention = as_double(model.heads + model.kv_heads) * as_double(model.head_dim) * 2.0;
  if (model.latent) {
    const LatentAttention& latent = *model.latent;
    const double per_head = as_double(latent.qk_nope + latent.qk_rope + latent.v_head);
    attention += as_double(model.heads) * per_head *
                     (1.0 + as_double(latent.q_lora + latent.kv_lora) / hidden) +
                 as_double(latent.q_lora + latent.kv_lora + latent.qk_rope);
  }
  const double extra = 2.0 * hidden * hidden * as_double(model.multi_token_layers);
  return as_double(model.layers + model.multi_token_layers) * hidden * (3.0 * mlp + attention) +
         hidden * as_double(model.vocab + model.position_rows) * 2.0 + extra;
}

}  // namespace

void check_transformer(const Transformer& model, const std::string& where) {
  const Checker checker(where);
  checker.within("layers", model.layers, 1, 100'000);
  checker.within("hidden", model.hidden, 1, kDimensionMax);
  checker.within("heads", model.heads, 1, 1'000'000);
  checker.within("kv_heads", model.kv_heads, 1, model.heads);
  checker.within("head_dim", model.head_dim, 1, 1'000'000);
  if (model.heads % model.kv_heads != 0) {
    checker.fail(
        fmt::format("heads {} is not divisible by kv_heads {}; every key-value head serves "
                    "the same number of query heads",
                    model.heads, model.kv_heads));
  }
  checker.flags("moe_layers", model.moe_layers.size(), model.layers);
  checker.flags("sliding_layers", model.sliding_layers.size(), model.layers);
  if (model.moe) {
    check_experts(checker, *model.moe);
    check_router_groups(checker, *model.moe, model.function);
  } else if (!model.moe_layers.empty()) {
    checker.fail("moe_layers is given, but no experts");
  }
  checker.within("ffn", model.ffn, moe_layer_count(model) == model.layers ? 0 : 1, kDimensionMax);
  checker.within("vocab", model.vocab, 1, kDimensionMax);
  checker.within("embedding_dim", model.embedding_dim, 0, kDimensionMax);
  checker.within("max_sequence", model.max_sequence, 1, 1'000'000'000);
  checker.within("position_rows", model.position_rows, model.position == Position::kLearned ? 1 : 0,
                 1'000'000'000);
  checker.within("norms_per_layer", model.norms_per_layer, 0, 8);
  checker.within("sliding_window", model.sliding_window, 0, 1'000'000'000);
  checker.within("multi_token_layers", model.multi_token_layers, 0, 1000);
  check_function(model.function, where);
  if (model.latent) {
    check_latent(checker, *model.latent);
  }
  if (const double rough = rough_parameter_count(model); rough > kParametersMax) {
    checker.fail(
        fmt::format("the dimensions make about {:.1e} parameters; the most that can be "
                    "planned is {:.0e}",
                    rough, kParametersMax));
  }
}

}  // namespace trireme::models
