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

// The state of one such visit: what of every role is done, and which roles may go on.
template <typename Visit>
class OrderedVisit {
 public:
  OrderedVisit(const StepProgram& program, const Rendezvous& rendezvous, Visit& visit)
      : program_(program),
        rendezvous_(rendezvous),
        visit_(visit),
        states_(program.roles.size()),
        arrived_(rendezvous.meetings.size(), 0) {
    for (std::uint32_t r = 0; r < states_.size(); ++r) {
      const Program& role = program.roles[r];
      states_[r].streams = ops_by_stream(role);
      states_[r].next.assign(states_[r].streams.size(), 0);
      states_[r].done.assign(role.ops.size(), false);
      states_[r].has_arrived.assign(role.ops.size(), false);
      queue_.push_back(static_cast<std::uint32_t>(states_.size()) - 1 - r);
    }
  }

  void run() {
    while (!queue_.empty()) {
      const std::uint32_t r = queue_.back();
      queue_.pop_back();
      states_[r].queued = false;
      bool moved = true;
      while (moved) {
        moved = false;
        for (std::size_t s = 0; s < states_[r].streams.size(); ++s) {
          while (try_head(r, s)) {
            moved = true;
          }
        }
      }
    }
  }

  // The first op that was not visited of each stream that has one.
  [[nodiscard]] std::vector<RoleOp> blocked() const {
    std::vector<RoleOp> heads;
    for (std::uint32_t r = 0; r < states_.size(); ++r) {
      const RoleState& state = states_[r];
      for (std::size_t s = 0; s < state.streams.size(); ++s) {
        if (state.next[s] < state.streams[s].size()) {
          heads.push_back({static_cast<RoleIndex>(r), state.streams[s][state.next[s]]});
        }
      }
    }
    return heads;
  }

 private:
  struct RoleState {
    std::vector<std::vector<OpId>> streams;
    std::vector<std::size_t> next;
    std::vector<bool> done, has_arrived;
    bool queued = true;
  };

  [[nodiscard]] bool ready(std::uint32_t r, OpId id) const {
    const Program& role = program_.roles[r];
    const IndexRange waits = role.ops[index_of(id)].waits;
    for (std::uint32_t i = waits.first; i < waits.first + waits.count; ++i) {
      if (!states_[r].done[index_of(role.waits[i])]) {
        return false;
      }
    }
    return true;
  }

  void finish(const RoleOp& where) {
    RoleState& state = states_[index_of(where.role)];
    state.done[index_of(where.op)] = true;
    ++state.next[index_of(program_.roles[index_of(where.role)].ops[index_of(where.op)].stream)];
  }

  // Runs the op at the head of a stream when it can; true when something moved.
  bool try_head(std::uint32_t r, std::size_t s) {
    RoleState& state = states_[r];
    if (state.next[s] == state.streams[s].size()) {
      return false;
    }
    const OpId id = state.streams[s][state.next[s]];
    if (state.has_arrived[index_of(id)] || !ready(r, id)) {
      return false;
    }
    const RoleOp where{static_cast<RoleIndex>(r), id};
    const std::uint32_t meeting = rendezvous_.of_op[r][index_of(id)];
    if (meeting == kNoRendezvous) {
      visit_(&where, &where + 1);
      finish(where);
      return true;
    }
    state.has_arrived[index_of(id)] = true;
    const std::vector<RoleOp>& members = rendezvous_.meetings[meeting];
    if (++arrived_[meeting] < members.size()) {
      return false;
    }
    visit_(members.data(), members.data() + members.size());
    for (const RoleOp& member : members) {
      finish(member);
      const std::uint32_t other = index_of(member.role);
      if (other != r && !states_[other].queued) {
        states_[other].queued = true;
        queue_.push_back(other);
      }
    }
    return true;
  }

  const StepProgram& program_;
  const Rendezvous& rendezvous_;
  Visit& visit_;
  std::vector<RoleState> states_;
  std::vector<std::uint32_t> queue_;
  std::vector<std::uint32_t> arrived_;  // members of each meeting
};

// `visit(first, last)`, a range of RoleOp, is called once an op, or once a meeting. Returns false
// when some ops can never run; `stuck` is then the first op of each stream that is blocked. Cost: a
// few passes over the ops.
template <typename Visit>
bool visit_in_order(const StepProgram& program, const Rendezvous& rendezvous, Visit&& visit,
                    std::vector<RoleOp>* stuck = nullptr) {
  OrderedVisit order(program, rendezvous, visit);
  order.run();
  const std::vector<RoleOp> blocked = order.blocked();
  const bool complete = blocked.empty();
  if (stuck != nullptr) {
    stuck->insert(stuck->end(), blocked.begin(), blocked.end());
  }
  return complete;
}

}  // namespace trireme
