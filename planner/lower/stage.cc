#include "planner/lower/stage.h"

#include <optional>
#include <utility>
#include <vector>

#include "core/check.h"
#include "planner/cost/own_workspaces.h"
#include "planner/cost/pipeline_time.h"
#include "planner/lower/ends.h"
#include "planner/lower/kept_on_host.h"
#include "planner/lower/layer.h"
#include "planner/lower/messages.h"
#include "planner/lower/modelled_ends.h"
#include "planner/lower/modelled_layer.h"
#include "planner/lower/optimizer.h"
#include "planner/lower/unit_keeper.h"
#include "planner/lower/visits.h"
#include "planner/plan/kept_on_host.h"
#include "planner/plan/schedule.h"

namespace trireme::planner::lowering {
namespace {

class StageWriter {
 public:
  StageWriter(const Job& job, const Plan& plan, const Shape& shape, const Groups& groups,
              const HeldMemory& held, const StepProgram& step, std::int64_t stage, Program& program)
      : plan_(plan),
        shape_(shape),
        step_(step),
        stage_index_(stage),
        program_(program),
        builder_(step.widths, program, more_streams(job, plan)),
        stage_(lay_out_parameters(job, plan, groups, shape, held, step, stage, builder_, program)),
        actions_(schedule_micro_batches(plan, stage)),
        visits_(list_visits(actions_, stage_)),
        units_(job, plan, shape, groups, step, stage_, held, actions_, visits_, builder_, program),
        delayed_(job, groups, stage_, builder_),
        writer_{job, plan, shape, groups, stage_, builder_, units_, held, delayed_},
        modelled_ends_(writer_),
        own_(job.framework.implementation == models::Implementation::kTrireme &&
             job.model.multi_token_layers == 0),
        blocking_(exchanges_block(job.framework, plan)),
        messages_(plan, shape, step.stages, stage, stage_, actions_, blocking_, builder_),
        kept_on_host_(builder_) {
    const auto micro_batches = static_cast<std::size_t>(plan.micro_batches);
    layers_.resize(count_layers() * micro_batches);
    modelled_.resize(layers_.size());
    heads_.resize(stage_.chunks.back().head ? micro_batches : 0);
    embedding_gradients_.resize(stage_.chunks.front().embedding ? micro_batches : 0);
  }

  void write() {
    make_inputs();
    const Operand casts = begin_weight_casts();
    units_.begin_step();
    delayed_.begin_step();
    if (program_.loss.count > 0) {
      builder_.compute("zero_loss", Kernel::kZero, {1}, {program_.loss});
    }
    std::uint32_t visit = 0;
    for (std::uint32_t i = 0; i < actions_.size(); ++i) {
      if (i == 0 && receives_ahead()) {
        messages_.receive(0);
      }
      const std::uint32_t next = receives_ahead() ? i + 1 : i;
      if (next < actions_.size()) {
        messages_.receive(next);
      }
      messages_.wait_for_sends(i);
      const bool backward = actions_[i].kind != ActionKind::kForward;
      if (backward ||
          (chunk_of(actions_[i]).head && writer_.held.backward_communication_at_loss())) {
        begin_backward_buckets();
      }
      visit = write_action(i, visit);
      if (backward && !writer_.held.backward_communication_waits()) {
        end_backward_buckets();
      }
    }
    end_backward_buckets();
    builder_.origin = {Phase::kGradientReduce, -1, -1, -1};
    units_.end_step();
    delayed_.end_step();
    modelled_ends_.end_step();
    if (present(casts)) {
      builder_.modelled_pass("weight_casts", 0, Bytes(0), {casts});
    }
    write_optimizer(writer_, step_, program_.loss, program_);
  }

 private:
  [[nodiscard]] std::size_t count_layers() const {
    std::size_t count = 0;
    for (const Chunk& chunk : stage_.chunks) {
      count += static_cast<std::size_t>(chunk.last - chunk.first);
    }
    return count;
  }

  // Blocking 1F1B receives when it needs; virtual chunks exchange in both directions at once and
  // must not.
  [[nodiscard]] bool receives_ahead() const { return !blocking_ || plan_.virtual_pipeline > 1; }

  void make_inputs() {
    const std::int64_t tokens = plan_.micro_batches * shape_.tokens;
    if (stage_.chunks.front().embedding) {
      program_.tokens = builder_.persistent_buffer("tokens", tokens, ElementType::kToken);
    }
    if (stage_.chunks.back().head) {
      program_.targets = builder_.persistent_buffer("targets", tokens, ElementType::kToken);
      program_.loss = builder_.persistent_buffer("loss", 1, ElementType::kMaster);
    }
    if (shape_.workspaces) {
      const double bytes =
          own_ ? own_workspaces(writer_.job, plan_, shape_) : writer_.held.workspaces(stage_index_);
      if (bytes > 0) {
        builder_.persistent_buffer("workspaces", compute_elements(bytes), ElementType::kCompute);
      }
    }
    if (!own_) {
      if (const double bytes = writer_.held.communication(stage_index_); bytes > 0) {
        builder_.persistent_buffer("communication", compute_elements(bytes), ElementType::kCompute);
      }
    }
  }

