#include "core/rendezvous.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

namespace trireme {
namespace {

// Visits every op of every role.
template <typename Visit>
void for_each_op(const StepProgram& program, Visit visit) {
  for (std::uint32_t r = 0; r < program.roles.size(); ++r) {
    const std::vector<Op>& ops = program.roles[r].ops;
    for (std::uint32_t i = 0; i < ops.size(); ++i) {
      visit(RoleOp{static_cast<RoleIndex>(r), static_cast<OpId>(i)}, ops[i]);
    }
  }
}

const Op& op_at(const StepProgram& program, const RoleOp& where) {
  return program.roles[index_of(where.role)].ops[index_of(where.op)];
}

std::int64_t first_count(const StepProgram& program, const RoleOp& where) {
  const Program& role = program.roles[index_of(where.role)];
  const Op& op = op_at(program, where);
  return op.operands.count == 0 ? 0 : role.operands[op.operands.first].count;
}

std::string label(const StepProgram& program, const RoleOp& where) {
  const Program& role = program.roles[index_of(where.role)];
  return fmt::format("role {} op {} ({})", index_of(where.role), index_of(where.op),
                     op_label(role, op_at(program, where)));
}

struct Lane {  // sender, receiver, channel
  std::uint32_t from = 0, to = 0;
  std::uint16_t channel = 0;
  friend auto operator<=>(const Lane&, const Lane&) = default;
};
struct Traffic {
  std::vector<RoleOp> sends, recvs;
};

class Matcher {
 public:
  explicit Matcher(const StepProgram& program) : program_(program) {
    for (const Program& role : program.roles) {
      result_.of_op.emplace_back(role.ops.size(), kNoRendezvous);
    }
  }

  Rendezvous run() {
    for_each_op(program_, [this](const RoleOp& where, const Op& op) { collect(where, op); });
    for (const auto& [lane, traffic] : lanes_) {
      match_lane(lane, traffic);
    }
    for (const auto& [key, lists] : collectives_) {
      match_collectives(lists);
    }
    return std::move(result_);
  }

 private:
  void collect(const RoleOp& where, const Op& op) {
    if (const auto* send = std::get_if<Send>(&op.kind)) {
      const std::uint32_t to = other_role(where, send->peer);
      lanes_[{index_of(where.role), to, send->channel}].sends.push_back(where);
    } else if (const auto* recv = std::get_if<Recv>(&op.kind)) {
      const std::uint32_t from = other_role(where, recv->peer);
      lanes_[{from, index_of(where.role), recv->channel}].recvs.push_back(where);
    } else if (const GroupId group = group_of(op.kind); group != kNoGroup) {
      std::vector<RoleIndex>& roles = spans_[{index_of(group), index_of(where.role)}];
      if (roles.empty()) {
        roles = roles_of_group(program_, group, where.role);
      }
      if (roles.size() > 1) {
        collectives_[{index_of(group), index_of(roles.front())}][where.role].push_back(where);
      }
    }
  }

  std::uint32_t other_role(const RoleOp& where, std::int32_t peer) {
    const std::int64_t rank = index_of(first_rank(program_, where.role)) + std::int64_t{peer};
    if (rank < 0 || rank >= program_.ranks || peer == 0 || peer % program_.stages.stride != 0) {
      problem(
          fmt::format("{}: peer {} is not a rank of another stage", label(program_, where), peer));
      return index_of(where.role);
    }
    return index_of(role_of(program_, static_cast<Rank>(rank)));
  }

  void match_lane(const Lane& lane, const Traffic& traffic) {
    if (traffic.sends.size() != traffic.recvs.size()) {
      problem(fmt::format("role {} sends {} messages to role {} on channel {}, which receives {}",
                          lane.from, traffic.sends.size(), lane.to, lane.channel,
                          traffic.recvs.size()));
    }
    const std::size_t count = std::min(traffic.sends.size(), traffic.recvs.size());
    for (std::size_t i = 0; i < count; ++i) {
      const RoleOp& send = traffic.sends[i];
      const RoleOp& recv = traffic.recvs[i];
      const auto sent = std::get<Send>(op_at(program_, send).kind).tag;
      const auto received = std::get<Recv>(op_at(program_, recv).kind).tag;
      if (sent != received || first_count(program_, send) != first_count(program_, recv)) {
        problem(fmt::format("{} (tag {}) does not match {} (tag {})", label(program_, send), sent,
                            label(program_, recv), received));
      }
      meet({send, recv});
    }
  }

