#include "tools/plan_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "planner/plan/rules.h"
#include "planner/search/recommend.h"
#include "tools/fit_word.h"
#include "tools/request.h"
#include "tools/switches_report.h"
#include "tools/table.h"

namespace trireme::tools {
namespace {

using planner::Estimate;
using planner::Job;
using planner::RankedPlan;

// The largest exposed share beside compute: what a faster machine part would help.
std::string what_binds(const planner::TimeEstimate& time) {
  const planner::TimeItems& exposed = time.exposed;
  const std::pair<const char*, double> items[] = {
      {"TP", exposed.tensor_parallel},  {"CP", exposed.context_parallel},
      {"EP", exposed.expert_parallel},  {"bubble", exposed.pipeline_bubble},
      {"p2p", exposed.pipeline_p2p},    {"DP", exposed.data_parallel},
      {"optimizer", exposed.optimizer}, {"other", exposed.other}};
  const auto* largest =
      std::max_element(std::begin(items), std::end(items),
                       [](const auto& a, const auto& b) { return a.second < b.second; });
  return fmt::format("compute {:.0f} %, {} {:.0f} %", 100 * exposed.compute / time.step_seconds,
                     largest->first, 100 * largest->second / time.step_seconds);
}

std::vector<const Estimate*> rows_of(const planner::SearchResult& result) {
  std::vector<const Estimate*> rows = {&*result.best};
  for (const Estimate& other : result.alternatives) {
    rows.push_back(&other);
  }
  return rows;
}

// Words of the table that a reader meets first here.
void print_legend(const Console& console, const PlanReport& report) {
  const std::vector<const Estimate*> rows = rows_of(report.result);
  const auto any = [&](auto holds) { return std::any_of(rows.begin(), rows.end(), holds); };
  if (report.result.at_risk ||
      any([](const Estimate* row) { return row->memory.fit == planner::Fit::kAtRisk; })) {
    fmt::print(console.out,
               "at risk: what the GPU can have lies between the least and the most that is "
               "predicted to be reserved; it may run out of memory\n");
  }
  if (any([](const Estimate* row) {
        return planner::short_form(row->plan).find(".order-") != std::string::npos;
      })) {
    fmt::print(console.out,
               "order-a-b: ranks of a are neighbours, then those of b (usual: tp-cp-fsdp-dp-pp)\n");
  }
}

// Why a row stands above one with a shorter step; empty where none does.
std::vector<std::string> notes_of(const Job& job, const PlanReport& report) {
  const std::vector<const Estimate*> rows = rows_of(report.result);
  std::vector<std::string> notes(rows.size());
  const Estimate* fastest = nullptr;  // of the rows below that fit as surely
  for (std::size_t i = rows.size(); i-- > 0;) {
    const bool surer = i + 1 < rows.size() && rows[i]->memory.fit != rows[i + 1]->memory.fit;
    fastest = surer ? nullptr : fastest;
    if (report.goal == planner::Goal::kMemory || report.goal == planner::Goal::kUtility) {
      continue;  // another order, which the heading of the table names
    }
    const bool faster_below =
        fastest != nullptr && fastest->time.step_seconds < rows[i]->time.step_seconds;
    if (i < report.simulated.size()) {
      notes[i] = report.simulated[i] ? "simulated" : "closed form";
    } else if (faster_below) {
      notes[i] = fmt::format("tie, {}", planner::advantage_word(job, *rows[i], *fastest));
    }
    fastest = faster_below ? fastest : rows[i];
  }
  return notes;
}

void print_ranking(const Console& console, const Job& job, const PlanReport& report) {
  Table table{.head = {"rank", "layout", "step", "MFU", "memory", "fits", "exposed time"},
              .rows = {},
              .text_columns = 2};
  const std::vector<std::string> notes = notes_of(job, report);
  const bool noted =
      std::any_of(notes.begin(), notes.end(), [](const std::string& one) { return !one.empty(); });
  if (report.dollars_per_gpu_hour > 0) {
    table.head.emplace_back("$/step");
  }
  if (noted) {
    table.head.emplace_back("why here");
  }
  const std::vector<const Estimate*> rows = rows_of(report.result);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Estimate& estimate = *rows[i];
    table.rows.push_back({std::to_string(i + 1), planner::short_form(estimate.plan),
                          duration_text(estimate.time.step_seconds),
                          fmt::format("{:.1f} %", 100 * estimate.throughput.mfu),
                          fmt::format("{:.1f} GiB", estimate.memory.allocated_gib),
                          fit_word(estimate.memory.fit), what_binds(estimate.time)});
    if (report.dollars_per_gpu_hour > 0) {
      table.rows.back().push_back(
          fmt::format("{:.2f}", dollars_per_step(job, report, estimate.time.step_seconds)));
    }
    if (noted) {
      table.rows.back().push_back(notes[i]);
    }
  }
  if (report.goal == planner::Goal::kMemory || report.goal == planner::Goal::kUtility) {
    fmt::print(console.out, "ordered by {}, as --objective asks\n",
               report.goal == planner::Goal::kMemory ? "memory" : "utility");
  }
  print_table(console, table);
  print_legend(console, report);
}

// Layouts within what is known of the difference between two of them: the interval of one time is
// far wider.
void print_near(const Console& console, const planner::SearchResult& result) {
  const double most = (1 + planner::kToldApart) * result.best->time.step_seconds;
  const auto near = std::count_if(result.ties.begin(), result.ties.end(),
                                  [&](const RankedPlan& tie) { return tie.step_seconds <= most; });
  if (near > 0) {
    fmt::print(console.out, "{} other set{} of degrees {} within {:.0f} % of it\n", near,
               near == 1 ? "" : "s", near == 1 ? "is" : "are", 100 * planner::kToldApart);
  }
}

void print_remarks(const Console& console, const PlanReport& report) {
  const planner::SearchResult& result = report.result;
  const Estimate& best = *result.best;
  fmt::print(console.out,
             "\nstep of the best: {} to {} (90 %); {} tokens/s, {:.1f} TFLOP/s a GPU\n",
             duration_text(best.time.low_seconds), duration_text(best.time.high_seconds),
             grouped(best.throughput.tokens_per_second), best.throughput.model_tflops_per_gpu);
  if (best.memory.host_gib > 0) {
    fmt::print(console.out, "{:.0f} of {:.0f} GiB of a node's host memory\n", best.memory.host_gib,
               best.memory.host_capacity_gib);
  }
  print_near(console, result);
  if (result.at_risk) {
    fmt::print(console.out, "{:.1f} % faster: {} in {}, {}\n",
               100 * (1 - result.at_risk->time.step_seconds / best.time.step_seconds),
               planner::short_form(result.at_risk->plan),
               duration_text(result.at_risk->time.step_seconds), verdict(result.at_risk->memory));
  }
}

void print_elsewhere(const Console& console, const PlanReport& report) {
  if (report.elsewhere.empty()) {
    return;
  }
  std::vector<std::string> list;
  for (const Elsewhere& one : report.elsewhere) {
    list.push_back(one.layout.empty() ? fmt::format("{}: {}", one.program, one.reason)
                                      : fmt::format("{} {} ({})", one.program,
                                                    duration_text(one.step_seconds), one.layout));
  }
  fmt::print(console.out,
             "this is Trireme's own runtime; the same job elsewhere (--framework): {}\n",
             fmt::join(list, "; "));
}

void print_standing(const Console& console, const PlanReport& report) {
  if (!report.standing) {
    return;
  }
  const Standing& standing = *report.standing;
  const std::string form = planner::short_form(standing.estimate.plan);
  const std::string step = duration_text(standing.estimate.time.step_seconds);
  const double more = 100 * (standing.ratio - 1);
  const std::string gap =
      fmt::format("{:.1f} % {} than the best", std::abs(more), more < 0 ? "less" : "more");
  if (standing.estimate.memory.fit == planner::Fit::kNo) {  // its rank among what fits is none
    fmt::print(console.out, "{} {}; it would take {}, {}\n", form,
               verdict(standing.estimate.memory), step, gap);
    if (!standing.would_fit.empty()) {
      fmt::print(console.out, "{}\n", standing.would_fit);
    }
    return;
  }
  fmt::print(console.out, "{}: {}, {}, rank {} of {} sets of degrees; {}\n", form, step, gap,
             standing.rank, standing.of, verdict(standing.estimate.memory));
}

// The front is dense; a person wants its shape.
void print_front(const Console& console, const std::vector<RankedPlan>& front) {
  constexpr std::size_t kShown = 8;
  Table table{.head = {"Pareto front", "step", "memory", "complexity"}, .rows = {}};
  const std::size_t count = std::min(kShown, front.size());
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t at = count == 1 ? 0 : i * (front.size() - 1) / (count - 1);
    const RankedPlan& plan = front[at];
    table.rows.push_back({planner::short_form(plan.plan), duration_text(plan.step_seconds),
                          fmt::format("{:.1f} GiB", plan.memory_gib),
                          std::to_string(plan.complexity)});
  }
  print_table(console, table);
  fmt::print(
      console.out,
      "(complexity: axes above 1 and mechanisms such as virtual stages; {} of {} points{})\n",
      count, front.size(), front.size() > count ? ", all with --json" : "");
}

