// Which fields of a function say something of a model, and which are as good as absent.
#include <cmath>
#include <initializer_list>
#include <string_view>
#include <variant>

#include "models/function_table.h"
#include "models/transformer.h"

namespace trireme::models {

void settle_function(Transformer& model) {
  Function& f = model.function;
  const Function plain;
  const auto reset = [&](std::initializer_list<const char*> keys) {
    for (const char* key : keys) {
      std::visit([&](auto member) { f.*member = plain.*member; }, function_field(key).member);
    }
  };
  const bool slides = model.sliding_window > 0;
  if (model.position != Position::kRotary) {
    for (const FunctionField& field : function_fields()) {
      if (std::string_view(field.key).find("rotary") != std::string_view::npos) {
        reset({field.key});
      }
    }
  }
  if (f.rotary_scaling == "none") {
    reset({"rotary_factor", "rotary_trained", "rotary_mscale", "rotary_mscale_all",
           "rotary_attention_factor", "rotary_short", "rotary_long"});
  }
  if (f.rotary_scaling != "llama3") {
    reset({"rotary_low", "rotary_high"});
  }
  if (f.rotary_scaling != "yarn") {
    reset({"rotary_fast", "rotary_slow", "rotary_rounds"});
  }
  // Sliding layers with a base of their own are not scaled, so the same base says something beside
  // a scaling.
  if (!slides || (f.rotary_local_base == f.rotary_base && f.rotary_scaling == "none")) {
    reset({"rotary_local_base"});
  }
  if (!slides) {
    reset({"chunked_windows"});
  }
  if (model.position != Position::kAlibi) {
    reset({"alibi_max"});
  }
  const double usual =
      1 / std::sqrt(static_cast<double>(model.latent ? model.latent->qk_nope + model.latent->qk_rope
                                                     : model.head_dim));
  if (std::abs(f.attention_scale - usual) <= 1e-12 * usual) {
    f.attention_scale = 0;
  }
  if (!model.moe) {
    for (const FunctionField& field : function_fields()) {
      if (std::string_view(field.key).starts_with("router")) {
        reset({field.key});
      }
    }
  }
  if (f.router_groups <= 1) {
    reset({"router_groups", "router_groups_chosen"});
  }
  if (f.router_groups == 0) {
    reset({"router_group_score"});
  }
  if (model.moe && !model.moe->router_bias) {
    reset({"router_bias_selects"});
  }
  if (model.norms_per_layer == 4 || model.norms_per_layer == 0) {
    reset({"norm_after"});
  }
}

}  // namespace trireme::models