  // Buffers for reductions, which no op names.
  void begin_backward_buckets() {
    const double bytes =
        own_ || present(buckets_) ? 0 : writer_.held.backward_communication(stage_index_);
    if (bytes > 0) {
      buckets_ = builder_.buffer("buckets", compute_elements(bytes), ElementType::kCompute);
      builder_.modelled_pass("buckets", 0, Bytes(0), {buckets_});
    }
  }

  void end_backward_buckets() {
    if (present(buckets_)) {
      builder_.modelled_pass("buckets", 0, Bytes(0), {buckets_});
      buckets_ = {};
    }
  }

  // Copies of weights from the step's first op to its last backward.
  Operand begin_weight_casts() {
    const double bytes = own_ ? 0 : writer_.held.weight_casts(stage_index_);
    if (bytes == 0) {
      return {};
    }
    const Operand casts =
        builder_.buffer("weight_casts", compute_elements(bytes), ElementType::kCompute);
    builder_.modelled_pass("weight_casts", 0, Bytes(0), {casts});
    return casts;
  }

  [[nodiscard]] Operand micro_batch_part(const Operand& all, std::int32_t micro_batch) const {
    return {all.buffer, kNoGroup, micro_batch * shape_.tokens, shape_.tokens};
  }

  [[nodiscard]] const Chunk& chunk_of(const Action& action) const {
    return stage_.chunks[static_cast<std::size_t>(action.chunk)];
  }

  // Place of a layer's state: layers of the stage in model order, chunk by chunk, then
  // micro-batches.
  [[nodiscard]] std::size_t layer_place(const Action& action, std::int64_t layer) const {
    std::size_t place = 0;
    for (std::int16_t c = 0; c < action.chunk; ++c) {
      const Chunk& chunk = stage_.chunks[static_cast<std::size_t>(c)];
      place += static_cast<std::size_t>(chunk.last - chunk.first);
    }
    place += static_cast<std::size_t>(layer - chunk_of(action).first);
    return place * static_cast<std::size_t>(plan_.micro_batches) +
           static_cast<std::size_t>(action.micro_batch);
  }

  // Whether something is trained below this layer.
  [[nodiscard]] bool reads_gradient(std::int64_t layer) const {
    return stage_.trained.lowest() < layer;
  }

  // Writes the action's visits; returns the next action's first visit.
  std::uint32_t write_action(std::uint32_t i, std::uint32_t visit) {
    const Action& action = actions_[i];
    Operand stream = messages_.input(i);
    for (; visit < visits_.size() && visits_[visit].action == i; ++visit) {
      builder_.origin = {action.kind == ActionKind::kForward ? Phase::kForward : Phase::kBackward,
                         action.chunk, visits_[visit].layer, action.micro_batch};
      if (action.kind == ActionKind::kWeightGradient) {
        builder_.origin.phase = Phase::kWeightGradient;
      }
      units_.begin_visit(visit);
      bring_back(visit);
      stream = write_visit(action, visits_[visit], stream);
      units_.end_visit(visit);
    }
    const Chunk& chunk = chunk_of(action);
    const bool forward = action.kind == ActionKind::kForward;
    const bool ends = forward ? chunk.head : chunk.embedding || !reads_gradient(chunk.first);
    if (action.kind != ActionKind::kWeightGradient && !ends) {
      messages_.hand_on(i, stream);
    }
    return visit;
  }

  // What this visit's backward reads of the host, and beside it what the next one will.
  void bring_back(std::uint32_t visit) {
    for (std::size_t at = visit; at < std::min<std::size_t>(visit + 2, visits_.size()); ++at) {
      const Action& action = actions_[visits_[at].action];
      const bool reads =
          action.kind == ActionKind::kBackward || action.kind == ActionKind::kInputGradient;
      if (reads && visits_[at].block == Block::kLayer) {
        kept_on_host_.bring_back(layers_[layer_place(action, visits_[at].layer)]);
      }
    }
  }

  [[nodiscard]] bool lies_on_host(const Action& action, std::int64_t layer) const {
    const Chunk& chunk = chunk_of(action);
    return layer - chunk.first < layers_on_host(writer_.job.offload, chunk.last - chunk.first) &&
           layer >= stage_.trained.lowest();
  }

  Operand write_visit(const Action& action, const Visit& visit, const Operand& stream) {
    switch (visit.block) {
      case Block::kEmbedding:
        return write_embedding(action, stream);
      case Block::kLayer:
        return write_layer(action, visit.layer, stream);
      case Block::kHead:
        return write_head(action, stream);
    }
    return {};
  }

