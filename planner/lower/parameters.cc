#include "planner/lower/parameters.h"

#include <fmt/format.h>

#include <algorithm>

#include "planner/cost/rank_parameters.h"
#include "planner/cost/unit_layers.h"
#include "planner/lower/expert_tensors.h"
#include "planner/lower/state_writer.h"
#include "planner/plan/stages.h"

namespace trireme::planner::lowering {
namespace {

class UnitWriter {
 public:
  UnitWriter(Program& program, std::uint32_t unit) : program_(program), unit_(unit) {}

  void add(const Tensor& tensor) {
    const std::int64_t count = tensor.local_rows * tensor.local_columns;
    program_.parameters.push_back({tensor.name, tensor.rows, tensor.columns, tensor.local_rows,
                                   tensor.local_columns, tensor.split, unit_, size_,
                                   tensor.expert_first, tensor.expert_step});
    if (tensor.slot->count == 0) {
      *tensor.slot = {unit_, size_, 0};
    }
    tensor.slot->count += count;
    size_ += count;
  }
  [[nodiscard]] std::int64_t size() const { return size_; }

 private:
  Program& program_;
  std::uint32_t unit_;
  std::int64_t size_ = 0;
};

// Tensors of one layer, those that the tensor group splits first, then norms of heads, then what
// every tensor rank holds whole.
struct LayerTensors {
  std::vector<Tensor> split, head_norms, whole;
};

Tensor rows_split(std::string name, std::int64_t rows, std::int64_t columns, std::int64_t ranks,
                  Slot* slot) {
  return {std::move(name), rows, columns, Split::kRows, rows / ranks, columns, slot};
}

Tensor whole_vector(std::string name, std::int64_t size, Slot* slot) {
  return {std::move(name), size, 1, Split::kNone, size, 1, slot};
}

void add_norm(std::vector<Tensor>& tensors, const models::Transformer& model,
              const std::string& name, NormSlots& slots) {
  tensors.push_back(whole_vector(name + ".weight", model.hidden, &slots.weight));
  if (model.norm == models::Norm::kLayerNorm) {
    tensors.push_back(whole_vector(name + ".bias", model.hidden, &slots.bias));
  }
}

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

std::vector<Chunk> chunks_on(const Job& job, const Plan& plan, std::int64_t stage) {
  std::vector<Chunk> mine;
  const std::vector<Chunk> all = chunks_of(job, plan);
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (static_cast<std::int64_t>(i) % plan.pipeline == stage) {
      mine.push_back(all[i]);
    }
  }
  return mine;
}

// Layers of a chunk in units of plan.fsdp_unit layers; without sharding a unit is a gradient bucket
// of one layer.
class LayerUnits {
 public:
  LayerUnits(const Job& job, const Plan& plan, const Shape& shape, StageParameters& stage,
             Program& program, StateWriter& states)
      : job_(job),
        plan_(plan),
        shape_(shape),
        stage_(stage),
        program_(program),
        states_(states),
        counts_(rank_parameters(
            job, {.tensor = plan.tensor,
                  .expert = plan.expert,
                  .expert_tensor = plan.expert_tensor > 0 ? plan.expert_tensor : plan.tensor})) {
    unit_ = layers_of_unit(job, plan, {.sharding = plan.sharding},
                           static_cast<double>(models::layer_parameter_count(job.model, 0)));
  }

  void add_chunk(const Chunk& chunk) {
    const std::int64_t size =
        unit_ > 0 ? unit_ : std::max<std::int64_t>(1, chunk.last - chunk.first);
    for (std::int64_t first = chunk.first; first < chunk.last; first += size) {
      add_unit(first, std::min(chunk.last, first + size));
    }
  }

 private:
  void add_unit(std::int64_t first, std::int64_t last) {
    const auto index = static_cast<std::uint32_t>(stage_.units.size());
    UnitWriter writer(program_, index);
    std::vector<LayerTensors> tensors;
    for (std::int64_t layer = first; layer < last; ++layer) {
      const auto l = static_cast<std::size_t>(layer);
      tensors.push_back(is_modelled_layer(job_, plan_, layer)
                            ? modelled_tensors(layer)
                            : layer_tensors(job_.model, layer, shape_.tensor, stage_.layers[l]));
      stage_.unit_of_layer[l] = index;
    }
    UnitLayout layout;
    layout.layer = static_cast<std::int32_t>(first);
    const auto add_all = [&](std::vector<Tensor> LayerTensors::*part) {
      for (const LayerTensors& layer : tensors) {
        for (const Tensor& tensor : layer.*part) {
          writer.add(tensor);
        }
      }
      return writer.size();
    };
    layout.replicated_from = add_all(&LayerTensors::split);
    layout.head_norms_end = add_all(&LayerTensors::head_norms);
    layout.elements = add_all(&LayerTensors::whole);
    program_.units.push_back(states_.unit(fmt::format("layers.{}-{}", first, last - 1), layout));
    stage_.units.push_back(layout);
    // Other frameworks shard the experts of a unit's layers together, as its other tensors.
    const bool together = plan_.sharding == Sharding::kFull &&
                          job_.framework.implementation != models::Implementation::kTrireme;
    const std::int64_t step = together ? last - first : 1;
    for (std::int64_t layer = first; layer < last; layer += step) {
      add_experts(layer, layer + step);
    }
  }

