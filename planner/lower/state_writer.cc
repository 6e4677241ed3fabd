#include "planner/lower/state_writer.h"

#include <algorithm>
#include <utility>

namespace trireme::planner::lowering {

ParameterUnit StateWriter::unit(std::string name, UnitLayout& layout, bool experts) {
  const std::int64_t elements = layout.elements;
  layout.experts = experts;
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
  const bool own = job_.framework.implementation == models::Implementation::kTrireme;
  if (layout.frozen) {
    keep(unit, State::kWeight, "weights", ElementType::kCompute, plan_.sharding == Sharding::kFull);
    return unit;
  }
  if (own) {
    keep_own(unit);
  } else {
    keep_modelled(unit, held_.states(experts));
  }
  StateStorage& gradients = unit.states[static_cast<std::size_t>(State::kGradient)];
  const bool whole_gradients = own || !held_.has_torch_states();
  if (plan_.sharding == Sharding::kOptimizer && shards_ > 1) {
    // Distributed optimizer: accumulated whole, reduced in place; after the step only the own
    // shard counts.
    gradients.sharded = true;
    gradients.operand.shard = whole_gradients ? layout.shard : kNoGroup;
    gradients.operand.count = shard_;
  }
  return unit;
}

void StateWriter::keep_own(ParameterUnit& unit) {
  const bool gradients_whole =
      plan_.sharding == Sharding::kNone || plan_.sharding == Sharding::kOptimizer;
  const bool shards = plan_.sharding == Sharding::kFull;
  // Where masters lie on the host, units are gathered from weights that stay.
  if (!shards || shape_.streams_optimizer) {
    keep(unit, State::kWeight, "weights", ElementType::kCompute, shards);
  }
  keep(unit, State::kMaster, "master", ElementType::kMaster, true);
  keep(unit, State::kMoment1, "moment1", ElementType::kMaster, true);
  keep(unit, State::kMoment2, "moment2", ElementType::kMaster, true);
  keep(unit, State::kGradient, "gradients", ElementType::kMaster, !gradients_whole);
}

Operand StateWriter::modelled_state(std::string_view name, double each, std::int64_t count,
                                    bool lasts) {
  const std::int64_t room =
      std::max(count, compute_elements(each * static_cast<double>(elements_)));
  Operand state = lasts ? builder_.persistent_buffer(name, room, ElementType::kCompute, layer_)
                        : builder_.buffer(name, room, ElementType::kCompute);
  state.count = count;
  return state;
}

// PyTorch's stored parameter is the master too, and its gradients are memory of the backward and
// the step only.
void StateWriter::keep_modelled(ParameterUnit& unit, const StateBytes& bytes) {
  const auto of = [&](State state) -> StateStorage& {
    return unit.states[static_cast<std::size_t>(state)];
  };
  const auto keep = [&](State state, std::string_view name, double each, bool sharded, bool lasts) {
    of(state).sharded = sharded && shards_ > 1;
    of(state).operand = modelled_state(name, each, sharded ? shard_ : elements_, lasts);
  };
  const bool cut = plan_.sharding != Sharding::kNone;
  keep(State::kWeight, "weights", bytes.parameters, !held_.keeps_whole_weights(), true);
  if (bytes.main_copy > 0) {
    keep(State::kMaster, "master", bytes.main_copy, cut, true);
  } else {
    of(State::kMaster) = of(State::kWeight);
    of(State::kMaster).sharded = cut && shards_ > 1;
    of(State::kMaster).operand.count = cut ? shard_ : elements_;
  }
  if (const double moments = bytes.optimizer - bytes.main_copy; moments > 0) {
    keep(State::kMoment1, "moments", moments, cut, true);
  }
  const bool whole = plan_.sharding == Sharding::kNone ||
                     (plan_.sharding == Sharding::kOptimizer && !held_.has_torch_states());
  const Origin before = builder_.origin;
  builder_.origin = {Phase::kBackward, -1, layer_, -1};
  keep(State::kGradient, "gradients", bytes.gradients, !whole, held_.gradients_last());
  builder_.origin = before;
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
  } else if (shape_.streams_optimizer && state != State::kWeight && state != State::kGradient) {
    storage.operand = builder_.host_buffer(name, elements, type, layer_);
  } else {
    storage.operand = builder_.persistent_buffer(name, elements, type, layer_);
  }
}

}  // namespace trireme::planner::lowering
