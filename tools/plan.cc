// `trireme plan`: the best layouts of a job, the Pareto front, and what was rejected and why.
#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "core/error.h"
#include "core/parallel.h"
#include "models/presets.h"
#include "planner/cost/offload_fit.h"
#include "planner/search/switched_plan.h"
#include "tools/commands.h"
#include "tools/launchable.h"
#include "tools/pages.h"
#include "tools/plan_advice.h"
#include "tools/plan_file.h"
#include "tools/plan_report.h"
#include "tools/progress.h"
#include "tools/report_option.h"
#include "tools/request.h"
#include "tools/sample_options.h"
#include "tools/search_more.h"
#include "tools/simulation.h"
#include "tools/table.h"

namespace trireme::tools {
namespace {

struct PlanArguments {
  JobOptions job;
  LayoutOptions layout;
  std::string objective = "time";
  std::vector<std::string> constraints;
  std::optional<std::int64_t> top, threads, refine;
  std::string price, weights, output, csv, against, report;
  bool keep_switches = false;
  bool json = false;
};

planner::Goal goal_of(const std::string& name) {
  return name == "memory"    ? planner::Goal::kMemory
         : name == "cost"    ? planner::Goal::kCost
         : name == "utility" ? planner::Goal::kUtility
                             : planner::Goal::kTime;
}

planner::UtilityWeights weights_of(const std::string& text) {
  planner::UtilityWeights weights;
  if (text.empty()) {
    return weights;
  }
  std::vector<double> numbers;
  std::string rest = text + ",";
  for (auto cut = rest.find(','); cut != std::string::npos; cut = rest.find(',')) {
    numbers.push_back(parse_number(rest.substr(0, cut), "--weights", 0, 1e6));
    rest.erase(0, cut + 1);
  }
  if (numbers.size() != 3) {
    throw Error("--weights", "needs three numbers: throughput,memory,complexity, e.g. 1,0.25,0.05");
  }
  return {.throughput = numbers[0], .memory = numbers[1], .complexity = numbers[2]};
}

planner::SearchOptions search_options(const PlanArguments& options) {
  planner::SearchOptions search;
  fix_layout(options.layout, search);
  for (const std::string& text : options.constraints) {
    search.constraints.push_back(planner::parse_constraint(text));
  }
  search.goal = goal_of(options.objective);
  search.weights = weights_of(options.weights);
  search.alternatives = static_cast<std::size_t>(options.top.value_or(10) - 1);
  search.threads = static_cast<int>(options.threads.value_or(usable_threads()));
  search.keep_evaluated = !options.csv.empty();
  search.accepts = what_starts;
  return search;
}

// Searches, narrows to fewer GPUs where none of them all can be used, and says what is missing.
void answer(const PlanArguments& options, planner::SearchOptions& search, planner::Job& job,
            PlanReport& report) {
  const planner::Job asked = job;
  const auto look = [&](const planner::Job& given) {
    const std::vector<std::string> decided = decided_switches(options.job);
    const bool switches = !options.keep_switches;
    Recommended best = options.refine
                           ? Recommended{search_launchable(given, search, decided, switches), {}}
                           : search_recommended(given, search, decided, switches);
    planner::SwitchedSearch& found = best.answer.found;
    if (!best.answer.remark.empty()) {
      report.remarks.push_back(std::move(best.answer.remark));
    }
    report.reason = std::move(best.reason);
    report.result = std::move(found.result);
    report.switches = std::move(found.switches);
    return std::move(found.job);
  };
  job = look(asked);
  const std::int64_t gpus = job.cluster.gpus;
  if (report.result.space == 0) {
    report.reasons = why_empty(asked, search);
    std::vector<planner::Rejection> rejected = std::move(report.result.rejected);
    if (planner::Job fewer = asked; use_fewer_gpus(fewer, search, report.batch_assumed)) {
      job = look(fewer);
    }
    report.result.rejected.insert(report.result.rejected.begin(), rejected.begin(), rejected.end());
  }
  report.idle_gpus = gpus - job.cluster.gpus;
  if (!report.result.best && report.result.space > 0) {
    report.would_fit =
        what_would_fit(job, search, report.result.nearest_misses, decided_switches(options.job));
  }
  if (report.result.best) {
    const auto sizes = near_sizes(job, search, report.result.best->time.step_seconds);
    report.remarks.insert(report.remarks.end(), sizes.begin(), sizes.end());
  }
  if (report.result.best && options.job.framework.empty() && options.job.settings.empty()) {
    report.elsewhere =
        elsewhere(options.job, asked, search, !options.keep_switches, report.batch_assumed);
  }
}

// Rows that have by themselves what the first layout cannot: all rows are of the first's switches.
std::string rows_by_themselves(const PlanArguments& options, const planner::Job& job,
                               const planner::SearchResult& result) {
  constexpr double kWorth = 0.002;  // of the step
  constexpr std::size_t kNamed = 3;
  std::vector<std::string> rows;
  for (std::size_t i = 0; i < result.alternatives.size() && rows.size() < kNamed; ++i) {
    const planner::Estimate& row = result.alternatives[i];
    const planner::SwitchedPlan alone =
        planner::switched_for(job, row.plan, decided_switches(options.job));
    const double step = alone.estimate.time.step_seconds;
    const bool surer = alone.estimate.memory.fit < row.memory.fit;
    if (surer || step < (1 - kWorth) * row.time.step_seconds) {
      std::vector<std::string_view> names;
      for (const planner::SwitchGain& gain : alone.switches) {
        if (!planner::is_idle(gain)) {
          names.push_back(gain.which.name);
        }
      }
      rows.push_back(fmt::format("row {} {}{} with {}", i + 2, duration_text(step),
                                 surer ? ", surer to fit," : "", fmt::join(names, ", ")));
    }
  }
  return rows.empty() ? ""
                      : fmt::format(
                            "by itself (--layout) a row has switches that the first has no "
                            "use or memory for: {}",
                            fmt::join(rows, "; "));
}

// What is true of the answer and not to be seen in it.
void add_remarks(const PlanArguments& options, const planner::Job& job, PlanReport& report) {
  const auto add = [&](std::string remark) {
    if (!remark.empty()) {
      report.remarks.push_back(std::move(remark));
    }
  };
  const std::string refusal = fine_tuning_refusal(job);
  if (report.result.best) {
    add(refusal.empty() ? "" : fmt::format("`export` would refuse it: {}", refusal));
    add(planner::idle_offload(job, report.result.best->plan));
    add(planner::idle_ring(job, report.result.best->plan));
    if (!options.keep_switches) {
      add(rows_by_themselves(options, job, report.result));
    }
  }
  if (job.model.max_sequence > 0 && job.sequence > job.model.max_sequence) {
    add(fmt::format("sequence {} is longer than {} was made for ({}): its positions must be scaled",
                    job.sequence, job.model.name, job.model.max_sequence));
  }
  if (models::load_model(options.job.model).multi_token_layers > job.model.multi_token_layers) {
    add(fmt::format("{}'s extra prediction module is left out: {} trains none", job.model.name,
                    job.framework.name));
  }
}

int run(const PlanArguments& options, Console& console) {
  planner::Job job = make_job(options.job);
  refuse_absent_modules(job.model, make_plan(options.layout, std::nullopt));
  planner::SearchOptions search = search_options(options);
  PlanReport report;
  report.goal = search.goal;
  report.weights = search.weights;
  if (!options.price.empty()) {
    report.dollars_per_gpu_hour = parse_number(options.price, "--price", 0, 1e6);
  } else if (search.goal == planner::Goal::kCost) {
    throw Error("--price", "is missing; the objective cost needs dollars per GPU and hour");
  }
  report.batch_assumed = job.global_batch == 0;
  if (report.batch_assumed) {
    job.global_batch = job.cluster.gpus;
  }
  Progress progress(console, "searching");
  search.progress = [&](double share) { progress.show(share); };
  answer(options, search, job, report);
  if (options.refine) {
    report.simulated = refine(job, *options.refine, search, report.result);
  }
  add_remarks(options, job, report);
  if (!options.against.empty()) {
    report.standing = standing_of(job, search, options.against, decided_switches(options.job));
  }
  progress.clear();
  if (!options.csv.empty()) {
    write_plan_csv(options.csv, report.result);
  }
  if (!options.report.empty()) {
    write_page(options.report, plan_page(job, report));
  }
  if (!options.output.empty() && report.result.best) {
    JobOptions file = options.job;
    file.gpus = job.cluster.gpus;
    file.sequence = job.sequence;
    file.global_batch = job.global_batch;
    for (const planner::SwitchGain& gain : report.switches) {
      if (gain.applied) {
        file.settings.emplace_back(gain.which.setting);
      }
    }
    write_plan_file(options.output, file, *report.result.best);
  }
  if (options.json) {
    print_plan_json(console, job, report);
  } else {
    print_plan(console, job, report);
  }
  return report.result.best ? kDone : kAnswerIsNo;
}

}  // namespace

void add_plan_command(Command& app, Program& program) {
  auto options = std::make_shared<PlanArguments>();
  Command* command = add_command(
      app, program, "plan", "the best layouts of a job; a layout option fixes its axis",
      "trireme plan --model llama-3.1-70b --cluster dgx-h100x8 --global-batch 512 --seq 8192");
  add_job_options(*command, options->job);
  add_sample_options(*command, options->job);
  add_layout_options(*command, options->layout);
  add_choice_option(*command, "--objective", options->objective, "what is best (default time)",
                    {"time", "memory", "cost", "utility"});
  command
      ->add_option("--constraint", options->constraints,
                   "AXIS COMPARISON NUMBER, e.g. 'tp<=8'; repeatable; axes: tp pp vpp cp ep etp "
                   "fsdp dp data_parallel "
                   "micro_batch micro_batches")
      ->type_name("C")
      ->repeatable();
  add_count_option(*command, "--top", options->top, "how many layouts to show (default 10)", 1,
                   1000);
  add_count_option(*command, "--refine", options->refine,
                   "simulate so many layouts of different kinds and rank them by it", 1, 1000);
  command
      ->add_option("--against", options->against,
                   "where this layout stands: its rank among all sets of degrees, and the gap")
      ->type_name("FORM");
  command->add_option("--csv", options->csv, "every layout that was estimated, a line each")
      ->type_name("FILE");
  command->add_flag("--keep-switches", options->keep_switches,
                    "switch nothing on beside what --set says");
  command->add_option("--price", options->price, "dollars per GPU and hour (objective cost)")
      ->type_name("$");
  command
      ->add_option("--weights", options->weights,
                   "throughput,memory,complexity of the objective utility (default 1,0.25,0.05)")
      ->type_name("W,W,W");
  add_count_option(*command, "--threads", options->threads,
                   "threads of the search (default: all cores)", 1, 1024);
  command->add_option("-o,--output", options->output, "save the best layout as a plan file")
      ->type_name("FILE");
  add_report_option(*command, options->report);
  command->add_flag("--json", options->json, "JSON on stdout");
  program.on(command, [options](Console& console) { return run(*options, console); });
}

}  // namespace trireme::tools