  // A layer that is timed and not executed: its parameters by their number.
  LayerTensors modelled_tensors(std::int64_t layer) {
    const auto l = static_cast<std::size_t>(layer);
    const bool sparse = models::is_moe_layer(job_.model, layer);
    const LayerParameters& parameters = sparse ? counts_.sparse_layer : counts_.dense_layer;
    const double beside = layer >= job_.model.layers ? counts_.prediction : 0;
    const auto count = static_cast<std::int64_t>(parameters.dense + beside);
    LayerTensors tensors;
    tensors.split.push_back({fmt::format("layers.{}.modelled", layer), count, 1, Split::kNone,
                             count, 1, &stage_.layers[l].modelled});
    return tensors;
  }

  void add_experts(std::int64_t first, std::int64_t last) {
    const auto index = static_cast<std::uint32_t>(stage_.units.size());
    UnitWriter writer(program_, index);
    for (std::int64_t layer = first; layer < last; ++layer) {
      if (models::is_moe_layer(job_.model, layer)) {
        add_experts_of(layer, writer);
        stage_.experts_of_layer[static_cast<std::size_t>(layer)] = index;
      }
    }
    if (writer.size() == 0) {
      return;
    }
    UnitLayout layout;
    layout.layer = static_cast<std::int32_t>(first);
    layout.elements = layout.replicated_from = layout.head_norms_end = writer.size();
    program_.units.push_back(states_.unit(fmt::format("layers.{}.experts", first), layout, true));
    stage_.units.push_back(layout);
  }

  void add_experts_of(std::int64_t layer, UnitWriter& writer) {
    const auto l = static_cast<std::size_t>(layer);
    if (is_modelled_layer(job_, plan_, layer)) {
      const auto count = static_cast<std::int64_t>(counts_.sparse_layer.expert);
      writer.add({fmt::format("layers.{}.experts", layer), count, 1, Split::kNone, count, 1,
                  &stage_.layers[l].experts});
    } else {
      for (const Tensor& tensor : expert_tensors(job_.model, fmt::format("layers.{}.", layer),
                                                 expert_ranks(job_, plan_), stage_.layers[l])) {
        writer.add(tensor);
      }
    }
  }
  const Job& job_;
  const Plan& plan_;
  const Shape& shape_;
  StageParameters& stage_;
  Program& program_;
  StateWriter& states_;
  RankParameters counts_;
  std::int64_t unit_ = 1;
};

// One unit at an end of the model: the vocabulary matrix when `table`, then whole tensors.
class EndUnit {
 public:
  EndUnit(const Job& job, const Shape& shape, StageParameters& stage, Program& program)
      : job_(job),
        shape_(shape),
        stage_(stage),
        program_(program),
        index_(static_cast<std::uint32_t>(stage.units.size())),
        writer_(program, index_) {}

  void add_table(std::string name, std::int64_t copies, Slot* slot) {
    writer_.add({std::move(name), job_.model.vocab, job_.model.hidden, Split::kRows,
                 shape_.vocabulary_rows, job_.model.hidden, slot});
    layout_.replicated_from = layout_.head_norms_end = writer_.size();
    layout_.copies = copies;
  }
  void add_whole(const Tensor& tensor) { writer_.add(tensor); }

  // kNoUnit when nothing was added.
  std::uint32_t finish(const std::string& name, StateWriter& states) {
    layout_.elements = writer_.size();
    if (layout_.elements == 0) {
      return kNoUnit;
    }
    program_.units.push_back(states.unit(name, layout_));
    stage_.units.push_back(layout_);
    return index_;
  }

