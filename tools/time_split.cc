#include "tools/time_split.h"

#include <algorithm>
#include <array>
#include <utility>

namespace trireme::tools {
namespace {

struct Edge {
  double at = 0;
  int change = 0;  // +1 begins, -1 ends
  std::size_t part = 0;
};

// Parts in the order in which an instant is given away; the last is left over.
constexpr std::array<const char*, 13> kParts = {
    "compute",         "optimizer",     "other compute", "tensor_parallel", "context_parallel",
    "expert_parallel", "data_parallel", "pipeline_p2p",  "optimizer",       "other",
    "pipeline_bubble", "skew",          "unattributed"};
constexpr std::size_t kOtherCompute = 2, kCommunication = 3, kOther = 9, kBubble = 10, kSkew = 11,
                      kUnattributed = 12;

std::size_t part_of(const TimedOp& op) {
  const std::size_t first = op.computes ? 0 : kCommunication;
  const std::size_t last = op.computes ? kOtherCompute : kOther;
  for (std::size_t part = first; part < last; ++part) {
    if (op.category == kParts[part]) {
      return part;
    }
  }
  return last;
}

// Gives every instant from 0 to `step` to the first part that has something open.
void sweep(std::vector<Edge>& edges, double step, std::array<double, kParts.size()>& seconds) {
  std::sort(edges.begin(), edges.end(), [](const Edge& a, const Edge& b) { return a.at < b.at; });
  std::array<int, kParts.size()> open{};
  open[kUnattributed] = 1;
  double from = 0;
  const auto give = [&](double to) {
    const auto part = std::find_if(open.begin(), open.end(), [](int count) { return count > 0; });
    seconds[static_cast<std::size_t>(part - open.begin())] += std::max(0.0, to - from);
    from = std::max(from, to);
  };
  for (const Edge& edge : edges) {
    give(std::min(edge.at, step));
    open[edge.part] += edge.change;
  }
  give(step);
}

}  // namespace

TimeSplit split_time(const std::vector<TimedOp>& ops, const std::vector<double>& step_seconds) {
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::vector<Edge>> by_rank;
  for (const TimedOp& op : ops) {
    if (op.iteration >= step_seconds.size()) {
      continue;
    }
    std::vector<Edge>& edges = by_rank[{op.rank, op.iteration}];
    const std::size_t part = part_of(op);
    edges.push_back({op.start, 1, part});
    edges.push_back({op.end, -1, part});
    if (!op.computes && op.start > op.ready) {
      const std::size_t waits = op.category == "pipeline_p2p" ? kBubble : kSkew;
      edges.push_back({op.ready, 1, waits});
      edges.push_back({op.start, -1, waits});
    }
  }
  std::array<double, kParts.size()> seconds{};
  for (auto& [key, edges] : by_rank) {
    sweep(edges, step_seconds[key.second], seconds);
  }
  TimeSplit split;
  const double share = by_rank.empty() ? 0 : 1 / static_cast<double>(by_rank.size());
  for (std::size_t part = 0; part < kParts.size(); ++part) {
    const double mean = seconds[part] * share;
    split.seconds[part == kOtherCompute ? "other" : kParts[part]] += mean;
    split.step_seconds += mean;
    if (part >= kCommunication && part <= kOther) {
      split.exposed_communication += mean;
    }
  }
  return split;
}

TimeSplit split_time(const StepProgram& program, const Trace& trace) {
  const auto since_start = [](SimTime at) { return to_seconds(at - SimTime{}).value; };
  std::vector<TimedOp> ops;
  ops.reserve(trace.timings.size());
  for (const OpTiming& timing : trace.timings) {
    const trireme::Program& role = program.roles[index_of(timing.role)];
    const Op& op = role.ops[index_of(timing.op)];
    const bool computes =
        std::holds_alternative<Compute>(op.kind) || std::holds_alternative<Copy>(op.kind);
    ops.push_back({index_of(timing.rank), timing.iteration, category_of(program, role, op),
                   computes, since_start(timing.ready), since_start(timing.start),
                   since_start(timing.end)});
  }
  std::vector<double> steps;
  for (const SimDuration step : trace.step_times) {
    steps.push_back(to_seconds(step).value);
  }
  return split_time(ops, steps);
}

TimeSplit split_time(const TraceFile& file) {
  std::vector<TimedOp> ops;
  ops.reserve(file.events.size());
  for (const TraceEvent& event : file.events) {
    ops.push_back({event.rank, event.iteration, event.category,
                   event.kind == "compute" || event.kind == "copy", event.ready, event.start,
                   event.end});
  }
  return split_time(ops, file.step_seconds);
}

const std::vector<std::string>& time_split_names() {
  static const std::vector<std::string> names = {
      "compute",      "tensor_parallel", "context_parallel", "expert_parallel", "pipeline_bubble",
      "pipeline_p2p", "data_parallel",   "optimizer",        "other",           "skew",
      "unattributed"};
  return names;
}

}  // namespace trireme::tools
