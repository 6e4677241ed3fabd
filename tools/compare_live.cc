#include "tools/compare_live.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "planner/cost/estimate.h"
#include "planner/lower/lower.h"
#include "tools/request.h"
#include "tools/table.h"

namespace trireme::tools {
namespace {

constexpr double kGib = 1024.0 * 1024 * 1024;
constexpr std::size_t kMostRows = 20;

double gib(Bytes bytes) {
  return static_cast<double>(bytes.value) / kGib;
}

double persistent_gib(const LiveAtPeak& live) {
  double sum = 0;
  for (const LiveBuffers& buffers : live.buffers) {
    sum += buffers.persistent ? gib(buffers.bytes) : 0;
  }
  return sum;
}

struct MemoryLine {
  const char* name;
  double predicted, measured;  // GiB
};
std::array<MemoryLine, 3> parts_of(const LiveComparison& c) {
  const double kept = persistent_gib(c.predicted);
  const double kept_there = c.measured.persistent_bytes / kGib;
  return {{{"kept between steps", kept, kept_there},
           {"of the step", c.predicted_gib - kept, c.measured.bytes / kGib - kept_there},
           {"peak", c.predicted_gib, c.measured.bytes / kGib}}};
}

}  // namespace

LiveComparison compare_live(const std::string& plan_file, const nlohmann::json& snapshot,
                            const std::string& snapshot_path) {
  Request request = make_request(plan_file, {}, {});
  complete(request.job, request.plan);
  LiveComparison comparison;
  comparison.plan = plan_file;
  comparison.snapshot = snapshot_path;
  comparison.measured = parse_allocator_snapshot(snapshot, snapshot_path);
  planner::Estimate estimate;
  planner::Estimator(request.job).estimate(request.plan, estimate);
  comparison.predicted_gib = estimate.memory.allocated_gib;
  const StepProgram program = planner::lower(request.job, request.plan);
  for (const trireme::Program& role : program.roles) {
    LiveAtPeak live = live_at_peak(program, role);
    if (live.bytes.value > comparison.predicted.bytes.value) {
      comparison.predicted = std::move(live);
    }
  }
  return comparison;
}

Json live_comparison_json(const LiveComparison& c) {
  Json parts = Json::array();
  for (const MemoryLine& part : parts_of(c)) {
    parts.push_back(
        {{"part", part.name}, {"predicted_gib", part.predicted}, {"measured_gib", part.measured}});
  }
  Json buffers = Json::array();
  for (const LiveBuffers& one : c.predicted.buffers) {
    buffers.push_back({{"name", one.name},
                       {"persistent", one.persistent},
                       {"count", one.count},
                       {"gib", gib(one.bytes)}});
  }
  Json blocks = Json::array();
  for (const SnapshotBlocks& one : c.measured.blocks) {
    blocks.push_back({{"where", one.where}, {"count", one.count}, {"gib", one.bytes / kGib}});
  }
  return {{"predicted", {{"file", c.plan}, {"source", "plan"}}},
          {"measured", {{"file", c.snapshot}, {"source", "PyTorch allocator"}}},
          {"memory", parts},
          {"predicted_buffers", buffers},
          {"measured_blocks", blocks}};
}

void print_live_comparison(const Console& console, const LiveComparison& c) {
  print_heading(console, fmt::format("{} against {} (PyTorch's allocator), when most is allocated",
                                     c.plan, c.snapshot));
  Table parts{.head = {"memory", "predicted GiB", "measured GiB", "difference"}, .rows = {}};
  for (const MemoryLine& part : parts_of(c)) {
    parts.rows.push_back({part.name, fmt::format("{:.3f}", part.predicted),
                          fmt::format("{:.3f}", part.measured),
                          fmt::format("{:+.3f}", part.predicted - part.measured)});
  }
  print_table(console, parts);
  Table ours{.head = {"the model's buffers", "", "count", "GiB"}, .rows = {}, .text_columns = 2};
  for (std::size_t i = 0; i < std::min(kMostRows, c.predicted.buffers.size()); ++i) {
    const LiveBuffers& one = c.predicted.buffers[i];
    ours.rows.push_back({one.name, one.persistent ? "kept" : "", fmt::format("{}", one.count),
                         fmt::format("{:.3f}", gib(one.bytes))});
  }
  print_heading(console, fmt::format("Alive in the model's program at {}", c.predicted.op));
  print_table(console, ours);
  Table theirs{.head = {"allocated by", "count", "GiB"}, .rows = {}};
  for (std::size_t i = 0; i < std::min(kMostRows, c.measured.blocks.size()); ++i) {
    const SnapshotBlocks& one = c.measured.blocks[i];
    theirs.rows.push_back(
        {one.where, fmt::format("{}", one.count), fmt::format("{:.3f}", one.bytes / kGib)});
  }
  print_heading(console, "Alive in the snapshot, of what the step allocated");
  print_table(console, theirs);
}

}  // namespace trireme::tools
