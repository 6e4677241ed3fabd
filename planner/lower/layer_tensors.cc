#include "planner/lower/layer_tensors.h"

#include <fmt/format.h>

#include <initializer_list>
#include <utility>

#include "planner/lower/expert_tensors.h"

namespace trireme::planner::lowering {
namespace {

Tensor rows_split(std::string name, std::int64_t rows, std::int64_t columns, std::int64_t ranks,
                  Slot* slot) {
  return {std::move(name), rows, columns, Split::kRows, rows / ranks, columns, slot};
}

Tensor whole_vector(std::string name, std::int64_t size, Slot* slot) {
  return {std::move(name), size, 1, Split::kNone, size, 1, slot};
}

}  // namespace

void add_norm(std::vector<Tensor>& tensors, const models::Transformer& model,
              const std::string& name, NormSlots& slots) {
  tensors.push_back(whole_vector(name + ".weight", model.hidden, &slots.weight));
  if (model.norm == models::Norm::kLayerNorm) {
    tensors.push_back(whole_vector(name + ".bias", model.hidden, &slots.bias));
  }
}

namespace {

void add_mlp(const models::Transformer& model, const std::string& prefix, std::int64_t ranks,
             LayerSlots& slots, std::vector<Tensor>& split) {
  const auto rows = [&](const char* name, std::int64_t columns, Slot* slot) {
    split.push_back(rows_split(prefix + name, model.ffn, columns, ranks, slot));
  };
  if (model.gated_mlp) {
    rows("mlp.gate.weight", model.hidden, &slots.up);
  }
  rows("mlp.up.weight", model.hidden, &slots.up);
  if (model.mlp_bias) {
    if (model.gated_mlp) {
      rows("mlp.gate.bias", 1, &slots.up_bias);
    }
    rows("mlp.up.bias", 1, &slots.up_bias);
  }
  split.push_back({prefix + "mlp.down.weight", model.hidden, model.ffn, Split::kColumns,
                   model.hidden, model.ffn / ranks, &slots.down});
}

// Norms of what each half reads, of what it gives, or of both; a parallel block may have one.
void add_norms(std::vector<Tensor>& tensors, const models::Transformer& model,
               const std::string& prefix, LayerSlots& slots) {
  if (!model.function.norm_after) {
    add_norm(tensors, model, prefix + "attention_norm", slots.attention_norm);
    if (model.norms_per_layer > 1) {
      add_norm(tensors, model, prefix + "mlp_norm", slots.mlp_norm);
    }
  }
  if (model.function.norm_after || model.norms_per_layer == 4) {
    add_norm(tensors, model, prefix + "attention_post_norm", slots.attention_post_norm);
    add_norm(tensors, model, prefix + "mlp_post_norm", slots.mlp_post_norm);
  }
}

// Every tensor rank has the down-projections whole and works on its part of the stream.
void add_latent(const models::Transformer& model, const std::string& prefix, std::int64_t ranks,
                LayerSlots& slots, LayerTensors& out) {
  const models::LatentAttention& latent = *model.latent;
  const auto whole = [&](const char* name, std::int64_t rows, std::int64_t columns, Slot* slot) {
    out.whole.push_back({prefix + name, rows, columns, Split::kNone, rows, columns, slot});
  };
  const std::int64_t queries = model.heads * (latent.qk_nope + latent.qk_rope);
  const bool low_rank = latent.q_lora > 0;
  out.split.push_back(
      rows_split(prefix + (low_rank ? "attention.q_up.weight" : "attention.q.weight"), queries,
                 low_rank ? latent.q_lora : model.hidden, ranks, &slots.latent.q_up));
  out.split.push_back(rows_split(prefix + "attention.kv_up.weight",
                                 model.heads * (latent.qk_nope + latent.v_head), latent.kv_lora,
                                 ranks, &slots.latent.kv_up));
  if (low_rank) {
    whole("attention.q_down.weight", latent.q_lora, model.hidden, &slots.latent.q_down);
    whole("attention.q_norm.weight", latent.q_lora, 1, &slots.latent.q_norm.weight);
  }
  whole("attention.kv_down.weight", latent.kv_lora + latent.qk_rope, model.hidden,
        &slots.latent.kv_down);
  whole("attention.kv_norm.weight", latent.kv_lora, 1, &slots.latent.kv_norm.weight);
}

}  // namespace

LayerTensors layer_tensors(const models::Transformer& model, std::int64_t layer, std::int64_t ranks,
                           LayerSlots& slots) {
  const std::string prefix = fmt::format("layers.{}.", layer);
  const std::int64_t h = model.hidden;
  const std::int64_t q = model.heads * model.head_dim;
  const std::int64_t kv = model.kv_heads * model.head_dim;
  LayerTensors out;
  const auto rows = [&](const char* name, std::int64_t count, std::int64_t columns, Slot* slot) {
    out.split.push_back(rows_split(prefix + name, count, columns, ranks, slot));
  };
  if (model.latent) {
    add_latent(model, prefix, ranks, slots, out);
  } else {
    rows("attention.q.weight", q, h, &slots.qkv);
    rows("attention.k.weight", kv, h, &slots.qkv);
    rows("attention.v.weight", kv, h, &slots.qkv);
  }
  if (model.qkv_bias) {
    rows("attention.q.bias", q, 1, &slots.qkv_bias);
    rows("attention.k.bias", kv, 1, &slots.qkv_bias);
    rows("attention.v.bias", kv, 1, &slots.qkv_bias);
  }
  const std::int64_t wide = model.latent ? model.heads * model.latent->v_head : q;
  out.split.push_back({prefix + "attention.output.weight", h, wide, Split::kColumns, h,
                       wide / ranks, &slots.output});
  const bool sparse = models::is_moe_layer(model, layer);
  if (!sparse) {
    add_mlp(model, prefix, ranks, slots, out.split);
  }
  if (model.qk_norm) {
    out.head_norms.push_back(
        whole_vector(prefix + "attention.q_norm.weight", model.head_dim, &slots.q_norm));
    out.head_norms.push_back(
        whole_vector(prefix + "attention.k_norm.weight", model.head_dim, &slots.k_norm));
  }
  add_norms(out.whole, model, prefix, slots);
  if (model.attention_output_bias) {
    out.whole.push_back(whole_vector(prefix + "attention.output.bias", h, &slots.output_bias));
  }
  if (sparse) {
    add_router_tensors(model, prefix, ranks, slots, out.split, out.whole);
  } else if (model.mlp_bias) {
    out.whole.push_back(whole_vector(prefix + "mlp.down.bias", h, &slots.down_bias));
  }
  return out;
}

LayerTensors adapter_tensors(const models::Transformer& model, const Trained& trained,
                             std::int64_t layer, std::int64_t ranks, LayerSlots& slots) {
  const std::string prefix = fmt::format("layers.{}.", layer);
  const std::int64_t rank = trained.rank;
  const std::int64_t q = model.heads * model.head_dim;
  const std::int64_t kv = model.kv_heads * model.head_dim;
  LayerTensors out;
  const auto of = [&](Product product) -> AdapterSlots& {
    return slots.adapters[static_cast<std::size_t>(product)];
  };
  // Column-parallel: the first matrix whole on every rank, of the second the rows of the product's.
  const auto column = [&](const char* first, Product product,
                          std::initializer_list<std::pair<const char*, std::int64_t>> parts) {
    out.head_norms.push_back({prefix + first + ".lora_a.weight", rank, model.hidden, Split::kNone,
                              rank, model.hidden, &of(product).down});
    for (const auto& [name, rows] : parts) {
      out.split.push_back(
          rows_split(prefix + name + ".lora_b.weight", rows, rank, ranks, &of(product).up));
    }
  };
  const auto row = [&](const char* name, Product product, std::int64_t in) {
    out.split.push_back({prefix + name + ".lora_a.weight", rank, in, Split::kColumns, rank,
                         in / ranks, &of(product).down});
    out.head_norms.push_back({prefix + name + ".lora_b.weight", model.hidden, rank, Split::kNone,
                              model.hidden, rank, &of(product).up});
  };
  if (trained.adapters(layer, kTargetQuery | kTargetKey | kTargetValue)) {
    column("attention.qkv", Product::kQkv,
           {{"attention.q", q}, {"attention.k", kv}, {"attention.v", kv}});
  }
  if (trained.adapters(layer, kTargetOutput)) {
    row("attention.output", Product::kOutput, q);
  }
  if (trained.adapters(layer, kTargetGate | kTargetUp)) {
    if (model.gated_mlp) {
      column("mlp.gate_up", Product::kUp, {{"mlp.gate", model.ffn}, {"mlp.up", model.ffn}});
    } else {
      column("mlp.up", Product::kUp, {{"mlp.up", model.ffn}});
    }
  }
  if (trained.adapters(layer, kTargetDown)) {
    row("mlp.down", Product::kDown, model.ffn);
  }
  return out;
}

}  // namespace trireme::planner::lowering