void print_rejected(const Console& console, const planner::SearchResult& result) {
  if (result.rejected.empty()) {
    return;
  }
  Table table{.head = {"rejected", "count", "for example"}, .rows = {}, .text_columns = 1};
  for (const planner::Rejection& rejection : result.rejected) {
    table.rows.push_back(
        {std::string(planner::to_string(rejection.rule)),
         grouped(static_cast<double>(rejection.count)),
         rejection.detail.empty()
             ? "  those that fit are better in time and memory"
             : "  " + planner::short_form(rejection.example) + ": " + rejection.detail});
  }
  std::size_t longest = table.head.back().size() + 2;
  for (const auto& row : table.rows) {
    longest = std::max(longest, row.back().size());
  }
  for (auto& row : table.rows) {
    row.back().resize(longest, ' ');
  }
  table.head.back().insert(0, "  ");
  table.head.back().resize(longest, ' ');
  print_table(console, table);
}

void print_misses(const Console& console, const PlanReport& report) {
  const planner::SearchResult& result = report.result;
  if (result.space == 0) {
    fmt::print(console.out, "no layout is legal\n");
    for (const std::string& reason : report.reasons) {
      fmt::print(console.out, "  {}\n", reason);
    }
    fmt::print(console.out, "\n");
    return;
  }
  fmt::print(console.out, "no layout fits; the nearest:\n");
  for (const Estimate& miss : result.nearest_misses) {
    fmt::print(console.out, "  {}: {}\n", planner::short_form(miss.plan), miss_text(miss.memory));
  }
  for (const Advice& advice : report.would_fit) {
    fmt::print(console.out, "{}: {} -> {}\n",
               advice.fit == planner::Fit::kFits ? "would fit" : "would be at risk", advice.change,
               advice.detail);
  }
  fmt::print(console.out, "\n");
}

}  // namespace

