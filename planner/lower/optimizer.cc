#include "planner/lower/optimizer.h"

#include <algorithm>
#include <cmath>

#include "planner/cost/data_parallel_time.h"
#include "planner/cost/state_memory.h"
#include "planner/cost/unit_launches.h"
#include "planner/lower/state_stream.h"

namespace trireme::planner::lowering {
namespace {

const StateStorage& state_of(const ParameterUnit& unit, State state) {
  return unit.states[static_cast<std::size_t>(state)];
}

std::int64_t size_of_group(const StepProgram& step, GroupId group) {
  return group == kNoGroup ? 1 : group_size(step.groups[index_of(group)]);
}

// Sum of squares over this rank's gradients, what several ranks hold divided by how many, then over
// the model.
Operand write_norm(Writer& w, const StepProgram& step, Program& program) {
  const Operand sum = w.builder.buffer("gradient_square", 1, ElementType::kMaster);
  w.builder.compute("zero_square", Kernel::kZero, {1}, {sum});
  const std::int64_t tensor = size_of_group(step, w.groups.tensor);
  for (std::size_t i = 0; i < program.units.size(); ++i) {
    const ParameterUnit& unit = program.units[i];
    const UnitLayout& layout = w.stage.units[i];
    if (layout.frozen) {
      continue;
    }
    const StateStorage& gradient = state_of(unit, State::kGradient);
    const std::int64_t group =
        gradient.sharded ? static_cast<std::int64_t>(index_of(unit.shard)) : -1;
    w.builder.origin.layer = layout.layer;
    const std::int64_t alike = w.job.model.moe ? size_of_group(step, layout.replica) : 1;
    w.builder.compute("gradient_square", Kernel::kSquaredNorm,
                      {gradient.operand.count, group, layout.replicated_from, layout.copies * alike,
                       tensor * alike},
                      {gradient.operand, sum});
  }
  w.builder.origin.layer = -1;
  if (w.groups.norm != kNoGroup) {
    w.builder.all_reduce("norm_reduce", w.groups.norm, Reduction::kSum, sum, sum, Stream::kReduce);
  }
  return sum;
}

// Another framework's norm, clipping and step: its passes over all states of the rank.
void write_modelled_step(Writer& w, const StepProgram& step, Program& program) {
  const Operand norm = w.builder.buffer("gradient_square", 1, ElementType::kMaster);
  program.gradient_norm = w.builder.persistent_buffer("gradient_norm", 1, ElementType::kMaster);
  OptimizerElements elements;
  double copied = 0;   // bytes of gradients or parameters that the step alone has
  double updated = 0;  // elements
  for (std::size_t i = 0; i < program.units.size(); ++i) {
    const UnitLayout& layout = w.stage.units[i];
    const bool experts = layout.experts;
    copied += w.held.states(experts).step * static_cast<double>(layout.elements);
    updated += layout.frozen ? 0
                             : static_cast<double>(layout.elements) /
                                   static_cast<double>(size_of_group(step, layout.shard));
  }
  copied += zero_step_copies(w.job, w.plan, updated, 1);
  const Operand copies =
      w.builder.buffer("step_copies", compute_elements(copied), ElementType::kCompute);
  w.builder.state_pass("step_copies", 0, Bytes(0), {copies});
  for (std::size_t i = 0; i < program.units.size(); ++i) {
    const UnitLayout& layout = w.stage.units[i];
    elements.whole += static_cast<double>(layout.elements);
    elements.local += static_cast<double>(layout.elements) /
                      static_cast<double>(size_of_group(step, layout.shard));
    const Operand gradient = state_of(program.units[i], State::kGradient).operand;
    w.builder.state_pass("gradient_square", 0, Bytes(0), {gradient, norm});
  }
  if (w.groups.norm != kNoGroup) {
    w.builder.all_reduce("norm_reduce", w.groups.norm, Reduction::kSum, norm, norm,
                         Stream::kReduce);
  }
  const OptimizerWork work = optimizer_work(w.job, w.plan, elements);
  constexpr double kThousandths = 1e3;
  std::int64_t layers = 0;
  for (const Chunk& chunk : w.stage.chunks) {
    layers += chunk.last - chunk.first;
  }
  const double host =
      step_host(w.job, static_cast<double>(layers), step_shards(w.job.framework, w.plan));
  w.builder.state_pass("optimizer", work.kernels, work.traffic,
                       {norm, copies, program.gradient_norm}, std::llround(kThousandths * host));
}

// Weights in the compute type that the update of a unit writes: of whole ones the own shard.
Operand updated_weight(const ParameterUnit& unit, const Plan& plan) {
  const StateStorage& weight = state_of(unit, State::kWeight);
  const bool whole = plan.sharding != Sharding::kNone && !weight.sharded;
  return whole ? own_shard(weight.operand, unit.shard, state_of(unit, State::kMaster).operand.count)
               : weight.operand;
}

// Elements at a time: no more than the largest unit has.
std::int64_t streamed_elements(const Writer& w, const Program& program) {
  std::int64_t largest = 1;
  for (const ParameterUnit& unit : program.units) {
    largest = std::max(largest, state_of(unit, State::kMaster).operand.count);
  }
  return std::min(largest, w.shape.streamed_elements);
}

void write_update(Writer& w, const ParameterUnit& unit, const Operand& factor,
                  StateStream& stream) {
  const Operand gradient = state_of(unit, State::kGradient).operand;
  const Operand master = state_of(unit, State::kMaster).operand;
  const Operand moment1 = state_of(unit, State::kMoment1).operand;
  const Operand moment2 = state_of(unit, State::kMoment2).operand;
  if (w.shape.streams_optimizer) {
    stream.update({gradient, factor, updated_weight(unit, w.plan), {master, moment1, moment2}});
  } else if (w.plan.sharding == Sharding::kNone) {
    w.builder.compute(
        "adamw", Kernel::kAdamwCast, {master.count},
        {gradient, factor, master, moment1, moment2, state_of(unit, State::kWeight).operand});
  } else {
    w.builder.compute("adamw", Kernel::kAdamw, {master.count},
                      {gradient, factor, master, moment1, moment2});
  }
}

}  // namespace

void write_optimizer(Writer& w, const StepProgram& step, const Operand& loss, Program& program) {
  w.builder.origin = {Phase::kOptimizer, -1, -1, -1};
  if (loss.count > 0 && w.groups.data != kNoGroup) {
    w.builder.all_reduce("loss_reduce", w.groups.data, Reduction::kSum, loss, loss,
                         Stream::kReduce);
  }
  if (w.job.framework.implementation != models::Implementation::kTrireme) {
    write_modelled_step(w, step, program);
    return;
  }
  const Operand sum = write_norm(w, step, program);
  program.gradient_norm = w.builder.persistent_buffer("gradient_norm", 1, ElementType::kMaster);
  const Operand factor = w.builder.buffer("clip_factor", 1, ElementType::kMaster);
  w.builder.compute("clip", Kernel::kClipFactor, {}, {sum, program.gradient_norm, factor});
  StateStream stream(w.builder, streamed_elements(w, program));
  for (std::size_t i = 0; i < program.units.size(); ++i) {
    const ParameterUnit& unit = program.units[i];
    if (w.stage.units[i].frozen) {
      continue;
    }
    w.builder.origin.layer = w.stage.units[i].layer;
    write_update(w, unit, factor, stream);
  }
}

}  // namespace trireme::planner::lowering
