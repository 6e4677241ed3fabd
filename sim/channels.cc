#include "sim/channels.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <variant>

#include "core/check.h"

namespace trireme::sim {
namespace {

// Where an op of this kind meets others, if it does.
struct SlotOf {
  using Kind = Slot::Kind;
  StreamId stream;

  bool operator()(const Compute&, Slot&) const { return false; }
  bool operator()(const Copy&, Slot&) const { return false; }
  bool operator()(const AllReduce& op, Slot& slot) const { return collective(op.group, slot); }
  bool operator()(const AllGather& op, Slot& slot) const { return collective(op.group, slot); }
  bool operator()(const ReduceScatter& op, Slot& slot) const { return collective(op.group, slot); }
  bool operator()(const AllToAll& op, Slot& slot) const { return collective(op.group, slot); }
  bool operator()(const Broadcast& op, Slot& slot) const { return collective(op.group, slot); }
  bool operator()(const Shift& op, Slot& slot) const { return collective(op.group, slot); }
  bool operator()(const Send& op, Slot& slot) const {
    return message(Kind::kSend, op.peer, op.channel, slot);
  }
  bool operator()(const Recv& op, Slot& slot) const {
    return message(Kind::kRecv, op.peer, op.channel, slot);
  }

  bool collective(GroupId group, Slot& slot) const {
    slot.kind = Kind::kCollective;
    slot.group = group;
    slot.stream = stream;
    return true;
  }
  static bool message(Kind kind, std::int32_t peer, std::uint16_t channel, Slot& slot) {
    slot.kind = kind;
    slot.peer = peer;
    slot.channel = channel;
    return true;
  }
};

void add_to_slot(RolePlan& plan, std::uint32_t at, const Slot& slot,
                 std::map<std::tuple<int, std::uint32_t, int, int, int>, std::uint32_t>& slots) {
  const auto key =
      std::tuple(static_cast<int>(slot.kind), index_of(slot.group),
                 static_cast<int>(index_of(slot.stream)), int{slot.peer}, int{slot.channel});
  const auto [found, fresh] = slots.emplace(key, static_cast<std::uint32_t>(plan.slots.size()));
  if (fresh) {
    plan.slots.push_back(slot);
  }
  RoleOp& op = plan.ops[at];
  op.slot = found->second;
  op.place = static_cast<std::uint32_t>(plan.slots[found->second].ops.size());
  plan.slots[found->second].ops.push_back(at);
}

Activity activity_of(const StepProgram& program, const Op& op) {
  const bool computes =
      std::holds_alternative<Compute>(op.kind) || std::holds_alternative<Copy>(op.kind);
  if (op.origin.phase == Phase::kOptimizer) {
    return computes ? Activity::kOptimizer : Activity::kOptimizerExchange;
  }
  if (computes) {
    return Activity::kCompute;
  }
  Slot slot;
  std::visit([&](const auto& kind) { return SlotOf{op.stream}(kind, slot); }, op.kind);
  if (slot.kind != Slot::Kind::kCollective) {
    return Activity::kPipeline;
  }
  if (op.origin.phase == Phase::kParameterGather || op.origin.phase == Phase::kGradientReduce) {
    return Activity::kData;
  }
  const std::string name =
      slot.group == kNoGroup ? std::string() : program.groups[index_of(slot.group)].name;
  return name == "tensor"    ? Activity::kTensor
         : name == "context" ? Activity::kContext
         : name == "expert"  ? Activity::kExpert
                             : Activity::kOther;
}

RolePlan digest(const StepProgram& program, const Program& role, const std::vector<OpTime>& times) {
  TRIREME_CHECK(times.size() == role.ops.size());
  RolePlan plan;
  plan.ops.resize(role.ops.size());
  std::vector<std::uint32_t> last_on(role.streams.size(), kNone);
  std::map<std::tuple<int, std::uint32_t, int, int, int>, std::uint32_t> slots;
  std::int64_t issued = 0;
  for (std::uint32_t at = 0; at < role.ops.size(); ++at) {
    const Op& op = role.ops[at];
    RoleOp& mine = plan.ops[at];
    TRIREME_CHECK(times[at].duration.value >= 0);
    issued += times[at].launch.value;
    mine.duration = times[at].duration.value;
    mine.issued = issued;
    if (times[at].apart.value > 0) {
      mine.meets = 1 - static_cast<float>(times[at].apart.value) /
                           static_cast<float>(times[at].duration.value);
    }
    mine.activity = activity_of(program, op);
    mine.holds = op.waits.count;
    std::uint32_t& last = last_on[index_of(op.stream)];
    if (last != kNone) {
      plan.ops[last].next = at;
      ++mine.holds;
    }
    last = at;
    for (std::uint32_t w = op.waits.first; w < op.waits.first + op.waits.count; ++w) {
      ++plan.ops[index_of(role.waits[w])].dependents.count;
    }
    Slot slot;
    if (std::visit([&](const auto& kind) { return SlotOf{op.stream}(kind, slot); }, op.kind)) {
      add_to_slot(plan, at, slot, slots);
    }
  }
  std::uint32_t first = 0;
  for (RoleOp& op : plan.ops) {
    op.dependents.first = first;
    first += op.dependents.count;
    op.dependents.count = 0;
  }
  plan.dependents.resize(first);
  for (std::uint32_t at = 0; at < role.ops.size(); ++at) {
    const IndexRange waits = role.ops[at].waits;
    for (std::uint32_t w = waits.first; w < waits.first + waits.count; ++w) {
      RoleOp& before = plan.ops[index_of(role.waits[w])];
      plan.dependents[before.dependents.first + before.dependents.count++] = at;
    }
  }
  return plan;
}

// The slot of a role that meets `wanted`, kNone when the role has none (the other side then waits
// for ever).
std::uint32_t find_slot(const RolePlan& plan, const Slot& wanted) {
  for (std::uint32_t i = 0; i < plan.slots.size(); ++i) {
    const Slot& slot = plan.slots[i];
    if (slot.kind == wanted.kind && slot.group == wanted.group && slot.stream == wanted.stream &&
        slot.peer == wanted.peer && slot.channel == wanted.channel) {
      return i;
    }
  }
  return kNone;
}

class MeetingFinder {
 public:
  MeetingFinder(const StepProgram& program, const ActorGrid& grid,
                const std::vector<RolePlan>& roles)
      : program_(program), grid_(grid), roles_(roles) {}

