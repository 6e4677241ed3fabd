#include "sim/blame.h"

#include <algorithm>
#include <limits>
#include <span>
#include <string>

#include "core/check.h"

namespace trireme::sim {
namespace {

constexpr std::uint32_t kNoOne = std::numeric_limits<std::uint32_t>::max();

bool is_compute(const Op& op) {
  return std::holds_alternative<Compute>(op.kind) || std::holds_alternative<Copy>(op.kind);
}

bool is_message(const Op& op) {
  return std::holds_alternative<Send>(op.kind) || std::holds_alternative<Recv>(op.kind);
}

Blame blame_of(const StepProgram& program, const Op& op) {
  const Phase phase = op.origin.phase;
  if (phase == Phase::kOptimizer) {
    return Blame::kOptimizer;
  }
  if (phase == Phase::kParameterGather || phase == Phase::kGradientReduce) {
    return Blame::kData;
  }
  if (is_compute(op)) {
    return Blame::kCompute;
  }
  if (is_message(op)) {
    return Blame::kExchange;
  }
  const GroupId group = std::visit(
      [](const auto& kind) {
        if constexpr (requires { kind.group; }) {
          return kind.group;
        } else {
          return kNoGroup;
        }
      },
      op.kind);
  const std::string name = group == kNoGroup ? std::string() : program.groups[index_of(group)].name;
  return name == "context" ? Blame::kContext : name == "expert" ? Blame::kExpert : Blame::kTensor;
}

// One rank's blame: goes through its compute stream and, for each gap, back along what the next op
// waited for until the gap is told.
class RankStory {
 public:
  RankStory(const StepProgram& program, const Program& role, std::span<const OpTime> times,
            std::span<const OpTiming> timings)
      : program_(program), role_(role), times_(times), timings_(timings) {
    before_.reserve(role.ops.size());
    std::vector<std::uint32_t> last(role.streams.size(), kNoOne);
    for (std::uint32_t at = 0; at < role.ops.size(); ++at) {
      std::uint32_t& previous = last[index_of(role.ops[at].stream)];
      before_.push_back(previous);
      previous = at;
    }
  }

  RankBlame tell(SimDuration step) {
    blame_ = {timings_.front().rank, timings_.front().role, {}};
    SimTime told{};
    std::uint32_t last = 0;
    for (std::uint32_t at = 0; at < role_.ops.size(); ++at) {
      last = timings_[at].end > timings_[last].end ? at : last;
      if (index_of(role_.ops[at].stream) != 0) {
        continue;
      }
      explain_wait(at, told, timings_[at].start);
      explain_run(at, timings_[at].start, timings_[at].end);
      told = timings_[at].end;
    }
    // After the compute stream: the rank's last communication, then the other ranks.
    if (timings_[last].end > told) {
      explain_end(last, told, timings_[last].end);
      told = timings_[last].end;
    }
    add(Blame::kPeer, told, SimTime{} + step);
    return blame_;
  }

 private:
  void add(Blame blame, SimTime from, SimTime to) {
    if (to > from) {
      blame_.spent[static_cast<std::size_t>(blame)] += to - from;
    }
  }

  // [from, to) lies in the run of op `at`; it may have run longer than alone.
  void explain_run(std::uint32_t at, SimTime from, SimTime to) {
    if (to <= from) {
      return;
    }
    const Op& op = role_.ops[at];
    const SimTime alone = std::min(timings_[at].end, timings_[at].start + times_[at].duration);
    add(blame_of(program_, op), from, std::min(to, alone));
    add(is_compute(op) ? Blame::kInterference : Blame::kContention, std::max(from, alone), to);
  }

  // [from, to) ends with the end of op `at`: its run, and before it what it waited for.
  void explain_end(std::uint32_t at, SimTime from, SimTime to) {
    const SimTime start = std::max(from, timings_[at].start);
    explain_run(at, start, to);
    explain_wait(at, from, start);
  }

  // Before `to` op `at` had not started: its peers were not ready, or it was not.
  void explain_wait(std::uint32_t at, SimTime from, SimTime to) {
    while (to > from) {
      const SimTime ready = std::max(from, timings_[at].ready);
      if (to > ready) {
        add(Blame::kPeer, ready, to);
        to = ready;
        continue;
      }
      // The latest of what it waited for in this rank.
      std::uint32_t culprit = kNoOne;
      const auto consider = [&](std::uint32_t other) {
        const bool ends_here = timings_[other].end <= to;
        if (ends_here && (culprit == kNoOne || timings_[other].end > timings_[culprit].end)) {
          culprit = other;
        }
      };
      if (before_[at] != kNoOne) {
        consider(before_[at]);
      }
      const IndexRange waits = role_.ops[at].waits;
      for (std::uint32_t w = waits.first; w < waits.first + waits.count; ++w) {
        consider(index_of(role_.waits[w]));
      }
      const SimTime ended = culprit == kNoOne ? SimTime{} : timings_[culprit].end;
      if (ended < to) {
        add(Blame::kHost, std::max(from, ended), to);
        to = std::max(from, ended);
        continue;
      }
      const SimTime start = std::max(from, timings_[culprit].start);
      explain_run(culprit, start, to);
      to = start;
      at = culprit;
    }
  }

  const StepProgram& program_;
  const Program& role_;
  std::span<const OpTime> times_;
  std::span<const OpTiming> timings_;
  std::vector<std::uint32_t> before_;  // by op: the one before it on its stream
  RankBlame blame_;
};

}  // namespace

std::string_view to_string(Blame blame) {
  switch (blame) {
    case Blame::kCompute:
      return "compute";
    case Blame::kOptimizer:
      return "optimizer";
    case Blame::kInterference:
      return "interference";
    case Blame::kTensor:
      return "tensor_parallel";
    case Blame::kContext:
      return "context_parallel";
    case Blame::kExpert:
      return "expert_parallel";
    case Blame::kData:
      return "data_parallel";
    case Blame::kExchange:
      return "pipeline_p2p";
    case Blame::kPeer:
      return "peer";
    case Blame::kContention:
      return "contention";
    case Blame::kHost:
      return "host";
  }
  return "";
}

std::vector<RankBlame> blame_of(const StepProgram& program, const StepTimes& times,
                                const Trace& trace) {
  std::vector<RankBlame> all;
  const std::span<const OpTiming> timings = trace.timings;
  for (std::size_t at = 0; at < timings.size();) {
    const std::uint32_t role = index_of(timings[at].role);
    const std::size_t count = program.roles[role].ops.size();
    TRIREME_CHECK(at + count <= timings.size());
    RankStory story(program, program.roles[role], times.roles[role], timings.subspan(at, count));
    all.push_back(story.tell(trace.step_times.front()));
    at += count;
  }
  return all;
}

}  // namespace trireme::sim
