// `trireme tune`: plans, starts the layouts that promise most, corrects the model by what they
// take, and plans again.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/files.h"
#include "core/parallel.h"
#include "planner/calibrate/run_fit.h"
#include "planner/search/constraint.h"
#include "tools/commands.h"
#include "tools/launchable.h"
#include "tools/plan_report.h"
#include "tools/request.h"
#include "tools/table.h"
#include "tools/tune_choice.h"
#include "tools/tune_start.h"

namespace trireme::tools {
namespace {

namespace fs = std::filesystem;

struct TuneArguments {
  TuneStart start;
  LayoutOptions layout;
  std::vector<std::string> constraints;
  std::string budget = "10m", each = "5m", gain = "1%", output;
  std::optional<std::int64_t> steps, runs, threads;
  bool json = false;
};

// "10m", "90s", "2h". Throws Error.
double parse_budget(const std::string& text, const std::string& where) {
  const std::string unit = text.empty() ? "" : text.substr(text.size() - 1);
  const double seconds = unit == "s" ? 1 : unit == "m" ? 60 : unit == "h" ? 3600 : 0;
  if (seconds == 0) {
    throw Error(where, fmt::format("'{}' is no time; 90s, 10m or 2h would be right", text));
  }
  return seconds * parse_number(text.substr(0, text.size() - 1), where, 0, 1e6);
}

double parse_share(const std::string& text, const std::string& where) {
  if (!text.ends_with('%')) {
    throw Error(where, fmt::format("'{}' is no share; 1% would be right", text));
  }
  return parse_number(text.substr(0, text.size() - 1), where, 0, 100) / 100;
}

struct Tuning {
  const TuneArguments& options;
  planner::Job job;  // its profile is corrected by the runs
  topologies::Profile profile;
  planner::SearchOptions search;
  std::vector<TuneRun> runs;
  std::string stopped_because;
};

std::string framework_name(const TuneArguments& options) {
  return options.start.format.empty() ? options.start.job.framework : options.start.format;
}

// What a folder's runs are of.
std::string job_name(const Tuning& tuning) {
  const planner::Job& job = tuning.job;
  return fmt::format("{}, {} x {}, sequence {}, batch {}, {}", job.model.name, job.cluster.gpus,
                     job.cluster.gpu.name, job.sequence, job.global_batch,
                     framework_name(tuning.options));
}

void correct(Tuning& tuning, const topologies::Cluster& cluster) {
  std::vector<planner::MeasuredRun> measured;
  for (const TuneRun& run : tuning.runs) {
    if (run.measured_seconds) {
      planner::MeasuredRun one;
      one.name = run.layout;
      one.step_seconds = *run.measured_seconds;
      one.job = tuning.job;
      one.job->profile = tuning.profile;
      one.plan = run.plan;
      measured.push_back(std::move(one));
    }
  }
  tuning.job.profile = tuning.profile;
  if (!measured.empty()) {
    planner::fit_runs(measured, tuning.job.profile);
  }
  // A layout that ran out of memory says that there is less of it than was thought.
  tuning.job.cluster.gpu.memory = cluster.gpu.memory;
  for (const TuneRun& run : tuning.runs) {
    if (run.outcome == TuneOutcome::kOutOfMemory && run.predicted_reserved_gib > 0) {
      constexpr double kBelow = 0.99;
      const auto bytes =
          static_cast<std::int64_t>(kBelow * run.predicted_reserved_gib * (1LL << 30));
      tuning.job.cluster.gpu.memory = std::min(tuning.job.cluster.gpu.memory, Bytes(bytes));
    }
  }
}

double spent_seconds(const std::vector<TuneRun>& runs) {
  double seconds = 0;
  for (const TuneRun& run : runs) {
    seconds += run.wall_seconds;
  }
  return seconds;
}

void say(const Console& console, const TuneRun& run) {
  if (console.quiet) {
    return;
  }
  const std::string measured = run.measured_seconds
                                   ? fmt::format("measured {:.4g} s", *run.measured_seconds)
                                   : fmt::format("{} {}", to_string(run.outcome), run.detail);
  fmt::print(console.err, "{} {}: predicted {:.4g} s, {}\n", run.name, run.layout,
             run.predicted_seconds, measured);
  std::fflush(console.err);
}

// Why nothing more is started; empty: go on with `choice`.
std::string reason_to_stop(const Tuning& tuning, const std::optional<TuneChoice>& choice,
                           double left) {
  const TuneArguments& options = tuning.options;
  constexpr std::size_t kFailuresMax = 3;
  const bool none_ran = fastest_run(tuning.runs) == nullptr;
  if (!choice) {
    return "every layout that may fit was started";
  }
  if (left <= 0) {
    return "the budget is spent";
  }
  if (options.runs && tuning.runs.size() >= static_cast<std::size_t>(*options.runs)) {
    return "as many runs as were asked for";
  }
  const auto failed = std::count_if(tuning.runs.begin(), tuning.runs.end(), [](const TuneRun& run) {
    return run.outcome == TuneOutcome::kFailed;
  });
  if (none_ran && static_cast<std::size_t>(failed) >= kFailuresMax) {
    return "no run came to its end: " + tuning.runs.back().detail;
  }
  if (choice->gain_share < parse_share(options.gain, "--gain")) {
    return fmt::format("another run is expected to gain {:.2g} %", 100 * choice->gain_share);
  }
  return "";
}

void tune(Tuning& tuning, const Console& console) {
  const TuneArguments& options = tuning.options;
  const topologies::Cluster cluster = tuning.job.cluster;
  const double budget = parse_budget(options.budget, "--budget");
  const double each = parse_budget(options.each, "--each");
  while (true) {
    correct(tuning, cluster);
    planner::SearchResult found = planner::search(tuning.job, tuning.search);
    add_variants(tuning.job, tuning.search, found);
    const auto choice = choose_next(found, tuning.runs);
    const double left = budget - spent_seconds(tuning.runs);
    tuning.stopped_because = reason_to_stop(tuning, choice, left);
    if (!tuning.stopped_because.empty()) {
      return;
    }
    const std::string name = fmt::format("{:03}", tuning.runs.size() + 1);
    tuning.runs.push_back(start_run(options.start, name, choice->estimate, std::min(each, left)));
    save_runs(options.start.folder, job_name(tuning), framework_name(options), tuning.runs);
    say(console, tuning.runs.back());
  }
}

Json result_of(const Tuning& tuning, const planner::Estimate* best) {
  const std::string folder = fs::absolute(tuning.options.start.folder).string();
  Json json = {{"runs", runs_json(tuning.runs, framework_name(tuning.options))},
               {"best", nullptr},
               {"best_measured_seconds", nullptr},
               {"launch_file", nullptr},
               {"profile", folder + "/profile.json"},
               {"spent_seconds", spent_seconds(tuning.runs)},
               {"stopped_because", tuning.stopped_because}};
  if (best != nullptr) {
    const TuneRun& run = *fastest_run(tuning.runs);
    json["best"] = estimate_json(tuning.job, *best);
    json["best_measured_seconds"] = *run.measured_seconds;
    const std::string file = launch_file_of(tuning.options.start, run.name);
    json["launch_file"] = file.empty() ? folder + "/" + run.name + ".plan.json" : file;
  }
  return json;
}

void print_result(const Console& console, const Json& json) {
  Table table{.head = {"run", "layout", "predicted", "measured", "outcome"}, .rows = {}};
  for (const Json& run : json.at("runs")) {
    const Json& measured = run.at("measured_seconds");
    table.rows.push_back(
        {run.at("name").get<std::string>(), run.at("layout").get<std::string>(),
         fmt::format("{:.4g} s", run.at("predicted_seconds").get<double>()),
         measured.is_null() ? "-" : fmt::format("{:.4g} s", measured.get<double>()),
         run.at("outcome").get<std::string>()});
  }
  print_table(console, table);
  if (!json.at("best").is_null()) {
    fmt::print(console.out, "\nbest: {:.4g} s a step; start {}\n",
               json.at("best_measured_seconds").get<double>(),
               json.at("launch_file").get<std::string>());
  }
  fmt::print(console.out, "stopped: {}\n", json.at("stopped_because").get<std::string>());
}

// Before the first run: what cannot be written afterwards is said now.
void prepare_folders(const TuneArguments& options) {
  std::error_code failed;
  fs::create_directories(options.start.folder, failed);
  if (!fs::is_directory(options.start.folder, failed)) {
    throw Error("--state", fmt::format("the folder {} cannot be created; a path in a writable "
                                       "folder would be right",
                                       options.start.folder));
  }
  const fs::path folder = fs::path(options.output).parent_path();
  if (!folder.empty() && !fs::is_directory(folder, failed)) {
    throw Error(options.output,
                fmt::format("cannot be written: there is no folder {}", folder.string()));
  }
}

int run(const TuneArguments& given, Console& console) {
  TuneArguments options = given;
  name_program(options.start);
  options.start.steps = options.steps.value_or(10);
  Tuning tuning{.options = options,
                .job = make_job(options.start.job),
                .profile = {},
                .search = {},
                .runs = {},
                .stopped_because = {}};
  tuning.profile = tuning.job.profile;
  if (tuning.job.global_batch == 0) {
    tuning.job.global_batch = tuning.job.cluster.gpus;
  }
  options.start.job.gpus = tuning.job.cluster.gpus;
  options.start.job.sequence = tuning.job.sequence;
  options.start.job.global_batch = tuning.job.global_batch;
  fix_layout(options.layout, tuning.search);
  for (const std::string& text : options.constraints) {
    tuning.search.constraints.push_back(planner::parse_constraint(text));
  }
  constexpr std::size_t kAlternatives = 40;
  tuning.search.alternatives = kAlternatives;
  tuning.search.threads = static_cast<int>(options.threads.value_or(usable_threads()));
  tuning.search.accepts = what_starts;
  prepare_folders(options);
  tuning.runs = read_runs(options.start.folder, job_name(tuning));
  tune(tuning, console);
  topologies::save_profile(tuning.job.profile, options.start.folder + "/profile.json");
  std::optional<planner::Estimate> best;
  if (const TuneRun* fastest = fastest_run(tuning.runs)) {
    best.emplace();
    planner::Estimator(tuning.job).estimate(fastest->plan, *best);
  }
  const Json result = result_of(tuning, best ? &*best : nullptr);
  if (!options.output.empty()) {
    Json file = {{"schema", "trireme.tune/1"}};
    file.update(result);
    write_file_atomically(options.output, file.dump(2) + "\n");
  }
  if (options.json) {
    print_json(console, "tune", result);
  } else {
    print_result(console, result);
  }
  return best ? kDone : kAnswerIsNo;
}

}  // namespace

void add_tune_command(Command& app, Program& program) {
  auto options = std::make_shared<TuneArguments>();
  options->start.folder = "tune";
  options->start.backend = "cuda";
  Command* command = add_command(
      app, program, "tune",
      "starts layouts with the framework's own program until no other promises to be faster",
      "trireme tune --model llama-3.1-8b --cluster hgx-h200x1 --gpus 2 --framework megatron "
      "--global-batch 16 --budget 10m -o tune.json");
  add_job_options(*command, options->start.job);
  add_layout_options(*command, options->layout);
  command->add_option("--constraint", options->constraints, "as of plan, e.g. 'tp<=8'; repeatable")
      ->type_name("C")
      ->repeatable();
  command->add_option("--budget", options->budget, "time of all runs together (default 10m)")
      ->type_name("TIME");
  command->add_option("--each", options->each, "after which a run is ended (default 5m)")
      ->type_name("TIME");
  command
      ->add_option("--gain", options->gain,
                   "stop when another run is expected to gain less (default 1%)")
      ->type_name("SHARE");
  add_count_option(*command, "--steps", options->steps, "training steps of a run (default 10)", 3);
  add_count_option(*command, "--runs", options->runs, "runs at most");
  add_count_option(*command, "--threads", options->threads,
                   "threads of the search (default: all cores)", 1, 1024);
  command
      ->add_option("--format", options->start.format,
                   "launch format (default: that of the framework)")
      ->type_name("NAME");
  command->add_option("--flavor", options->start.flavor, "torchtitan's name of the model's size")
      ->type_name("NAME");
  add_choice_option(*command, "--backend", options->start.backend,
                    "where trireme's own runs run (default cuda)", {"cuda", "cpu"});
  command
      ->add_option("--submit", options->start.submit,
                   "what starts a run instead of {command}, e.g. 'sbatch --wait -o {log} {file}'")
      ->type_name("TEMPLATE");
  command
      ->add_option("--state", options->start.folder,
                   "folder of plans, launch files, logs and results; goes on with what is there "
                   "(default tune)")
      ->type_name("DIR");
  command->add_option("-o,--output", options->output, "the result as JSON")->type_name("FILE");
  command->add_flag("--json", options->json, "JSON on stdout");
  program.on(command, [options](Console& console) { return run(*options, console); });
}

}  // namespace trireme::tools
