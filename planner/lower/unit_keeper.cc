#include "planner/lower/unit_keeper.h"

#include <algorithm>

#include "core/check.h"
#include "planner/cost/group_shape.h"
#include "planner/cost/unit_link.h"

namespace trireme::planner::lowering {
namespace {

Stream gather_stream(const Job& job, const Plan& plan, const StepProgram& step, GroupId group) {
  if (group == kNoGroup) {
    return Stream::kGather;
  }
  const topologies::GroupShape shard = shape_of_group(job.cluster, step.groups[index_of(group)]);
  return takes_turns(job, plan, shard) ? Stream::kReduce : Stream::kGather;
}

}  // namespace

UnitKeeper::UnitKeeper(const Job& job, const Plan& plan, const Shape& shape, const Groups& groups,
                       const StepProgram& step, const StageParameters& stage,
                       const HeldMemory& held, const std::vector<Action>& actions,
                       const std::vector<Visit>& visits, ProgramBuilder& builder, Program& program)
    : job_(job),
      plan_(plan),
      shape_(shape),
      groups_(groups),
      step_(step),
      stage_(stage),
      held_(held),
      actions_(actions),
      visits_(visits),
      builder_(builder),
      program_(program),
      run_(run_sharding(job, plan)),
      gathers_units_(plan.sharding == Sharding::kFull),
      gather_stream_(gather_stream(job, plan, step, groups.shard)),
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
  if (gathers_units_) {
    ahead_ = visits_ahead();
    spans_ = plan_gathers(visits, actions, let_go());
    for (const GatherSpan& span : spans_) {
      if (starts_.empty() || starts_.back() != span.first) {
        starts_.push_back(span.first);
      }
    }
  }
  for (std::uint32_t i = 0; i < units_.size(); ++i) {
    const Operand weights = storage(i, State::kWeight).operand;
    const Operand gradients = storage(i, State::kGradient).operand;
    const UnitLayout& layout = stage.units[i];
    units_[i].weights = is_kept_as_gathered(i) ? Operand{} : weights;
    if (layout.frozen) {
      continue;
    }
    units_[i].apart = !is_own() && (held.has_torch_states() ? run_.sharding != Sharding::kNone
                                                            : run_.sharding == Sharding::kFull);
    units_[i].transient = ((layout.shard != kNoGroup || units_[i].apart) && every) ||
                          (layout.replica != kNoGroup && whole_each);
    if (units_[i].transient) {
      units_[i].gradients.resize(static_cast<std::size_t>(plan.micro_batches));
    } else if (units_[i].apart) {
      units_[i].gradients.resize(1);
    } else {
      units_[i].gradients = {{{gradients.buffer, kNoGroup, 0, program.units[i].elements}, {}, {}}};
    }
  }
  count_gradient_visits(actions);
}

// As many visits as hold what is gathered ahead at least, of a pass's at most: nothing is gathered
// twice at a time. ZeRO-3's bound is of all that is there, the visit at hand among it.
std::size_t UnitKeeper::visits_ahead() const {
  std::int64_t largest = 1;  // of a visit's units
  std::int64_t layers = 0;
  for (const Visit& visit : visits_) {
    std::int64_t elements = 0;
    layers += visit.action == visits_.front().action && visit.layer >= 0 ? 1 : 0;
    for (const std::uint32_t unit : visit.units) {
      elements += unit != kNoUnit && visit.layer >= 0 ? stage_.units[unit].elements : 0;
    }
    largest = std::max(largest, elements);
  }
  const std::int64_t at_hand = job_.framework.sharder == Sharder::kZero ? largest : 0;
  const std::int64_t ahead = std::max<std::int64_t>(0, job_.framework.prefetch_elements - at_hand);
  const std::int64_t visits = std::min(layers, (ahead + largest / 2) / largest);
  return static_cast<std::size_t>(
      std::max({std::int64_t{0}, std::int64_t{job_.framework.prefetch_units}, visits}));
}

void UnitKeeper::count_gradient_visits(const std::vector<Action>& actions) {
  for (const Visit& visit : visits_) {
    const Action& action = actions[visit.action];
    if (action.kind == ActionKind::kForward) {
      continue;
    }
    for (const std::uint32_t unit : visit.units) {
      if (unit != kNoUnit && !stage_.units[unit].frozen) {
        ++remaining_[unit][static_cast<std::size_t>(action.micro_batch)];
        ++remaining_total_[unit];
      }
    }
  }
}

const StateStorage& UnitKeeper::storage(std::uint32_t unit, State state) const {
  return program_.units[unit].states[static_cast<std::size_t>(state)];
}

std::vector<LetGo> UnitKeeper::let_go() const {
  const bool reshards = plan_.reshard_after_forward && job_.framework.reshard_after_forward;
  const LetGo of_layers = reshards ? LetGo::kAfterVisit : LetGo::kAfterBackward;
  std::vector<LetGo> result;
  for (const UnitLayout& unit : stage_.units) {
    const bool never = job_.framework.root_unit_stays_gathered && unit.layer < 0;
    // Below the lowest trained layer no backward ends what a forward began.
    const bool below = unit.frozen && unit.layer >= 0 && unit.layer < stage_.trained.lowest();
    result.push_back(never ? LetGo::kNever : below ? LetGo::kAfterVisit : of_layers);
  }
  return result;
}

