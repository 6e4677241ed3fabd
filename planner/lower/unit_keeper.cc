#include "planner/lower/unit_keeper.h"

#include <algorithm>

#include "core/check.h"
#include "planner/cost/unit_link.h"

namespace trireme::planner::lowering {
namespace {

Operand part(const Operand& whole, std::int64_t offset, std::int64_t count) {
  return {whole.buffer, kNoGroup, whole.offset + offset, count};
}

Stream gather_stream(const Job& job, const Plan& plan) {
  const ShardRanks ranks = shard_ranks(job, plan);
  const topologies::GroupShape shard =
      topologies::group_shape(job.cluster, ranks.degree, ranks.stride);
  return takes_turns(job, plan, shard) ? Stream::kReduce : Stream::kGather;
}

// The own shard of a whole unit.
Operand own_shard(const Operand& whole, GroupId group, std::int64_t count) {
  return {whole.buffer, group, whole.offset, count};
}

}  // namespace

UnitKeeper::UnitKeeper(const Job& job, const Plan& plan, const Shape& shape, const Groups& groups,
                       const StepProgram& step, const StageParameters& stage,
                       const std::vector<Action>& actions, const std::vector<Visit>& visits,
                       ProgramBuilder& builder, Program& program)
    : job_(job),
      plan_(plan),
      shape_(shape),
      groups_(groups),
      step_(step),
      stage_(stage),
      actions_(actions),
      visits_(visits),
      builder_(builder),
      program_(program),
      run_(run_sharding(job, plan)),
      gather_stream_(gather_stream(job, plan)),
      units_(stage.units.size()),
      remaining_(stage.units.size(),
                 std::vector<std::int32_t>(static_cast<std::size_t>(plan.micro_batches), 0)),
      remaining_total_(stage.units.size(), 0) {
  const bool shards_gradients =
      plan.sharding == Sharding::kGradients || plan.sharding == Sharding::kFull;
  // Other frameworks defer the reduction of gradients that stay whole, whatever they do with
  // sharded ones.
  const bool whole_each = job.framework.reduce_every_micro_batch &&
                          job.framework.implementation == models::Implementation::kTrireme;
  const bool every = shards_gradients || whole_each;
  if (plan.sharding == Sharding::kFull) {
    const bool reshard = plan.reshard_after_forward && job.framework.reshard_after_forward;
    std::vector<bool> reshards(units_.size(), reshard);
    std::vector<bool> stays(units_.size(), false);
    for (std::size_t i = 0; i < units_.size(); ++i) {
      stays[i] = job.framework.root_unit_stays_gathered && stage.units[i].layer < 0;
    }
    spans_ = plan_gathers(visits, actions, reshards, stays);
    for (const GatherSpan& span : spans_) {
      if (starts_.empty() || starts_.back() != span.first) {
        starts_.push_back(span.first);
      }
    }
  }
  for (std::uint32_t i = 0; i < units_.size(); ++i) {
    const Operand weights = storage(i, State::kWeight).operand;
    const Operand gradients = storage(i, State::kGradient).operand;
    units_[i].weights = weights;
    const UnitLayout& layout = stage.units[i];
    units_[i].transient =
        (layout.shard != kNoGroup && every) || (layout.replica != kNoGroup && whole_each);
    if (units_[i].transient) {
      units_[i].gradients.resize(static_cast<std::size_t>(plan.micro_batches));
    } else {
      units_[i].gradients = {{{gradients.buffer, kNoGroup, 0, program.units[i].elements}, {}}};
    }
  }
  count_gradient_visits(actions);
}

void UnitKeeper::count_gradient_visits(const std::vector<Action>& actions) {
  for (const Visit& visit : visits_) {
    const Action& action = actions[visit.action];
    if (action.kind == ActionKind::kForward) {
      continue;
    }
    for (const std::uint32_t unit : visit.units) {
      if (unit != kNoUnit) {
        ++remaining_[unit][static_cast<std::size_t>(action.micro_batch)];
        ++remaining_total_[unit];
      }
    }
  }
}

const StateStorage& UnitKeeper::storage(std::uint32_t unit, State state) const {
  return program_.units[unit].states[static_cast<std::size_t>(state)];
}

void UnitKeeper::begin_step() {
  if (plan_.sharding == Sharding::kNone || plan_.sharding == Sharding::kFull) {
    return;
  }
  for (std::uint32_t unit = 0; unit < units_.size(); ++unit) {
    gather(unit);
  }
  if (!overlaps_parameter_gather(job_.framework)) {
    builder_.also_wait(builder_.last_on(Stream::kGather));
  }
}

// Masters to compute precision into the own place of the whole unit, then the others' places from
// the others. The cast takes its turn with the other compute: a pass over memory gains nothing from
// running beside another kernel.
void UnitKeeper::gather(std::uint32_t unit) {
  const Origin before = builder_.origin;
  builder_.origin = {Phase::kParameterGather, before.chunk, stage_.units[unit].layer,
                     plan_.sharding == Sharding::kFull ? before.micro_batch : -1};
  Operand& whole = units_[unit].weights;
  if (plan_.sharding == Sharding::kFull) {
    whole = builder_.buffer("gathered", program_.units[unit].elements, ElementType::kCompute);
  }
  const Operand master = storage(unit, State::kMaster).operand;
  const Operand mine = own_shard(whole, stage_.units[unit].shard, master.count);
  if (is_own()) {
    builder_.compute("cast_parameters", Kernel::kCast, {master.count}, {master, mine});
  } else {
    const double copied = copies_of(unit).gather;
    builder_.state_pass("copy_parameters", copied > 0 ? 1 : 0, bytes_of(copied, unit),
                        {master, mine});
  }
  if (stage_.units[unit].shard != kNoGroup) {
    const OpId gathered = builder_.all_gather("gather_parameters", stage_.units[unit].shard, mine,
                                              whole, gather_stream_);
    if (plan_.sharding == Sharding::kFull && !overlaps_parameter_gather(job_.framework)) {
      builder_.also_wait(gathered);
    }
  }
  builder_.origin = before;
}

bool UnitKeeper::is_own() const {
  return job_.framework.implementation == models::Implementation::kTrireme;
}

UnitCopies UnitKeeper::copies_of(std::uint32_t unit) const {
  const GroupId group = stage_.units[unit].shard;
  return unit_copies(job_, run_, group == kNoGroup ? 1 : group_size(step_.groups[index_of(group)]));
}

Bytes UnitKeeper::bytes_of(double each, std::uint32_t unit) const {
  return Bytes(static_cast<std::int64_t>(each * static_cast<double>(stage_.units[unit].elements)));
}

void UnitKeeper::begin_visit(std::uint32_t visit) {
  // A reduction is over, and its whole gradient free, four visits after it was issued at the
  // latest.
  while (next_reduction_ < reductions_.size() && reductions_[next_reduction_].visit + 4 <= visit) {
    builder_.also_wait(reductions_[next_reduction_++].op);
  }
  visit_ = visit;
  // What a visit needs is gathered when the visit `ahead` before it, of those that need any,
  // starts.
  const auto ahead = static_cast<std::size_t>(std::max(0, job_.framework.prefetch_units));
  while (next_start_ < starts_.size()) {
    const std::uint32_t issue = next_start_ < ahead ? 0 : starts_[next_start_ - ahead];
    if (issue > visit && starts_[next_start_] > visit) {
      break;
    }
    while (next_span_ < spans_.size() && spans_[next_span_].first == starts_[next_start_]) {
      gather(spans_[next_span_++].unit);
    }
    ++next_start_;
  }
}

void UnitKeeper::end_visit(std::uint32_t visit) {
  const Visit& where = visits_[visit];
  const Action& action = actions_[where.action];
  if (action.kind == ActionKind::kForward) {
    return;
  }
  for (const std::uint32_t unit : where.units) {
    if (unit == kNoUnit) {
      continue;
    }
    --remaining_total_[unit];
    std::int32_t& left = remaining_[unit][static_cast<std::size_t>(action.micro_batch)];
    if (--left > 0) {
      continue;
    }
    if (units_[unit].transient || remaining_total_[unit] == 0) {
      finish_gradient(unit, remaining_total_[unit] == 0);
    } else if (const double kept = copies_of(unit).keep; kept > 0) {
      const Phase phase = builder_.origin.phase;
      const Operand whole = whole_gradients(unit).operand;
      builder_.origin.phase = Phase::kGradientReduce;
      builder_.state_pass("keep_gradients", 1, bytes_of(kept, unit), {whole, whole});
      builder_.origin.phase = phase;
    }
  }
}

void UnitKeeper::end_step() {
  for (const std::uint32_t unit : unreduced_) {
    builder_.origin.layer = stage_.units[unit].layer;
    reduce_whole(unit);
  }
  // First and last stage each hold the tied embedding: both need the sum of both gradients.
  for (std::uint32_t unit = 0; unit < units_.size(); ++unit) {
    if (stage_.units[unit].copies > 1) {
      const Operand kept = storage(unit, State::kGradient).operand;
      builder_.origin.layer = -1;
      builder_.all_reduce("sum_tied", groups_.tied, Reduction::kSum, kept, kept, Stream::kReduce);
    }
  }
}

Operand UnitKeeper::weight(const Slot& slot) const {
  const Operand& whole = units_[slot.unit].weights;
  TRIREME_CHECK(whole.count > 0);
  return part(whole, slot.offset, slot.count);
}

UnitKeeper::WholeGradients& UnitKeeper::whole_gradients(std::uint32_t unit) {
  const std::int32_t micro_batch = units_[unit].transient ? builder_.origin.micro_batch : 0;
  return units_[unit].gradients[static_cast<std::size_t>(micro_batch)];
}

GradientTarget UnitKeeper::gradient(const Slot& slot) {
  WholeGradients& whole = whole_gradients(slot.unit);
  if (whole.operand.count == 0) {
    wait_for_second_last_visit();
    const std::int64_t padded = program_.units[slot.unit].elements;
    const std::int32_t layer = builder_.origin.layer;
    builder_.origin.layer = stage_.units[slot.unit].layer;
    whole.operand = builder_.buffer("whole_gradients", padded, ElementType::kMaster);
    builder_.origin.layer = layer;
  }
  if (whole.written.empty() && (units_[slot.unit].transient || shape_.frees_gradients)) {
    zero_padding(slot.unit, whole.operand);
  }
  const bool again =
      std::find(whole.written.begin(), whole.written.end(), slot.offset) != whole.written.end();
  if (!again) {
    whole.written.push_back(slot.offset);
  }
  return {part(whole.operand, slot.offset, slot.count), again ? 1 : 0};
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
  sum_over_tensor(unit);
  if (units_[unit].transient) {
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
void UnitKeeper::sum_over_tensor(std::uint32_t unit) {
  const UnitLayout& layout = stage_.units[unit];
  const std::int64_t end = shape_.sequence_parallel ? layout.elements : layout.head_norms_end;
  if (groups_.tensor == kNoGroup || end == layout.replicated_from) {
    return;
  }
  const Operand sum =
      part(whole_gradients(unit).operand, layout.replicated_from, end - layout.replicated_from);
  builder_.all_reduce("sum_replicated", groups_.tensor, Reduction::kSum, sum, sum, Stream::kTensor);
}

// After the last micro-batch, in place.
void UnitKeeper::reduce_whole(std::uint32_t unit) {
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
  // A norm of its own (the final one, beside a head) holds too little memory to be waited for.
  constexpr std::int64_t kSmall = 64;
  std::int64_t largest = 0;
  for (const UnitLayout& other : stage_.units) {
    largest = std::max(largest, other.elements);
  }
  if (kSmall * layout.elements >= largest) {
    reductions_.push_back({last, visit_});
  }
}

}  // namespace trireme::planner::lowering