double dollars_per_step(const Job& job, const PlanReport& report, double step_seconds) {
  return step_seconds * static_cast<double>(job.cluster.gpus) * report.dollars_per_gpu_hour / 3600;
}

double missing_gib(const planner::MemoryEstimate& memory) {
  return memory.host_gib > memory.host_capacity_gib ? memory.host_gib - memory.host_capacity_gib
                                                    : memory.reserved_low_gib - memory.capacity_gib;
}

std::string miss_text(const planner::MemoryEstimate& memory) {
  return fmt::format("{}, {:.1f} GiB too much", planner::memory_detail(memory),
                     missing_gib(memory));
}

void print_plan(const Console& console, const Job& job, const PlanReport& report) {
  const planner::SearchResult& result = report.result;
  print_heading(console, job_text(job));
  if (report.batch_assumed) {
    fmt::print(console.out, "no --global-batch: one sequence a GPU is assumed\n");
  }
  if (report.idle_gpus > 0) {
    fmt::print(console.out,
               "{} of {} GPUs stay idle: no layout is legal on all of them (see rejected)\n",
               report.idle_gpus, job.cluster.gpus + report.idle_gpus);
  }
  fmt::print(
      console.out, "{} legal layouts: {} estimated, {} excluded by bounds, in {}\n\n",
      grouped(static_cast<double>(result.space)), grouped(static_cast<double>(result.evaluated)),
      grouped(static_cast<double>(result.pruned_by_bound)), duration_text(result.search_seconds));
  if (report.idle_gpus > 0) {
    for (const std::string& reason : report.reasons) {
      fmt::print(console.out, "  {}\n", reason);
    }
  }
  if (result.best) {
    print_ranking(console, job, report);
    print_remarks(console, report);
    if (!report.reason.empty()) {
      fmt::print(console.out, "{}\n", report.reason);
    }
    if (!console.quiet) {
      for (const std::string& remark : report.remarks) {
        fmt::print(console.out, "{}\n", remark);
      }
    }
    print_switched_on(console, report.switches, "switched on, in every row");
    print_switches(console, report.switches, "not switched on, since it changes numerics",
                   changes_numerics);
    print_standing(console, report);
    if (console.quiet) {  // the layouts and what was asked of them
      return;
    }
    print_elsewhere(console, report);
    fmt::print(console.out, "\n");
    print_front(console, result.pareto);
    fmt::print(console.out, "\n");
  } else {
    print_misses(console, report);
  }
  print_rejected(console, result);
}

}  // namespace trireme::tools