  Operand write_embedding(const Action& action, const Operand& stream) {
    const Operand tokens = micro_batch_part(program_.tokens, action.micro_batch);
    Operand& kept = embedding_gradients_[static_cast<std::size_t>(action.micro_batch)];
    switch (action.kind) {
      case ActionKind::kForward:
        return own_ ? embedding_forward(writer_, tokens) : modelled_ends_.embedding_forward(tokens);
      case ActionKind::kBackward:
        write_embedding_gradient(tokens, stream);
        break;
      case ActionKind::kInputGradient:
        kept = stream;
        break;
      case ActionKind::kWeightGradient:
        write_embedding_gradient(tokens, kept);
        break;
    }
    return {};
  }

  void write_embedding_gradient(const Operand& tokens, const Operand& dy) {
    if (own_) {
      embedding_backward(writer_, tokens, dy);
    } else {
      modelled_ends_.embedding_backward(tokens, dy);
    }
  }

  Operand write_layer(const Action& action, std::int64_t layer, const Operand& stream) {
    if (is_modelled_layer(writer_.job, plan_, layer)) {
      return write_modelled_layer(action, layer, stream);
    }
    LayerState& state = layers_[layer_place(action, layer)];
    const bool repeats = repeats_layer(plan_, layer - chunk_of(action).first);
    LayerWriter block(writer_, layer, repeats);
    switch (action.kind) {
      case ActionKind::kForward: {
        const Operand out = block.forward(stream, state);
        if (lies_on_host(action, layer)) {
          kept_on_host_.take_down(state);
        }
        return out;
      }
      case ActionKind::kBackward:
      case ActionKind::kInputGradient:
        if (plan_.recompute != Recompute::kNone) {
          block.recompute(state);
        }
        return block.backward(stream, state, action.kind == ActionKind::kInputGradient);
      case ActionKind::kWeightGradient:
        block.weight_gradients(state);
        break;
    }
    return {};
  }

  Operand write_modelled_layer(const Action& action, std::int64_t layer, const Operand& stream) {
    ModelledState& state = modelled_[layer_place(action, layer)];
    const bool repeats = repeats_layer(plan_, layer - chunk_of(action).first);
    ModelledLayer block(writer_, layer, repeats);
    switch (action.kind) {
      case ActionKind::kForward:
        return block.forward(stream, state);
      case ActionKind::kBackward:
      case ActionKind::kInputGradient:
        if (plan_.recompute != Recompute::kNone) {
          block.recompute(state, stream);
        }
        return block.backward(stream, state, action.kind == ActionKind::kInputGradient);
      case ActionKind::kWeightGradient:
        block.weight_gradients(state);
        break;
    }
    return {};
  }

  Operand write_head(const Action& action, const Operand& stream) {
    HeadState& state = heads_[static_cast<std::size_t>(action.micro_batch)];
    const Operand targets = micro_batch_part(program_.targets, action.micro_batch);
    if (!own_) {
      return write_modelled_head(action.kind, stream, targets, state);
    }
    switch (action.kind) {
      case ActionKind::kForward:
        head_forward(writer_, stream, targets, program_.loss, state);
        break;
      case ActionKind::kBackward:
      case ActionKind::kInputGradient:
        return head_backward(writer_, targets, state, action.kind == ActionKind::kInputGradient);
      case ActionKind::kWeightGradient:
        head_weight_gradient(writer_, state);
        break;
    }
    return {};
  }

  Operand write_modelled_head(ActionKind kind, const Operand& stream, const Operand& targets,
                              HeadState& state) {
    switch (kind) {
      case ActionKind::kForward:
        modelled_ends_.head_forward(stream, targets, program_.loss, state);
        break;
      case ActionKind::kBackward:
      case ActionKind::kInputGradient:
        return modelled_ends_.head_backward(targets, state, kind == ActionKind::kInputGradient);
      case ActionKind::kWeightGradient:
        modelled_ends_.head_weight_gradient(state);
        break;
    }
    return {};
  }

  const Plan& plan_;
  const Shape& shape_;
  const StepProgram& step_;
  std::int64_t stage_index_;
  Program& program_;
  ProgramBuilder builder_;
  StageParameters stage_;
  std::vector<Action> actions_;
  std::vector<Visit> visits_;
  UnitKeeper units_;
  DelayedScales delayed_;
  Writer writer_;
  ModelledEnds modelled_ends_;
  bool own_;
  bool blocking_;
  StageMessages messages_;
  KeptOnHost kept_on_host_;
  Operand buckets_;

  std::vector<LayerState> layers_;            // by layer of the stage, then micro-batch
  std::vector<ModelledState> modelled_;       // likewise
  std::vector<HeadState> heads_;              // by micro-batch
  std::vector<Operand> embedding_gradients_;  // by micro-batch: between input and weight gradient
};

}  // namespace

Program write_stage(const Job& job, const Plan& plan, const Shape& shape, const Groups& groups,
                    const HeldMemory& held, const StepProgram& step, std::int64_t stage) {
  Program program;
  StageWriter(job, plan, shape, groups, held, step, stage, program).write();
  return program;
}

}  // namespace trireme::planner::lowering
