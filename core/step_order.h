// Visits the ops of all roles in an order in which each comes after what it waits for: the order of
// its stream, its waits, and for a meeting (core/rendezvous.h) all its members together. Verify
// runs it untimed, walk with times.
#pragma once

#include <cstdint>
#include <vector>

#include "core/program.h"
#include "core/rendezvous.h"

namespace trireme {

// Ops of each stream of a role, in issue order.
std::vector<std::vector<OpId>> ops_by_stream(const Program& role);

// `visit(span<const RoleOp>)` is called once an op, or once a meeting. Returns false when some ops
// can never run; `stuck` is then the first op of each stream that is blocked. Cost: a few passes
// over the ops.
template <typename Visit>
bool visit_in_order(const StepProgram& program, const Rendezvous& rendezvous, Visit&& visit,
                    std::vector<RoleOp>* stuck = nullptr) {
  struct RoleState {
    std::vector<std::vector<OpId>> streams;
    std::vector<std::size_t> next;
    std::vector<bool> done;
    bool queued = true;
  };
  std::vector<RoleState> states(program.roles.size());
  std::vector<std::uint32_t> queue;
  std::vector<std::uint32_t> arrived(rendezvous.meetings.size(), 0);
  std::vector<std::vector<bool>> has_arrived(program.roles.size());
  for (std::uint32_t r = 0; r < states.size(); ++r) {
    states[r].streams = ops_by_stream(program.roles[r]);
    states[r].next.assign(states[r].streams.size(), 0);
    states[r].done.assign(program.roles[r].ops.size(), false);
    has_arrived[r].assign(program.roles[r].ops.size(), false);
    queue.push_back(static_cast<std::uint32_t>(states.size()) - 1 - r);
  }
  const auto ready = [&](std::uint32_t r, OpId id) {
    const Program& role = program.roles[r];
    const IndexRange waits = role.ops[index_of(id)].waits;
    for (std::uint32_t i = waits.first; i < waits.first + waits.count; ++i) {
      if (!states[r].done[index_of(role.waits[i])]) {
        return false;
      }
    }
    return true;
  };
  const auto finish = [&](const RoleOp& where) {
    RoleState& state = states[index_of(where.role)];
    state.done[index_of(where.op)] = true;
    ++state.next[index_of(program.roles[index_of(where.role)].ops[index_of(where.op)].stream)];
  };
  // Runs the op at the head of a stream when it can; true when something moved.
  const auto try_head = [&](std::uint32_t r, std::size_t s) {
    RoleState& state = states[r];
    if (state.next[s] == state.streams[s].size()) {
      return false;
    }
    const OpId id = state.streams[s][state.next[s]];
    if (has_arrived[r][index_of(id)] || !ready(r, id)) {
      return false;
    }
    const RoleOp where{static_cast<RoleIndex>(r), id};
    const std::uint32_t meeting = rendezvous.of_op[r][index_of(id)];
    if (meeting == kNoRendezvous) {
      visit(&where, &where + 1);
      finish(where);
      return true;
    }
    has_arrived[r][index_of(id)] = true;
    const std::vector<RoleOp>& members = rendezvous.meetings[meeting];
    if (++arrived[meeting] < members.size()) {
      return false;
    }
    visit(members.data(), members.data() + members.size());
    for (const RoleOp& member : members) {
      finish(member);
      const std::uint32_t other = index_of(member.role);
      if (other != r && !states[other].queued) {
        states[other].queued = true;
        queue.push_back(other);
      }
    }
    return true;
  };
  while (!queue.empty()) {
    const std::uint32_t r = queue.back();
    queue.pop_back();
    states[r].queued = false;
    bool moved = true;
    while (moved) {
      moved = false;
      for (std::size_t s = 0; s < states[r].streams.size(); ++s) {
        while (try_head(r, s)) {
          moved = true;
        }
      }
    }
  }
  bool complete = true;
  for (std::uint32_t r = 0; r < states.size(); ++r) {
    for (std::size_t s = 0; s < states[r].streams.size(); ++s) {
      if (states[r].next[s] < states[r].streams[s].size()) {
        complete = false;
        if (stuck != nullptr) {
          stuck->push_back({static_cast<RoleIndex>(r), states[r].streams[s][states[r].next[s]]});
        }
      }
    }
  }
  return complete;
}

}  // namespace trireme
