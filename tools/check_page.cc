// What `check` found in a launch configuration, as a page.
#include <fmt/format.h>

#include <algorithm>

#include "tools/check_report.h"
#include "tools/page_parts.h"
#include "tools/pages.h"
#include "tools/report.h"

namespace trireme::tools {
namespace {

using planner::Estimate;

void add_violations(const CheckReport& report, Page& page) {
  Table table{.head = {"severity", "rule", "what is wrong", "what would be right"},
              .rows = {},
              .text_columns = 4};
  for (const planner::LaunchViolation& violation : report.rules.violations) {
    table.rows.push_back({violation.severity == planner::Severity::kError ? "error" : "warning",
                          violation.rule, violation.detail,
                          violation.fix.empty() ? "-" : violation.fix});
  }
  page.heading(table.rows.empty() ? "No rule is broken" : "Rules that are broken");
  if (!table.rows.empty()) {
    page.table(table);
  }
}

void add_estimates(const CheckReport& report, Page& page) {
  Table table{.head = {"layout", "step", "MFU", "memory", "fits"}, .rows = {}};
  BarChart times{.title = "Exposed time of a step, seconds", .bars = {}};
  const auto add = [&](const std::string& what, const Estimate& estimate, const std::string& fits) {
    const std::string name = what + ": " + planner::short_form(estimate.plan);
    table.rows.push_back({name, step_text(estimate.time),
                          fmt::format("{:.1f} %", 100 * estimate.throughput.mfu),
                          gib_text(estimate.memory.allocated_gib), fits});
    times.bars.push_back(time_bar(name, estimate.time));
  };
  if (report.estimate) {
    add("this file", *report.estimate,
        report.verdict.known ? std::string(to_string(report.estimate->memory.fit)) : "not known");
  }
  if (report.better) {
    add("better", *report.better, std::string(to_string(report.better->memory.fit)));
  }
  add_section("Time and memory to expect", table, page);
  page.bars(times);
  if (!report.verdict.known) {
    page.text("Whether it fits is not known: " + report.verdict.why);
  }
  if (report.estimate) {
    add_memory(report.found.job, report.estimate->memory, page);
  }
}

void add_switches(const CheckReport& report, Page& page) {
  Table table{.head = {"flag", "what", "numerics", "gain"}, .rows = {}, .text_columns = 3};
  for (const planner::SwitchGain& gain : report.switches) {
    table.rows.push_back({std::string(gain.which.flag), std::string(gain.which.name),
                          gain.which.changes_numerics ? "changed" : "the same",
                          gain.makes_fit ? "makes it fit" : duration_text(gain.gain_seconds)});
  }
  add_section("Flags that would help this layout, each by itself", table, page);
}

}  // namespace

Page check_page(const CheckReport& report) {
  Page page(fmt::format("{} ({})", report.config.source, planner::to_string(report.config.format)));
  page.text(job_text(report.found.job));
  add_violations(report, page);
  add_estimates(report, page);
  add_switches(report, page);
  const std::vector<std::string> remarks = remarks_of(report);
  if (!remarks.empty()) {
    page.heading("Remarks");
  }
  for (const std::string& remark : remarks) {
    page.text(remark);
  }
  add_provenance(report.found.job, page);
  return page;
}

}  // namespace trireme::tools