  void match_collectives(const std::map<RoleIndex, std::vector<RoleOp>>& lists) {
    const std::vector<RoleOp>& first = lists.begin()->second;
    const GroupId group = group_of(op_at(program_, first.front()).kind);
    const std::vector<RoleIndex> roles = roles_of_group(program_, group, lists.begin()->first);
    for (std::size_t i = 0; i < first.size(); ++i) {
      std::vector<RoleOp> members;
      for (const RoleIndex role : roles) {
        const auto found = lists.find(role);
        if (found == lists.end() || found->second.size() != first.size()) {
          problem(fmt::format("role {} issues not as many collectives of group {} as role {}",
                              index_of(role), program_.groups[index_of(group)].name,
                              index_of(lists.begin()->first)));
          return;
        }
        members.push_back(found->second[i]);
        const Op& a = op_at(program_, first[i]);
        const Op& b = op_at(program_, members.back());
        if (a.kind != b.kind ||
            first_count(program_, first[i]) != first_count(program_, members.back())) {
          problem(fmt::format("{} is not the same collective as {}",
                              label(program_, members.back()), label(program_, first[i])));
        }
      }
      meet(members);
    }
  }

  void meet(const std::vector<RoleOp>& members) {
    const auto index = static_cast<std::uint32_t>(result_.meetings.size());
    for (const RoleOp& member : members) {
      result_.of_op[index_of(member.role)][index_of(member.op)] = index;
    }
    result_.meetings.push_back(members);
  }

  void problem(std::string text) {
    if (result_.problems.size() < 20) {
      result_.problems.push_back(std::move(text));
    }
  }

  const StepProgram& program_;
  Rendezvous result_;
  std::map<Lane, Traffic> lanes_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::vector<RoleIndex>> spans_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::map<RoleIndex, std::vector<RoleOp>>>
      collectives_;
};

struct GroupOf {
  GroupId operator()(const AllReduce& op) const { return op.group; }
  GroupId operator()(const AllGather& op) const { return op.group; }
  GroupId operator()(const ReduceScatter& op) const { return op.group; }
  GroupId operator()(const AllToAll& op) const { return op.group; }
  GroupId operator()(const Broadcast& op) const { return op.group; }
  GroupId operator()(const Shift& op) const { return op.group; }
  GroupId operator()(const Compute&) const { return kNoGroup; }
  GroupId operator()(const Send&) const { return kNoGroup; }
  GroupId operator()(const Recv&) const { return kNoGroup; }
  GroupId operator()(const Copy&) const { return kNoGroup; }
};

}  // namespace

GroupId group_of(const OpKind& kind) {
  return std::visit(GroupOf{}, kind);
}

Rank first_rank(const StepProgram& program, RoleIndex role) {
  return static_cast<Rank>(index_of(role) * program.stages.stride);
}

std::vector<RoleIndex> roles_of_group(const StepProgram& program, GroupId group, RoleIndex role) {
  // Only axes that reach other stages change the role; a group has few of those.
  std::vector<RoleIndex> roles;
  const GroupAxis& stages = program.stages;
  std::vector<GroupAxis> crossing;
  for (const GroupAxis& axis : program.groups[index_of(group)].axes) {
    if (axis.stride % stages.stride == 0 && axis.stride < stages.period) {
      crossing.push_back(axis);
    } else if (stages.stride % axis.stride == 0 && axis.degree > stages.stride / axis.stride) {
      // Begins within a stage and goes on beyond it: all ranks in one axis.
      crossing.push_back({axis.degree / (stages.stride / axis.stride), stages.stride, axis.period});
    }
  }
  std::int64_t base = index_of(first_rank(program, role));
  for (const GroupAxis& axis : crossing) {
    base -= base % axis.period / axis.stride * axis.stride;
  }
  std::vector<std::int64_t> members = {base};
  for (const GroupAxis& axis : crossing) {
    const std::size_t before = members.size();
    for (std::int64_t i = 1; i < axis.degree; ++i) {
      for (std::size_t j = 0; j < before; ++j) {
        members.push_back(members[j] + i * axis.stride);
      }
    }
  }
  for (const std::int64_t member : members) {
    const RoleIndex found = role_of(program, static_cast<Rank>(member));
    if (std::find(roles.begin(), roles.end(), found) == roles.end()) {
      roles.push_back(found);
    }
  }
  return roles;
}

Rendezvous match_ops(const StepProgram& program) {
  return Matcher(program).run();
}

}  // namespace trireme
