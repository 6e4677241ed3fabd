// `trireme plan`: the best layouts of a job, the Pareto front, and what was rejected and why.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/parallel.h"
#include "tools/commands.h"
#include "tools/plan_file.h"
#include "tools/plan_report.h"
#include "tools/progress.h"
#include "tools/request.h"
#include "tools/simulation.h"

namespace trireme::tools {
namespace {

struct Options {
  JobOptions job;
  LayoutOptions layout;
  std::string objective = "time";
  std::vector<std::string> constraints;
  std::optional<std::int64_t> top, threads, refine;
  std::string price, weights, output;
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

// The best `count` sets of degrees, timed and, where time is what counts, put in order by
// simulation. A layout that no step program can be written for keeps its closed form.
void refine(const planner::Job& job, std::int64_t count, planner::Goal goal,
            planner::SearchResult& result) {
  if (!result.best) {
    return;
  }
  std::vector<planner::Estimate> all = {*result.best};
  all.insert(all.end(), result.alternatives.begin(), result.alternatives.end());
  const auto refined = std::min<std::size_t>(static_cast<std::size_t>(count), all.size());
  for (std::size_t i = 0; i < refined; ++i) {
    sim::SimulateOptions simulation;
    simulation.record_trace = false;
    try {
      all[i] = simulate_plan(job, all[i].plan, simulation).estimate;
    } catch (const Error&) {
      continue;
    }
  }
  if (goal == planner::Goal::kTime || goal == planner::Goal::kCost) {
    std::stable_sort(
        all.begin(), all.begin() + static_cast<std::ptrdiff_t>(refined),
        [](const auto& a, const auto& b) { return a.time.step_seconds < b.time.step_seconds; });
  }
  result.best = all.front();
  result.alternatives.assign(all.begin() + 1, all.end());
}

int run(const Options& options, Console& console) {
  planner::Job job = make_job(options.job);
  planner::SearchOptions search;
  fix_layout(options.layout, search);
  for (const std::string& text : options.constraints) {
    search.constraints.push_back(planner::parse_constraint(text));
  }
  search.goal = goal_of(options.objective);
  search.weights = weights_of(options.weights);
  search.alternatives = static_cast<std::size_t>(options.top.value_or(10) - 1);
  search.threads = static_cast<int>(options.threads.value_or(usable_threads()));
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
  report.result = planner::search(job, search);
  const std::int64_t gpus = job.cluster.gpus;
  if (report.result.space == 0) {
    use_fewer_gpus(job, search, report);
  }
  if (options.refine) {
    refine(job, *options.refine, search.goal, report.result);
  }
  progress.clear();
  report.idle_gpus = gpus - job.cluster.gpus;
  if (options.json) {
    print_json(console, "plan", plan_json(job, report));
  } else {
    print_plan(console, job, report);
  }
  if (!report.result.best) {
    return kAnswerIsNo;
  }
  if (!options.output.empty()) {
    JobOptions file = options.job;
    file.gpus = job.cluster.gpus;
    file.sequence = job.sequence;
    file.global_batch = job.global_batch;
    write_plan_file(options.output, file, *report.result.best);
  }
  return kDone;
}

}  // namespace

void add_plan_command(CLI::App& app, Program& program) {
  auto options = std::make_shared<Options>();
  CLI::App* command = add_command(
      app, program, "plan", "the best layouts of a job; a layout option fixes its axis",
      "trireme plan --model llama-3.1-70b --cluster dgx-h100x8 --global-batch 512 --seq 8192");
  add_job_options(*command, options->job);
  add_layout_options(*command, options->layout);
  add_choice_option(*command, "--objective", options->objective, "what is best (default time)",
                    {"time", "memory", "cost", "utility"});
  command
      ->add_option("--constraint", options->constraints,
                   "AXIS COMPARISON NUMBER, e.g. 'tp<=8'; repeatable; axes: tp pp vpp cp ep etp "
                   "fsdp dp data_parallel "
                   "micro_batch micro_batches")
      ->type_name("C")
      ->take_all()
      ->expected(1)
      ->allow_extra_args(false);
  add_count_option(*command, "--top", options->top, "how many layouts to show (default 10)", 1,
                   1000);
  add_count_option(*command, "--refine", options->refine,
                   "simulate the best so many sets of degrees and rank them by it", 1, 1000);
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
  command->add_flag("--json", options->json, "JSON on stdout");
  program.on(command, [options](Console& console) { return run(*options, console); });
}

}  // namespace trireme::tools
