#include "planner/lower/state_writer.h"

#include <utility>

namespace trireme::planner::lowering {

ParameterUnit StateWriter::unit(std::string name, UnitLayout& layout, bool experts) {
  const std::int64_t elements = layout.elements;
  layout.shard = experts ? groups_.expert_shard : groups_.shard;
  layout.replica = experts ? groups_.expert_replica : groups_.replica;
  shards_ = layout.shard == kNoGroup ? 1 : group_size(step_.groups[index_of(layout.shard)]);
  ParameterUnit unit;
  unit.name = std::move(name);
  unit.shard = layout.shard;
  // Shards begin at multiples of 8 elements, so that vector loads and NCCL stay aligned.
  shard_ = shards_ == 1 ? elements : (elements + 8 * shards_ - 1) / (8 * shards_) * 8;
  unit.elements = shard_ * shards_;
  elements_ = unit.elements;
  layer_ = layout.layer;
  const bool gradients_whole =
      plan_.sharding == Sharding::kNone || plan_.sharding == Sharding::kOptimizer;
  if (plan_.sharding != Sharding::kFull) {
    keep(unit, State::kWeight, "weights", ElementType::kCompute, false);
  }
  keep(unit, State::kMaster, "master", ElementType::kMaster, true);
  keep(unit, State::kMoment1, "moment1", ElementType::kMaster, true);
  keep(unit, State::kMoment2, "moment2", ElementType::kMaster, true);
  keep(unit, State::kGradient, "gradients", ElementType::kMaster, !gradients_whole);
  if (gradients_whole && shards_ > 1) {
    // Distributed optimizer: accumulated whole, reduced in place; after the step only the own
    // shard counts.
    StateStorage& storage = unit.states[static_cast<std::size_t>(State::kGradient)];
    storage.sharded = true;
    storage.operand.shard = layout.shard;
    storage.operand.count = shard_;
  }
  return unit;
}

void StateWriter::keep(ParameterUnit& unit, State state, std::string_view name, ElementType type,
                       bool sharded) {
  StateStorage& storage = unit.states[static_cast<std::size_t>(state)];
  storage.sharded = sharded && shards_ > 1;
  const std::int64_t elements = storage.sharded ? shard_ : elements_;
  if (state == State::kGradient && shape_.frees_gradients) {
    const Origin before = builder_.origin;
    builder_.origin = {Phase::kBackward, -1, layer_, -1};
    storage.operand = builder_.buffer(name, elements, type);
    builder_.origin = before;
  } else {
    storage.operand = builder_.persistent_buffer(name, elements, type, layer_);
  }
}

}  // namespace trireme::planner::lowering
