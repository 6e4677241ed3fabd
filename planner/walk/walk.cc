#include "planner/walk/walk.h"

#include <algorithm>

#include "core/check.h"
#include "core/rendezvous.h"
#include "core/step_order.h"

namespace trireme::planner {
namespace {

class Walker {
 public:
  Walker(const StepProgram& program, const StepTimes& times) : program_(program), times_(times) {
    for (std::size_t r = 0; r < program.roles.size(); ++r) {
      const Program& role = program.roles[r];
      TRIREME_CHECK(times.roles[r].size() == role.ops.size());
      timings_.emplace_back(role.ops.size());
      stream_free_.emplace_back(role.streams.size(), 0);
      std::int64_t issued = 0;
      for (std::size_t i = 0; i < role.ops.size(); ++i) {
        issued += times.roles[r][i].launch.value;
        timings_[r][i].ready.picoseconds = issued;
      }
    }
  }

  // All members of a meeting, or one op alone.
  void run(const RoleOp* begin, const RoleOp* end) {
    std::int64_t start = 0;
    std::int64_t duration = 0;
    for (const RoleOp* member = begin; member != end; ++member) {
      start = std::max(start, ready(*member));
      duration = std::max(
          duration, times_.roles[index_of(member->role)][index_of(member->op)].duration.value);
    }
    for (const RoleOp* member = begin; member != end; ++member) {
      const std::size_t r = index_of(member->role);
      OpTiming& timing = timings_[r][index_of(member->op)];
      timing.start.picoseconds = start;
      timing.end.picoseconds = start + duration;
      const StreamId stream = program_.roles[r].ops[index_of(member->op)].stream;
      stream_free_[r][index_of(stream)] = start + duration;
      last_end_ = std::max(last_end_, start + duration);
    }
  }

  Trace finish(const WalkOptions& options) {
    Trace trace;
    trace.source = "walk";
    trace.step_times.emplace_back(last_end_);
    for (std::size_t r = 0; r < program_.roles.size(); ++r) {
      trace.peak_memory.push_back(liveness(program_, program_.roles[r]).peak);
      if (!options.keep_timings) {
        continue;
      }
      for (std::size_t i = 0; i < timings_[r].size(); ++i) {
        OpTiming& timing = timings_[r][i];
        timing.role = static_cast<RoleIndex>(r);
        timing.rank = first_rank(program_, timing.role);
        timing.op = static_cast<OpId>(i);
        trace.timings.push_back(timing);
      }
    }
    return trace;
  }

 private:
  // Issued, its stream free, its waits over. Records it.
  std::int64_t ready(const RoleOp& where) {
    const std::size_t r = index_of(where.role);
    const Program& role = program_.roles[r];
    const Op& op = role.ops[index_of(where.op)];
    OpTiming& timing = timings_[r][index_of(where.op)];
    std::int64_t time = std::max(timing.ready.picoseconds, stream_free_[r][index_of(op.stream)]);
    for (std::uint32_t i = op.waits.first; i < op.waits.first + op.waits.count; ++i) {
      time = std::max(time, timings_[r][index_of(role.waits[i])].end.picoseconds);
    }
    timing.ready.picoseconds = time;
    return time;
  }

  const StepProgram& program_;
  const StepTimes& times_;
  std::vector<std::vector<OpTiming>> timings_;  // ready holds the issue time until the op runs
  std::vector<std::vector<std::int64_t>> stream_free_;  // by role, stream
  std::int64_t last_end_ = 0;
};

}  // namespace

Trace walk(const StepProgram& program, const StepTimes& times, const WalkOptions& options) {
  Walker walker(program, times);
  const Rendezvous rendezvous = match_ops(program);
  const bool complete = visit_in_order(
      program, rendezvous, [&](const RoleOp* begin, const RoleOp* end) { walker.run(begin, end); });
  TRIREME_CHECK(complete);
  return walker.finish(options);
}

}  // namespace trireme::planner
