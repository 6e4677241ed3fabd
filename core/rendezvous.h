// Which ops of different roles happen together: a send with its receive, and a collective whose
// group spans roles. Ranks are folded: one rank stands for its role, since groups and messages
// treat all ranks of a role alike.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/program.h"

namespace trireme {

struct RoleOp {
  RoleIndex role{};
  OpId op{};
  friend bool operator==(const RoleOp&, const RoleOp&) = default;
};
inline constexpr std::uint32_t kNoRendezvous = 0xffffffffU;

struct Rendezvous {
  std::vector<std::vector<RoleOp>> meetings;      // members of each; the sender first
  std::vector<std::vector<std::uint32_t>> of_op;  // by role, then op: its meeting or kNoRendezvous
  std::vector<std::string> problems;              // what does not match, in words
};
Rendezvous match_ops(const StepProgram& program);

// Roles that take part in the group of a rank of `role`, in group order, without repeats.
std::vector<RoleIndex> roles_of_group(const StepProgram& program, GroupId group, RoleIndex role);
// The lowest rank of a role.
Rank first_rank(const StepProgram& program, RoleIndex role);
// The group of a collective op; kNoGroup for the other kinds.
GroupId group_of(const OpKind& kind);

}  // namespace trireme
