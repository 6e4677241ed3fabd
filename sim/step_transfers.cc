// Transfers of a step: when all participants are ready, the flow that carries it; and the report
// when some never are.
#include <algorithm>
#include <variant>

#include <fmt/core.h>

#include "core/check.h"
#include "sim/step_run.h"

namespace trireme::sim {
namespace {

// A flow that needs a whole link asks for a hair less, so that rounding never lets the link stretch
// a lone transfer.
constexpr double kWholeLink = 1 - 1e-12;

// Bytes that each member sends: nccl-tests' conventions of size, ring algorithms (as
// topologies/textbook_cost.h).
struct SentBytes {
  double input, output, members;
  double operator()(const AllReduce&) const { return 2 * (members - 1) / members * input; }
  double operator()(const AllGather&) const { return (members - 1) / members * output; }
  double operator()(const ReduceScatter&) const { return (members - 1) / members * input; }
  double operator()(const AllToAll&) const { return (members - 1) / members * input; }
  double operator()(const Broadcast&) const { return input; }
  double operator()(const Shift&) const { return input; }
  double operator()(const Send&) const { return input; }
  double operator()(const Recv&) const { return input; }
  double operator()(const Compute&) const { return 0; }
  double operator()(const Copy&) const { return 0; }
};

}  // namespace

void StepRun::arrive(std::uint32_t actor, const RoleOp& op, SimTime now) {
  const std::uint32_t at = meetings_.channel_of[actor][op.slot];
  const Channel& channel = meetings_.channels[at];
  if (++arrived_[channel.first + op.place] == channel.participants.size()) {
    begin_transfer(at, op.place, now);
  }
}

void StepRun::begin_transfer(std::uint32_t at, std::uint32_t place, SimTime now) {
  const Channel& channel = meetings_.channels[at];
  std::int64_t alone = 0;
  for (const Participant& participant : channel.participants) {
    const RolePlan& plan = plan_of(participant.actor);
    const std::uint32_t op = plan.slots[participant.slot].ops[place];
    alone = std::max(alone, plan.ops[op].duration);
    ActorState& state = actors_[participant.actor];
    begin_activity(state, plan.ops[op].activity, now);
    ++state.communicating;
    const bool slows = options_.compute_slowdown > 0 && !channel.message && plan.ops[op].meets > 0;
    if (slows && ++state.collectives == 1) {
      change_speed(participant.actor, now, true);
    }
    if (options_.record_trace) {
      timings_[state.first_op + op].start = now;
    }
  }
  const bool flows =
      options_.share_links && alone > 0 && begin_flow(at, place, SimDuration(alone), now);
  if (!flows) {
    queue_.schedule(now + SimDuration(alone), kTransferEnds, channel.first + place);
  }
}

double StepRun::wire_bytes(const Channel& channel, std::uint32_t place, bool& all_to_all) const {
  const Participant& first = channel.participants.front();
  const std::uint32_t actor_role = index_of(grid_.actors()[first.actor].role);
  const Program& role = program_.roles[actor_role];
  const Op& op = role.ops[roles_[actor_role].slots[first.slot].ops[place]];
  all_to_all = std::holds_alternative<AllToAll>(op.kind);
  const auto size = [&](std::uint32_t operand) {
    return operand < op.operands.count
               ? static_cast<double>(
                     size_of(program_, role, role.operands[op.operands.first + operand]).value)
               : 0.0;
  };
  double members = 1;
  if (channel.group != kNoGroup) {
    members = static_cast<double>(group_size(program_.groups[index_of(channel.group)]));
  }
  // An in-place gather or scatter names its own shard only: the whole is `members` of them.
  const auto* exchange = std::get_if<AllToAll>(&op.kind);
  const bool ragged = exchange != nullptr && exchange->row > 0;  // one has room for an uneven load
  const double input = std::holds_alternative<ReduceScatter>(op.kind)
                           ? std::max(size(0), members * size(1))
                       : ragged ? std::min(size(0), size(1))
                                : size(0);
  const double output = std::max(size(1), members * size(0));
  return std::visit(SentBytes{input, output, members}, op.kind);
}

// False when the transfer crosses no link of ours.
bool StepRun::begin_flow(std::uint32_t at, std::uint32_t place, SimDuration alone, SimTime now) {
  const Channel& channel = meetings_.channels[at];
  bool all_to_all = false;
  const double bytes = wire_bytes(channel, place, all_to_all);
  LoadedLinks& loaded = all_to_all ? spread_loads_[at] : ring_loads_[at];
  if (!loaded.known) {
    loaded.known = true;
    if (channel.message) {
      loaded.loads = fabric_.message_loads(channel.rank, channel.peer);
    } else {
      loaded.loads = all_to_all ? fabric_.all_to_all_loads(channel.group, channel.rank)
                                : fabric_.ring_loads(channel.group, channel.rank);
    }
  }
  if (loaded.loads.empty() || bytes <= 0) {
    return false;
  }
  // The flow's rate is what each member sends, so that on a link that groups share their members
  // get the same; its own limit is those bytes over the time alone.
  const double rate_max = bytes / to_seconds(alone).value;
  uses_.clear();
  for (const Load& load : loaded.loads) {
    // What the collective's own model claims beyond a link's rate (in-switch reduction, a faster
    // algorithm than the ring) is what the link carries when all of it is in use. A degraded link
    // keeps the claim on the sound one.
    const double sound =
        fabric_.links()[static_cast<std::uint32_t>(load.link)].sound_capacity.value;
    const double use = std::min(load.share, sound * kWholeLink / rate_max);
    uses_.push_back({load.link, use});
  }
  flows_.start(uses_, bytes, channel.first + place, now, rate_max, alone);
  return true;
}

void StepRun::end_transfer(std::uint32_t transfer, SimTime now) {
  const Channel& channel = meetings_.channels[channel_of_[transfer]];
  const std::uint32_t place = transfer - channel.first;
  for (const Participant& participant : channel.participants) {
    ActorState& state = actors_[participant.actor];
    const RolePlan& plan = plan_of(participant.actor);
    const RoleOp& op = plan.ops[plan.slots[participant.slot].ops[place]];
    end_activity(state, op.activity, now);
    --state.communicating;
    const bool slows = options_.compute_slowdown > 0 && !channel.message && op.meets > 0;
    if (slows && --state.collectives == 0) {
      change_speed(participant.actor, now, false);
    }
  }
  for (const Participant& participant : channel.participants) {
    end_op(participant.actor, plan_of(participant.actor).slots[participant.slot].ops[place], now);
  }
}

std::string StepRun::what_it_waits_for(std::uint32_t actor, std::uint32_t at) const {
  const RolePlan& plan = plan_of(actor);
  const Program& role = program_.roles[index_of(grid_.actors()[actor].role)];
  const auto ended = [&](std::uint32_t who, std::uint32_t op) {
    return holds_[actors_[who].first_op + op] == kEnded;
  };
  std::string text;
  if (holds_[actors_[actor].first_op + at] > 0) {
    const IndexRange waits = role.ops[at].waits;
    for (std::uint32_t w = waits.first; w < waits.first + waits.count; ++w) {
      if (!ended(actor, index_of(role.waits[w]))) {
        text += (text.empty() ? "" : ", ") + op_label(role, role.ops[index_of(role.waits[w])]);
      }
    }
    return text;
  }
  const RoleOp& op = plan.ops[at];
  const Channel& channel = meetings_.channels[meetings_.channel_of[actor][op.slot]];
  if (arrived_[channel.first + op.place] == channel.participants.size()) {
    return "a link without bandwidth";
  }
  for (const Participant& participant : channel.participants) {
    const Actor& other = grid_.actors()[participant.actor];
    const Slot* slot =
        participant.slot == kNone ? nullptr : &plan_of(participant.actor).slots[participant.slot];
    const bool has = slot != nullptr && op.place < slot->ops.size();
    if (has && holds_[actors_[participant.actor].first_op + slot->ops[op.place]] == 0) {
      continue;  // it is there
    }
    const Program& theirs = program_.roles[index_of(other.role)];
    text += text.empty() ? "" : ", ";
    text += has ? fmt::format("rank {}'s {} {}", index_of(other.rank),
                              kind_name(theirs.ops[slot->ops[op.place]].kind),
                              op_label(theirs, theirs.ops[slot->ops[op.place]]))
                : fmt::format("rank {}, which has no such op", index_of(other.rank));
  }
  return text;
}

// One line for each stream of the actor that stands still: the first op on it that has not ended.
void StepRun::describe_blocked(std::uint32_t actor, std::string& text) const {
  const Program& role = program_.roles[index_of(grid_.actors()[actor].role)];
  std::vector<bool> seen(role.streams.size(), false);
  for (std::uint32_t op = 0; op < role.ops.size(); ++op) {
    const auto stream = static_cast<std::size_t>(index_of(role.ops[op].stream));
    if (seen[stream] || holds_[actors_[actor].first_op + op] == kEnded) {
      continue;
    }
    seen[stream] = true;
    text += fmt::format("rank {} (stage {}), stream {}: {} {} (op {}) waits for {}\n",
                        index_of(grid_.actors()[actor].rank), index_of(grid_.actors()[actor].role),
                        role.streams[stream], kind_name(role.ops[op].kind),
                        op_label(role, role.ops[op]), op, what_it_waits_for(actor, op));
  }
}

std::string StepRun::deadlock() const {
  std::string text;
  for (std::uint32_t a = 0; a < actors_.size(); ++a) {
    if (actors_[a].done < plan_of(a).ops.size()) {
      describe_blocked(a, text);
    }
  }
  return text;
}

}  // namespace trireme::sim
