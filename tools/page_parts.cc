#include "tools/page_parts.h"

#include <fmt/format.h>

#include <algorithm>

#include "planner/cost/time_items.h"
#include "tools/report.h"

namespace trireme::tools {
namespace {

using planner::Estimate;
using planner::Job;

Bar memory_bar(const std::string& name, const planner::MemoryItems& items) {
  return {.name = name,
          .text = gib_text(items.total()),
          .parts = {{"parameters", items.parameters},
                    {"gradients", items.gradients},
                    {"optimizer", items.optimizer},
                    {"activations", items.activations},
                    {"gathered parameters", items.gathered_parameters},
                    {"logits", items.logits},
                    {"communication", items.communication},
                    {"other", items.other}}};
}

}  // namespace

std::string gib_text(double value) {
  return fmt::format("{:.1f} GiB", value);
}

std::string step_text(const planner::TimeEstimate& time) {
  return fmt::format("{} ({} to {})", duration_text(time.step_seconds),
                     duration_text(time.low_seconds), duration_text(time.high_seconds));
}

Bar time_bar(const std::string& name, const planner::TimeEstimate& time) {
  Bar bar{.name = name,
          .text = step_text(time),
          .parts = {},
          .low = time.low_seconds,
          .high = time.high_seconds};
  for (const planner::TimeItem& item : planner::kTimeItems) {
    if (time.exposed.*(item.part) > 0) {
      bar.parts.push_back({item.name, time.exposed.*(item.part)});
    }
  }
  return bar;
}

void add_memory(const Job& job, const planner::MemoryEstimate& memory, Page& page) {
  BarChart chart{.title = "Memory at its peak, by stage of the pipeline",
                 .bars = {},
                 .limit = memory.capacity_gib,
                 .limit_name = gib_text(memory.capacity_gib) + ", what the allocator can have"};
  constexpr std::size_t kMost = 32;
  for (std::size_t stage = 0; stage < std::min(kMost, memory.stages.size()); ++stage) {
    chart.bars.push_back(memory_bar(fmt::format("stage {}", stage), memory.stages[stage].items));
  }
  page.bars(chart);
  if (memory.host_gib > 0) {
    page.text(fmt::format("{} of a node's host memory of {} ({}).", gib_text(memory.host_gib),
                          gib_text(memory.host_capacity_gib), planner::to_text(job.offload)));
  }
}

void add_provenance(const Job& job, Page& page, const std::string& how) {
  page.heading("Where the numbers come from");
  page.text(
      fmt::format("{} of trireme under the behaviour of {}; profile {}. Intervals hold 90 % "
                  "of the validation rows. GPU: {}.",
                  how, job.framework.name, job.profile.name, job.cluster.gpu.source));
}

void add_section(const std::string& heading, const Table& table, Page& page) {
  if (!table.rows.empty()) {
    page.heading(heading);
    page.table(table);
  }
}

}  // namespace trireme::tools
