#include "runtime/measured_trace.h"

#include <algorithm>

#include "core/check.h"
#include "core/rendezvous.h"

namespace trireme::runtime {
namespace {

// Ops that meet, by rank: op `op` of `rank` with the ranks and ops it needs.
class Partners {
 public:
  explicit Partners(const StepProgram& program)
      : program_(program), rendezvous_(match_ops(program)) {}

  // Visits (rank, op) of every other member of a collective or message.
  template <typename Visit>
  void each(Rank rank, RoleIndex role, OpId id, Visit visit) const {
    const Op& op = program_.roles[index_of(role)].ops[index_of(id)];
    const std::uint32_t meeting = rendezvous_.of_op[index_of(role)][index_of(id)];
    const std::int32_t* peer = peer_of(op.kind);
    if (peer != nullptr) {
      const auto other = static_cast<Rank>(static_cast<std::int64_t>(index_of(rank)) + *peer);
      visit(other, op_of(meeting, role_of(program_, other), id));
      return;
    }
    const GroupId group = group_of(op.kind);
    if (group == kNoGroup) {
      return;
    }
    for (const Rank other : members_of(program_, group, rank)) {
      if (other != rank) {
        visit(other, op_of(meeting, role_of(program_, other), id));
      }
    }
  }

 private:
  static const std::int32_t* peer_of(const OpKind& kind) {
    if (const auto* send = std::get_if<Send>(&kind)) {
      return &send->peer;
    }
    const auto* receive = std::get_if<Recv>(&kind);
    return receive != nullptr ? &receive->peer : nullptr;
  }
  // A role's op of a meeting; within one role all ranks meet in the same op.
  [[nodiscard]] OpId op_of(std::uint32_t meeting, RoleIndex role, OpId same) const {
    if (meeting != kNoRendezvous) {
      for (const RoleOp& member : rendezvous_.meetings[meeting]) {
        if (member.role == role) {
          return member.op;
        }
      }
    }
    return same;
  }

  const StepProgram& program_;
  Rendezvous rendezvous_;
};

// A communication is not under way before its last member is ready; a backend that sees its own
// rank only (CUDA's events) says when its own kernel started.
void separate_skew(const StepProgram& program, std::vector<OpTiming>& timings,
                   std::size_t iterations) {
  std::vector<std::size_t> first(static_cast<std::size_t>(program.ranks), timings.size());
  for (std::size_t i = timings.size(); i-- > 0;) {
    first[index_of(timings[i].rank)] = i;
  }
  const Partners partners(program);
  std::vector<SimTime> starts;
  starts.reserve(timings.size());
  for (const OpTiming& timing : timings) {
    SimTime start = timing.start;
    partners.each(timing.rank, timing.role, timing.op, [&](Rank rank, OpId op) {
      const std::size_t place =
          first[index_of(rank)] + index_of(op) * iterations + timing.iteration;
      TRIREME_CHECK(place < timings.size());
      start = std::max(start, timings[place].ready);
    });
    starts.push_back(std::min(start, timing.end));
  }
  for (std::size_t i = 0; i < timings.size(); ++i) {
    timings[i].start = starts[i];
  }
}

}  // namespace

Trace make_trace(const StepProgram& program, const std::vector<std::vector<StepResult>>& results,
                 const std::vector<MemoryUse>& memory) {
  Trace trace;
  trace.source = "execute";
  const std::size_t iterations = results.empty() ? 0 : results.front().size();
  for (std::size_t i = 0; i < iterations; ++i) {
    double end = 0;
    for (const auto& rank : results) {
      end = std::max(end, rank[i].began + rank[i].duration.value);
    }
    trace.step_times.push_back(to_sim_duration(Seconds(end - results.front()[i].began)));
  }
  for (std::uint32_t rank = 0; rank < results.size(); ++rank) {
    const RoleIndex role = role_of(program, Rank(rank));
    const std::size_t ops = program.roles[index_of(role)].ops.size();
    for (std::uint32_t op = 0; op < ops; ++op) {
      for (std::uint32_t i = 0; i < iterations; ++i) {
        const StepResult& result = results[rank][i];
        if (result.ops.empty()) {
          continue;
        }
        const double shift = result.began - results.front()[i].began;
        const auto point = [&](double seconds) {
          return SimTime{} + to_sim_duration(Seconds(seconds + shift));
        };
        const OpTimes& times = result.ops[op];
        trace.timings.push_back({Rank(rank), role, OpId(op), i, point(times.ready),
                                 point(times.start), point(times.end)});
      }
    }
  }
  const bool whole = std::ranges::none_of(results, [](const auto& rank) {
    return std::ranges::any_of(rank, [](const StepResult& step) { return step.ops.empty(); });
  });
  if (whole && iterations > 0 && static_cast<std::int64_t>(results.size()) == program.ranks) {
    separate_skew(program, trace.timings, iterations);
  }
  for (const MemoryUse& use : memory) {
    trace.peak_memory.push_back(use.allocated_peak);
  }
  return trace;
}

}  // namespace trireme::runtime