 private:
  const Job& job_;
  const Shape& shape_;
  StageParameters& stage_;
  Program& program_;
  std::uint32_t index_;
  UnitWriter writer_;
  UnitLayout layout_;
};

constexpr const char* kTableName = "embedding.tokens.weight";

void add_positions(const Job& job, EndUnit& unit, StageParameters& stage) {
  if (job.model.position == models::Position::kLearned) {
    const std::int64_t rows = std::max(job.model.position_rows, job.sequence);
    unit.add_whole({"embedding.positions.weight", rows, job.model.hidden, Split::kNone, rows,
                    job.model.hidden, &stage.positions});
  }
}

void add_embedding_units(const Job& job, const Shape& shape, StageParameters& stage,
                         Program& program, StateWriter& states) {
  EndUnit table(job, shape, stage, program);
  table.add_table(kTableName, stage.tied_across_stages ? 2 : 1, &stage.embedding);
  if (!job.model.tied_embeddings) {
    add_positions(job, table, stage);
    stage.embedding_unit = table.finish("embedding", states);
    return;
  }
  stage.embedding_unit = table.finish("embedding", states);
  EndUnit positions(job, shape, stage, program);
  add_positions(job, positions, stage);
  stage.positions_unit = positions.finish("positions", states);
}

void add_final_norm(const Job& job, EndUnit& unit, StageParameters& stage) {
  if (job.model.final_norm) {
    std::vector<Tensor> tensors;
    add_norm(tensors, job.model, "final_norm", stage.final_norm);
    for (const Tensor& tensor : tensors) {
      unit.add_whole(tensor);
    }
  }
}

// FSDP's root unit: what no layer's unit holds, gathered and reduced together.
void add_root_unit(const Job& job, const Shape& shape, StageParameters& stage, Program& program,
                   StateWriter& states) {
  EndUnit unit(job, shape, stage, program);
  unit.add_table(kTableName, 1, &stage.embedding);
  if (job.model.tied_embeddings) {
    stage.head = stage.embedding;
  } else {
    unit.add_table("head.weight", 1, &stage.head);
  }
  add_positions(job, unit, stage);
  add_final_norm(job, unit, stage);
  stage.embedding_unit = stage.head_unit = unit.finish("root", states);
}

// The table that extra prediction modules read behind the first stage: it starts equal to the
// embedding's and gets the same gradient.
void add_table_copy(const Job& job, const Shape& shape, StageParameters& stage, Program& program,
                    StateWriter& states) {
  EndUnit table(job, shape, stage, program);
  table.add_table(kTableName, 2, &stage.embedding);
  table.finish("embedding", states);
}

void add_head_units(const Job& job, const Shape& shape, StageParameters& stage, Program& program,
                    StateWriter& states) {
  if (stage.tied_across_stages && job.model.tied_embeddings) {
    // The copy has the embedding's name: it starts equal and gets the same gradient.
    EndUnit table(job, shape, stage, program);
    table.add_table(kTableName, 2, &stage.head);
    stage.embedding_unit = table.finish("embedding", states);
  } else if (job.model.tied_embeddings) {
    stage.head = stage.embedding;
  }
  EndUnit unit(job, shape, stage, program);
  if (!job.model.tied_embeddings) {
    unit.add_table("head.weight", 1, &stage.head);
  }
  add_final_norm(job, unit, stage);
  stage.head_unit = unit.finish("head", states);
}

}  // namespace

StageParameters lay_out_parameters(const Job& job, const Plan& plan, const Groups& groups,
                                   const Shape& shape, const HeldMemory& held,
                                   const StepProgram& step, std::int64_t stage,
                                   ProgramBuilder& builder, Program& program) {
  StageParameters result;
  result.chunks = chunks_on(job, plan, stage);
  result.layers.resize(static_cast<std::size_t>(models::trained_layers(job.model)));
  result.unit_of_layer.resize(result.layers.size());
  result.experts_of_layer.assign(result.layers.size(), kNoUnit);
  const bool has_embedding = result.chunks.front().embedding;
  const bool has_head = result.chunks.back().head;
  const bool predicts = result.chunks.back().prediction > 0;
  result.tied_across_stages = shares_table(job, plan) && has_embedding != (has_head || predicts) &&
                              (has_embedding || predicts || job.model.tied_embeddings);
  StateWriter states(job, plan, groups, shape, held, step, builder);
  const bool root = has_embedding && has_head && run_sharding(job, plan).root_unit;
  if (root) {
    add_root_unit(job, shape, result, program, states);
  } else if (has_embedding) {
    add_embedding_units(job, shape, result, program, states);
  }
  LayerUnits layers(job, plan, shape, result, program, states);
  for (const Chunk& chunk : result.chunks) {
    layers.add_chunk(chunk);
  }
  if (predicts && !has_embedding && !job.model.tied_embeddings) {
    add_table_copy(job, shape, result, program, states);
  }
  if (has_head && !root) {
    add_head_units(job, shape, result, program, states);
  }
  return result;
}

}  // namespace trireme::planner::lowering
