// The keeper's gradients: where backward writes them, and how they are reduced.
#include <algorithm>

#include "planner/lower/unit_keeper.h"

namespace trireme::planner::lowering {
UnitKeeper::WholeGradients& UnitKeeper::whole_gradients(std::uint32_t unit) {
  const std::int32_t micro_batch = units_[unit].transient ? builder_.origin.micro_batch : 0;
  return units_[unit].gradients[static_cast<std::size_t>(micro_batch)];
}

bool UnitKeeper::is_trained(const Slot& slot) const {
  return slot.count > 0 && !stage_.units[slot.unit].frozen;
}

GradientTarget UnitKeeper::gradient(const Slot& slot) {
  if (!is_trained(slot)) {
    return {builder_.buffer("unread_gradient", slot.count, ElementType::kMaster), 0};
  }
  if (units_[slot.unit].apart) {
    return tensor_gradient(slot);
  }
  WholeGradients& whole = whole_gradients(slot.unit);
  if (whole.operand.count == 0) {
    wait_for_second_last_visit();
    const std::int64_t padded = program_.units[slot.unit].elements;
    const std::int32_t layer = builder_.origin.layer;
    builder_.origin.layer = stage_.units[slot.unit].layer;
    // DeepSpeed's ZeRO-2 fills its bucket in 16 bits.
    whole.operand = builder_.buffer("whole_gradients", padded,
                                    is_own() ? ElementType::kMaster : ElementType::kCompute);
    builder_.origin.layer = layer;
  }
  if (is_own() && whole.written.empty() &&
      (units_[slot.unit].transient || shape_.frees_gradients)) {
    zero_padding(slot.unit, whole.operand);
  }
  const bool again =
      std::find(whole.written.begin(), whole.written.end(), slot.offset) != whole.written.end();
  if (!again) {
    whole.written.push_back(slot.offset);
  }
  return {part(whole.operand, slot.offset, slot.count), again ? 1 : 0};
}

GradientTarget UnitKeeper::tensor_gradient(const Slot& slot) {
  std::vector<TensorGradient>& tensors = whole_gradients(slot.unit).tensors;
  for (const TensorGradient& tensor : tensors) {
    if (tensor.offset == slot.offset) {
      return {tensor.operand, 1};
    }
  }
  tensors.push_back(
      {slot.offset, builder_.buffer("unit_gradients", slot.count, ElementType::kCompute)});
  return {tensors.back().operand, 0};
}

// At most two visits' whole gradients at a time: those being computed and those being reduced.
void UnitKeeper::wait_for_second_last_visit() {
  auto past = reductions_.rbegin();
  while (past != reductions_.rend() && past->visit == reductions_.back().visit) {
    ++past;
  }
  if (past != reductions_.rend()) {
    builder_.also_wait(past->op);
  }
}

// PyTorch waits for the reduction before, and frees its input, when it makes the next one's.
void UnitKeeper::wait_for_earlier_visits() {
  auto past = reductions_.rbegin();
  while (past != reductions_.rend() && past->visit == visit_) {
    ++past;
  }
  if (past != reductions_.rend()) {
    builder_.also_wait(past->op);
  }
}

// New memory holds anything, and the padding is reduced with the rest.
void UnitKeeper::zero_padding(std::uint32_t unit, const Operand& whole) {
  const std::int64_t padded = program_.units[unit].elements;
  const std::int64_t real = stage_.units[unit].elements;
  if (padded > real) {
    builder_.compute("zero_padding", Kernel::kZero, {padded - real},
                     {part(whole, real, padded - real)});
  }
}

void UnitKeeper::finish_gradient(std::uint32_t unit, bool last_micro_batch) {
  const Origin before = builder_.origin;
  builder_.origin.phase = Phase::kGradientReduce;
  builder_.origin.layer = stage_.units[unit].layer;
  if (!units_[unit].apart) {
    sum_over_tensor(unit, whole_gradients(unit).operand);
  }
  if (units_[unit].apart &&
      (units_[unit].transient || overlaps_gradient_reduction(job_.framework))) {
    reduce_apart(unit, last_micro_batch);
  } else if (units_[unit].transient) {
    reduce_transient(unit);
    if (last_micro_batch && stage_.units[unit].shard != kNoGroup) {
      reduce_replicas(unit, Stream::kReplica);
    }
    whole_gradients(unit) = {};
  } else if (overlaps_gradient_reduction(job_.framework)) {
    reduce_whole(unit);
  } else {
    unreduced_.push_back(unit);
  }
  builder_.origin = before;
}

// Under sequence parallelism each tensor rank saw only its tokens; head norms see only the own
// heads always.
void UnitKeeper::sum_over_tensor(std::uint32_t unit, const Operand& whole) {
  const UnitLayout& layout = stage_.units[unit];
  const std::int64_t end = shape_.sequence_parallel ? layout.elements : layout.head_norms_end;
  if (groups_.tensor == kNoGroup || end == layout.replicated_from) {
    return;
  }
  const Operand sum = part(whole, layout.replicated_from, end - layout.replicated_from);
  builder_.all_reduce("sum_replicated", groups_.tensor, Reduction::kSum, sum, sum, Stream::kTensor);
}

// After the last micro-batch, in place.
void UnitKeeper::reduce_whole(std::uint32_t unit) {
  if (units_[unit].apart) {
    reduce_apart(unit, true);
    return;
  }
  if (const double copied = copies_of(unit).reduce; !is_own() && copied > 0) {
    const Operand whole = whole_gradients(unit).operand;
    builder_.state_pass("copy_gradients", 1, bytes_of(copied, unit), {whole, whole});
  }
  if (stage_.units[unit].shard != kNoGroup) {
    builder_.reduce_scatter("reduce_gradients", stage_.units[unit].shard,
                            whole_gradients(unit).operand, storage(unit, State::kGradient).operand,
                            Stream::kReduce);
  }
  reduce_replicas(unit, Stream::kReduce);
}

void UnitKeeper::reduce_replicas(std::uint32_t unit, Stream stream) {
  if (stage_.units[unit].replica != kNoGroup) {
    const Operand kept = storage(unit, State::kGradient).operand;
    builder_.all_reduce("reduce_replicas", stage_.units[unit].replica, Reduction::kSum, kept, kept,
                        stream);
  }
}

// The first micro-batch's sum goes where it stays. To later ones, this rank adds what it keeps
// before the scatter, among the other compute; an all-reduce would count that once a rank, so there
// it is added afterwards.
void UnitKeeper::reduce_transient(std::uint32_t unit) {
  const Operand whole = whole_gradients(unit).operand;
  const Operand kept = storage(unit, State::kGradient).operand;
  const bool first = !units_[unit].kept_filled;
  units_[unit].kept_filled = true;
  const UnitLayout& layout = stage_.units[unit];
  OpId last = kNoOp;
  if (!is_own()) {
    const double copied = copies_of(unit).reduce;
    builder_.state_pass("copy_gradients", copied > 0 ? 1 : 0, bytes_of(copied, unit),
                        {whole, whole});
  }
  if (layout.shard != kNoGroup) {
    if (!first && is_own()) {
      builder_.compute("add_gradients", Kernel::kAdd, {kept.count},
                       {own_shard(whole, layout.shard, kept.count), kept});
    }
    last = builder_.reduce_scatter("reduce_gradients", layout.shard, whole, kept, Stream::kReduce);
  } else {
    const Operand& sum = first ? kept : whole;
    last = builder_.all_reduce("reduce_gradients", layout.replica, Reduction::kSum, whole, sum,
                               Stream::kReduce);
    if (!first) {
      last = builder_.compute("add_gradients", Kernel::kAdd, {kept.count}, {kept, sum},
                              Stream::kReduce);
    }
  }
  note_reduction(unit, last);
}

// A whole unit in the type that is reduced.
Operand UnitKeeper::reduced_buffer(std::string_view name, std::uint32_t unit) {
  const std::int64_t count = program_.units[unit].elements;
  const double bytes = job_.framework.reduce_bytes * static_cast<double>(count);
  Operand whole =
      builder_.buffer(name, std::max(count, compute_elements(bytes)), ElementType::kCompute);
  whole.count = count;
  return whole;
}

// Of a micro-batch whose reduction waits for a later one's.
void UnitKeeper::keep_unreduced(std::uint32_t unit) {
  const Phase phase = builder_.origin.phase;
  builder_.origin.phase = Phase::kGradientReduce;
  Operand& sum = units_[unit].unreduced;
  if (!present(sum)) {
    sum = reduced_buffer("unreduced_gradients", unit);
  }
  const double kept = copies_of(unit).keep;
  bool costs = kept > 0;
  for (const TensorGradient& tensor : whole_gradients(unit).tensors) {
    builder_.state_pass("keep_gradients", costs ? 1 : 0, costs ? bytes_of(kept, unit) : Bytes(0),
                        {tensor.operand, units_[unit].weights, sum});
    costs = false;
  }
  whole_gradients(unit) = {};
  builder_.origin.phase = phase;
}

// Also the end of the unit's weights, which stay gathered until its gradients are whole.
Operand UnitKeeper::reduction_input(std::uint32_t unit) {
  wait_for_earlier_visits();
  const Operand input = reduced_buffer("reduction_input", unit);
  const double copied = copies_of(unit).reduce;
  bool costs = copied > 0;
  const auto copy = [&](const Operand& from) {
    builder_.state_pass("copy_gradients", costs ? 1 : 0, costs ? bytes_of(copied, unit) : Bytes(0),
                        {from, units_[unit].weights, input});
    costs = false;
  };
  for (const TensorGradient& tensor : whole_gradients(unit).tensors) {
    copy(tensor.operand);
  }
  if (present(units_[unit].unreduced)) {
    copy(units_[unit].unreduced);
  }
  whole_gradients(unit) = {};
  units_[unit].unreduced = {};
  return input;
}

void UnitKeeper::reduce_apart(std::uint32_t unit, bool last_micro_batch) {
  const UnitLayout& layout = stage_.units[unit];
  const Operand input = reduction_input(unit);
  const Operand kept = storage(unit, State::kGradient).operand;
  sum_over_tensor(unit, input);
  if (layout.shard != kNoGroup) {
    note_reduction(unit, builder_.reduce_scatter("reduce_gradients", layout.shard, input, kept,
                                                 Stream::kReduce));
  } else {
    builder_.state_pass("keep_gradients", 0, Bytes(0), {input, kept});
  }
  if (last_micro_batch) {
    reduce_replicas(unit, units_[unit].transient ? Stream::kReplica : Stream::kReduce);
  }
}

void UnitKeeper::note_reduction(std::uint32_t unit, OpId op) {
  // A norm of its own (the final one, beside a head) holds too little memory to be waited for.
  constexpr std::int64_t kSmall = 64;
  std::int64_t largest = 0;
  for (const UnitLayout& other : stage_.units) {
    largest = std::max(largest, other.elements);
  }
  if (kSmall * stage_.units[unit].elements >= largest) {
    reductions_.push_back({op, visit_});
  }
}

}  // namespace trireme::planner::lowering