  Meetings find() {
    const std::vector<Actor>& actors = grid_.actors();
    for (const Actor& actor : actors) {
      found_.channel_of.emplace_back(roles_[index_of(actor.role)].slots.size(), kNone);
    }
    for (std::uint32_t a = 0; a < actors.size(); ++a) {
      const RolePlan& plan = roles_[index_of(actors[a].role)];
      for (std::uint32_t s = 0; s < plan.slots.size(); ++s) {
        if (found_.channel_of[a][s] == kNone) {
          open(a, s, plan.slots[s]);
        }
      }
    }
    return std::move(found_);
  }

 private:
  void open(std::uint32_t actor, std::uint32_t at, const Slot& slot) {
    const Rank rank = grid_.actors()[actor].rank;
    Channel channel;
    channel.rank = rank;
    if (slot.kind == Slot::Kind::kCollective) {
      channel.group = slot.group;
      std::vector<std::uint32_t> members;
      for (const Rank member : members_of(program_, slot.group, rank)) {
        members.push_back(grid_.actor_of(member));
      }
      std::sort(members.begin(), members.end());
      members.erase(std::unique(members.begin(), members.end()), members.end());
      for (const std::uint32_t member : members) {
        join(channel, member, member == actor ? at : find_slot(plan_of(member), slot));
      }
    } else {
      channel.message = true;
      const bool sends = slot.kind == Slot::Kind::kSend;
      const std::int64_t other_rank = std::int64_t{index_of(rank)} + slot.peer;
      TRIREME_CHECK(other_rank >= 0 && other_rank < program_.ranks);
      const std::uint32_t other = grid_.actor_of(static_cast<Rank>(other_rank));
      Slot opposite = slot;
      opposite.kind = sends ? Slot::Kind::kRecv : Slot::Kind::kSend;
      opposite.peer = -slot.peer;
      const std::uint32_t other_slot = find_slot(plan_of(other), opposite);
      channel.rank = sends ? rank : static_cast<Rank>(other_rank);
      channel.peer = sends ? static_cast<Rank>(other_rank) : rank;
      join(channel, sends ? actor : other, sends ? at : other_slot);
      join(channel, sends ? other : actor, sends ? other_slot : at);
    }
    channel.first = found_.transfers;
    found_.transfers += channel.count;
    for (const Participant& participant : channel.participants) {
      if (participant.slot != kNone) {
        found_.channel_of[participant.actor][participant.slot] =
            static_cast<std::uint32_t>(found_.channels.size());
      }
    }
    found_.channels.push_back(std::move(channel));
  }

  [[nodiscard]] const RolePlan& plan_of(std::uint32_t actor) const {
    return roles_[index_of(grid_.actors()[actor].role)];
  }

  void join(Channel& channel, std::uint32_t actor, std::uint32_t slot) const {
    channel.participants.push_back({actor, slot});
    if (slot != kNone) {
      const auto ops = static_cast<std::uint32_t>(plan_of(actor).slots[slot].ops.size());
      channel.count = std::max(channel.count, ops);
    }
  }

  const StepProgram& program_;
  const ActorGrid& grid_;
  const std::vector<RolePlan>& roles_;
  Meetings found_;
};

}  // namespace

std::vector<RolePlan> digest(const StepProgram& program, const StepTimes& times) {
  TRIREME_CHECK(times.roles.size() == program.roles.size());
  std::vector<RolePlan> plans;
  for (std::size_t r = 0; r < program.roles.size(); ++r) {
    plans.push_back(digest(program, program.roles[r], times.roles[r]));
  }
  return plans;
}

Meetings meetings(const StepProgram& program, const ActorGrid& grid,
                  const std::vector<RolePlan>& roles) {
  return MeetingFinder(program, grid, roles).find();
}

}  // namespace trireme::sim