void UnitKeeper::begin_step() {
  if (plan_.sharding == Sharding::kNone || gathers_units_) {
    return;
  }
  for (std::uint32_t unit = 0; unit < units_.size(); ++unit) {
    if (!stage_.units[unit].frozen) {  // else whole, and as it was
      gather(unit);
    }
  }
  if (!overlaps_parameter_gather(job_.framework)) {
    builder_.also_wait(builder_.last_on(Stream::kGather));
  }
}

// Masters to compute precision into the own place of the whole unit, then the others' places from
// the others. The cast takes its turn with the other compute: a pass over memory gains nothing from
// running beside another kernel.
void UnitKeeper::gather(std::uint32_t unit) {
  const bool frozen = stage_.units[unit].frozen;
  const bool as_gathered = is_kept_as_gathered(unit);
  const bool from_weights = frozen || shape_.streams_optimizer;
  if (from_weights && gathers_units_ && !as_gathered) {
    return;  // whole as it is
  }
  const Origin before = builder_.origin;
  builder_.origin = {Phase::kParameterGather, before.chunk, stage_.units[unit].layer,
                     gathers_units_ ? before.micro_batch : -1};
  Operand& whole = units_[unit].weights;
  if (!(is_own() ? plan_.sharding != Sharding::kFull : held_.keeps_whole_weights())) {
    whole = builder_.buffer("gathered", program_.units[unit].elements, ElementType::kCompute);
  }
  const Operand master = storage(unit, State::kMaster).operand;
  const Operand mine = as_gathered ? storage(unit, State::kWeight).operand
                                   : own_shard(whole, stage_.units[unit].shard, master.count);
  if (is_own() && !from_weights) {
    builder_.compute("cast_parameters", Kernel::kCast, {master.count}, {master, mine});
  } else if (!from_weights) {
    const double copied = copies_of(unit).gather;
    builder_.state_pass("copy_parameters", copied > 0 ? 1 : 0, bytes_of(copied, unit),
                        {master, mine});
  }
  if (stage_.units[unit].shard != kNoGroup) {
    const OpId gathered = builder_.all_gather("gather_parameters", stage_.units[unit].shard, mine,
                                              whole, gather_stream_);
    if (gathers_units_ && !overlaps_parameter_gather(job_.framework)) {
      builder_.also_wait(gathered);
    }
  }
  builder_.origin = before;
}

bool UnitKeeper::is_kept_as_gathered(std::uint32_t unit) const {
  return is_own() && storage(unit, State::kWeight).sharded;
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

// At which visit a start's gathers are issued. More than the framework's units are gathered ahead
// within a pass only, but for DeepSpeed, which follows the order of a whole step.
std::uint32_t UnitKeeper::issue_of(std::size_t start) const {
  const auto before = [&](std::size_t starts) {
    return start < starts ? 0 : starts_[start - starts];
  };
  const auto units = static_cast<std::size_t>(std::max(0, job_.framework.prefetch_units));
  std::uint32_t first = starts_[start];  // visit of the pass
  while (first > 0 && visits_[first - 1].action == visits_[first].action) {
    --first;
  }
  const bool whole_step = job_.framework.sharder == Sharder::kZero;
  return std::min(before(units), whole_step ? before(ahead_) : std::max(first, before(ahead_)));
}

void UnitKeeper::begin_visit(std::uint32_t visit) {
  // A reduction is over, and its whole gradient free, four visits after it was issued at the
  // latest.
  while (next_reduction_ < reductions_.size() && reductions_[next_reduction_].visit + 4 <= visit) {
    builder_.also_wait(reductions_[next_reduction_++].op);
  }
  visit_ = visit;
  // What a visit needs is gathered when the visit `ahead_` before it, of those that need any,
  // starts.
  while (next_start_ < starts_.size()) {
    const std::uint32_t issue = issue_of(next_start_);
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
    if (unit == kNoUnit || stage_.units[unit].frozen) {
      continue;
    }
    --remaining_total_[unit];
    std::int32_t& left = remaining_[unit][static_cast<std::size_t>(action.micro_batch)];
    if (--left > 0) {
      continue;
    }
    if (units_[unit].transient || remaining_total_[unit] == 0) {
      finish_gradient(unit, remaining_total_[unit] == 0);
    } else if (units_[unit].apart) {
      keep_unreduced(unit);
    }
  }
}

void UnitKeeper::end_step() {
  // Whole gradients are there long before the last backward ends, which nothing is reduced beside.
  builder_.also_wait(unreduced_.empty() ? kNoOp : builder_.last_on(Stream::kCompute),
                     Stream::kReduce);
  for (const std::uint32_t unit : unreduced_) {
    builder_.origin.layer = stage_.units[unit].layer;
    reduce_whole(unit);
  }
  // First and last stage each hold the tied embedding: both need the sum of both gradients.
  for (std::uint32_t unit = 0; unit < units_.size(); ++unit) {
    if (stage_.units[unit].copies > 1 && !stage_.units[unit].frozen) {
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

}  // namespace trireme::planner::lowering
