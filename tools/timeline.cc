#include "tools/timeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

#include "tools/table.h"

namespace trireme::tools {
namespace {

constexpr std::array<Paint, 7> kPaints = {
    Paint::kIdle,      Paint::kForward,   Paint::kBackward, Paint::kWeightGradient,
    Paint::kRecompute, Paint::kOptimizer, Paint::kExchange};

Paint paint_of(const Op& op) {
  const bool computes =
      std::holds_alternative<Compute>(op.kind) || std::holds_alternative<Copy>(op.kind);
  if (!computes) {
    return Paint::kExchange;
  }
  switch (op.origin.phase) {
    case Phase::kForward:
      return Paint::kForward;
    case Phase::kRecompute:
      return Paint::kRecompute;
    case Phase::kBackward:
      return Paint::kBackward;
    case Phase::kWeightGradient:
      return Paint::kWeightGradient;
    case Phase::kOptimizer:
    case Phase::kParameterGather:
    case Phase::kGradientReduce:
      return Paint::kOptimizer;
  }
  return Paint::kIdle;
}

const char* colour_of(Paint paint) {
  switch (paint) {
    case Paint::kIdle:
      return "\x1b[90m";
    case Paint::kForward:
      return "\x1b[34m";
    case Paint::kBackward:
      return "\x1b[32m";
    case Paint::kWeightGradient:
      return "\x1b[36m";
    case Paint::kRecompute:
      return "\x1b[35m";
    case Paint::kOptimizer:
      return "\x1b[33m";
    case Paint::kExchange:
      return "\x1b[31m";
  }
  return "";
}

// Time of each paint in each slice of one rank.
class Slices {
 public:
  Slices(std::size_t columns, double width) : width_(width), filled_(columns) {}

  void add(Paint paint, double begin, double end) {
    const std::size_t at = static_cast<std::size_t>(
        std::find(kPaints.begin(), kPaints.end(), paint) - kPaints.begin());
    const auto first = static_cast<std::size_t>(begin / width_);
    for (std::size_t cell = first;
         cell < filled_.size() && static_cast<double>(cell) * width_ < end; ++cell) {
      const double low = std::max(begin, static_cast<double>(cell) * width_);
      const double high = std::min(end, static_cast<double>(cell + 1) * width_);
      filled_[cell][at] += std::max(high - low, 0.0);
    }
  }

  // Compute wins over communication beside it; idle time is what nothing fills.
  [[nodiscard]] std::vector<Paint> painted() const {
    std::vector<Paint> cells;
    cells.reserve(filled_.size());
    for (const std::array<double, kPaints.size()>& filled : filled_) {
      double computing = 0;
      std::size_t most = 1;
      for (std::size_t i = 1; i + 1 < filled.size(); ++i) {
        computing += filled[i];
        most = filled[i] > filled[most] ? i : most;
      }
      const double exchanging = std::min(filled.back(), std::max(width_ - computing, 0.0));
      const double idle = width_ - computing - exchanging;
      const bool busy = computing >= exchanging && computing >= idle;
      cells.push_back(busy ? kPaints[most] : exchanging >= idle ? Paint::kExchange : Paint::kIdle);
    }
    return cells;
  }

 private:
  double width_;
  std::vector<std::array<double, kPaints.size()>> filled_;
};

}  // namespace

std::vector<TimelineRow> timeline(const StepProgram& program, const Trace& trace,
                                  std::size_t columns, std::size_t rows) {
  std::map<std::uint32_t, Slices> slices;
  std::map<std::uint32_t, RoleIndex> roles;
  const double step = static_cast<double>(trace.step_times.front().value);
  const double width = std::max(step, 1.0) / static_cast<double>(columns);
  for (const OpTiming& timing : trace.timings) {
    const std::uint32_t rank = index_of(timing.rank);
    const auto found = slices.find(rank);
    if (found == slices.end() && slices.size() >= rows) {
      continue;
    }
    Slices& mine = found != slices.end()
                       ? found->second
                       : slices.emplace(rank, Slices(columns, width)).first->second;
    roles[rank] = timing.role;
    const Op& op = program.roles[index_of(timing.role)].ops[index_of(timing.op)];
    mine.add(paint_of(op), static_cast<double>(timing.start.picoseconds),
             static_cast<double>(timing.end.picoseconds));
  }
  std::vector<TimelineRow> result;
  result.reserve(slices.size());
  for (const auto& [rank, mine] : slices) {
    result.push_back({static_cast<Rank>(rank), roles[rank], mine.painted()});
  }
  return result;
}

void print_timeline(const Console& console, const StepProgram& program, const Trace& trace) {
  constexpr std::size_t kColumns = 100;
  constexpr std::size_t kRows = 64;
  for (const TimelineRow& row : timeline(program, trace, kColumns, kRows)) {
    std::string line;
    Paint last = Paint::kIdle;
    bool coloured = false;
    for (const Paint cell : row.cells) {
      if (console.colour && (!coloured || cell != last)) {
        line += colour_of(cell);
        coloured = true;
        last = cell;
      }
      line += static_cast<char>(cell);
    }
    fmt::print(console.out, "stage {:>3} rank {:>6} |{}{}|\n", index_of(row.role),
               index_of(row.rank), line, console.colour ? "\x1b[0m" : "");
  }
  fmt::print(console.out, "{:>18} 0{:>100}\n", "",
             duration_text(to_seconds(trace.step_times.front()).value));
  fmt::print(console.out,
             "F forward, B backward, W weight gradient, R recompute, O optimizer, - communication "
             "alone, . idle\n");
}

}  // namespace trireme::tools
