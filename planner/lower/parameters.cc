#include "planner/lower/parameters.h"

#include <fmt/format.h>

#include <algorithm>

#include "planner/cost/rank_parameters.h"
#include "planner/cost/unit_layers.h"
#include "planner/lower/expert_tensors.h"
#include "planner/lower/layer_tensors.h"
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

std::vector<Chunk> chunks_on(const Job& job, const Plan& plan, std::int64_t stage) {
  std::vector<Chunk> mine;
  const std::vector<Chunk> all = chunks_of(job, plan);
  for (std::int64_t place = 0; place < plan.virtual_pipeline; ++place) {
    mine.push_back(all[static_cast<std::size_t>(chunk_of_rank(plan, stage, place))]);
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
    for (std::int64_t first = chunk.first; first < chunk.last;) {
      std::int64_t last = std::min(chunk.last, first + size);
      // No unit is trained in part.
      const std::int64_t trained = stage_.trained.first_layer;
      last = first < trained ? std::min(last, trained) : last;
      add_unit(first, last);
      add_adapters(first, last);
      first = last;
    }
  }

 private:
  void add_adapters(std::int64_t first, std::int64_t last) {
    const auto index = static_cast<std::uint32_t>(stage_.units.size());
    UnitWriter writer(program_, index);
    std::vector<LayerTensors> tensors;
    for (std::int64_t layer = first; layer < last; ++layer) {
      const auto l = static_cast<std::size_t>(layer);
      tensors.push_back(
          adapter_tensors(job_.model, stage_.trained, layer, shape_.tensor, stage_.layers[l]));
    }
    UnitLayout layout;
    layout.layer = static_cast<std::int32_t>(first);
    layout.replicated_from = add_all(tensors, &LayerTensors::split, writer);
    layout.elements = layout.head_norms_end = add_all(tensors, &LayerTensors::head_norms, writer);
    if (layout.elements == 0) {
      return;
    }
    for (std::int64_t layer = first; layer < last; ++layer) {
      stage_.adapters_of_layer[static_cast<std::size_t>(layer)] = index;
    }
    program_.units.push_back(
        states_.unit(fmt::format("layers.{}-{}.adapters", first, last - 1), layout));
    stage_.units.push_back(layout);
  }

  // Elements of the unit so far, with these.
  static std::int64_t add_all(const std::vector<LayerTensors>& layers,
                              std::vector<Tensor> LayerTensors::*part, UnitWriter& writer) {
    for (const LayerTensors& layer : layers) {
      for (const Tensor& tensor : layer.*part) {
        writer.add(tensor);
      }
    }
    return writer.size();
  }

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
    layout.frozen = !stage_.trained.weights(first);
    layout.replicated_from = add_all(tensors, &LayerTensors::split, writer);
    layout.head_norms_end = add_all(tensors, &LayerTensors::head_norms, writer);
    layout.elements = add_all(tensors, &LayerTensors::whole, writer);
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
    layout.frozen = !stage_.trained.weights(first);
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
  EndUnit(const Job& job, const Shape& shape, StageParameters& stage, Program& program,
          bool trained)
      : job_(job),
        shape_(shape),
        stage_(stage),
        program_(program),
        index_(static_cast<std::uint32_t>(stage.units.size())),
        writer_(program, index_) {
    layout_.frozen = !trained;
  }

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
  EndUnit table(job, shape, stage, program, stage.trained.embedding);
  table.add_table(kTableName, stage.tied_across_stages ? 2 : 1, &stage.embedding);
  if (!job.model.tied_embeddings) {
    add_positions(job, table, stage);
    stage.embedding_unit = table.finish("embedding", states);
    return;
  }
  stage.embedding_unit = table.finish("embedding", states);
  EndUnit positions(job, shape, stage, program, stage.trained.embedding);
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
  EndUnit unit(job, shape, stage, program, stage.trained.embedding);
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
  EndUnit table(job, shape, stage, program, stage.trained.embedding);
  table.add_table(kTableName, 2, &stage.embedding);
  table.finish("embedding", states);
}

void add_head_units(const Job& job, const Shape& shape, StageParameters& stage, Program& program,
                    StateWriter& states) {
  if (stage.tied_across_stages && job.model.tied_embeddings) {
    // The copy has the embedding's name: it starts equal and gets the same gradient.
    EndUnit table(job, shape, stage, program, stage.trained.embedding);
    table.add_table(kTableName, 2, &stage.head);
    stage.embedding_unit = table.finish("embedding", states);
  } else if (job.model.tied_embeddings) {
    stage.head = stage.embedding;
  }
  EndUnit unit(job, shape, stage, program, stage.trained.head);
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
  result.trained = trained_of(job);
  result.chunks = chunks_on(job, plan, stage);
  result.layers.resize(static_cast<std::size_t>(models::trained_layers(job.model)));
  result.unit_of_layer.resize(result.layers.size());
  result.experts_of_layer.assign(result.layers.size(), kNoUnit);
  result.adapters_of_layer = result.experts_of_layer;
  const bool has_embedding = result.chunks.front().embedding;
  const bool has_head = result.chunks.back().head;
  const bool predicts = result.chunks.back().prediction > 0;
  result.tied_across_stages = shares_table(job, plan) && has_embedding != (has_head || predicts) &&
                              (has_embedding || predicts || job.model.tied_embeddings);
  StateWriter states(job, plan, groups, shape, held, step, builder);
  const bool root = has_embedding && has_head && run_sharding(job, plan).root_unit &&
                    result.trained.embedding == result.trained.head;
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
