// `trireme check`: a launch configuration's broken rules, its memory and time, a better layout.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/parallel.h"
#include "planner/launch/launch_switches.h"
#include "planner/launch/read_launch.h"
#include "planner/plan/rules.h"
#include "planner/search/search.h"
#include "tools/check_report.h"
#include "tools/commands.h"
#include "tools/options.h"
#include "tools/progress.h"

namespace trireme::tools {
namespace {

struct Options {
  std::string file, format;
  planner::LaunchOptions launch;
  std::vector<std::string> words;      // the script's own
  std::vector<std::string> overrides;  // after --
  bool json = false;
};

constexpr double kClose = 1.02;  // of the best step: nothing better is shown

// What the format's own launcher cannot start: pipelines are written in code for DeepSpeed and
// FSDP, and the first FSDP knows neither tensor nor context parallelism.
std::vector<planner::Constraint> constraints_of(const planner::LaunchConfig& config) {
  const auto one = [](planner::ConstraintAxis axis) {
    return planner::Constraint{axis, planner::Comparison::kEqual, 1};
  };
  const bool json = config.format == planner::LaunchFormat::kDeepspeed;
  if (!json &&
      (config.format != planner::LaunchFormat::kAccelerate || config.framework == "megatron")) {
    return {};
  }
  if (config.layout.pipeline.value_or(1) > 1) {
    return {};  // a pipeline's program is there
  }
  std::vector<planner::Constraint> fixed = {one(planner::ConstraintAxis::kPipeline)};
  if (config.framework == "fsdp1") {
    fixed.push_back(one(planner::ConstraintAxis::kTensor));
    fixed.push_back(one(planner::ConstraintAxis::kContext));
  }
  return fixed;
}

// None of these frameworks has zero-bubble's H1 and H2 as their paper draws them.
bool is_runnable(const planner::Estimate& estimate) {
  return estimate.plan.schedule != planner::Schedule::kZeroBubbleH1 &&
         estimate.plan.schedule != planner::Schedule::kZeroBubbleH2;
}

planner::SearchResult search_runnable(const planner::Job& job, planner::SearchOptions search) {
  planner::SearchResult best;
  for (const planner::Schedule schedule :
       {planner::Schedule::kOneForwardOneBackward, planner::Schedule::kInterleaved}) {
    search.fixed.schedule = schedule;
    planner::SearchResult found = planner::search(job, search);
    if (found.best &&
        (!best.best || found.best->time.step_seconds < best.best->time.step_seconds)) {
      best = std::move(found);
    }
  }
  return best;
}

// The best plan of the same job in the same framework, unless the configuration is as good.
void search_better(const Console& console, CheckReport& report) {
  planner::SearchOptions search;
  search.best_only = true;
  search.threads = usable_threads();
  search.constraints = constraints_of(report.config);
  Progress progress(console, "searching");
  search.progress = [&](double share) { progress.show(share); };
  planner::SearchResult result = planner::search(report.found.job, search);
  if (result.best && !is_runnable(*result.best)) {
    result = search_runnable(report.found.job, search);
  }
  progress.clear();
  if (!result.best) {
    return;
  }
  const bool fits = report.estimate && report.estimate->memory.fit != planner::Fit::kNo;
  if (!fits || report.estimate->time.step_seconds > kClose * result.best->time.step_seconds) {
    report.better = std::move(result.best);
  }
}

// The keys of KEY=VALUE settings.
std::vector<std::string> keys_of(const std::vector<std::string>& settings) {
  std::vector<std::string> keys;
  for (const std::string& setting : settings) {
    keys.push_back(setting.substr(0, setting.find('=')));
  }
  return keys;
}

// Switches that the framework's own start-up rules refuse, by themselves or beside better ones, are
// no advice.
void keep_switches_that_hold(const Options& options, CheckReport& report) {
  std::vector<planner::LaunchSwitch> switches;
  for (const planner::SwitchGain& gain : report.switches) {
    switches.push_back({gain.which.flag, gain.which.setting});
  }
  const std::vector<bool> hold =
      planner::switches_that_hold(report.config, options.launch, switches);
  std::vector<planner::SwitchGain> kept;
  for (std::size_t i = 0; i < hold.size(); ++i) {
    if (hold[i]) {
      kept.push_back(report.switches[i]);
    }
  }
  report.switches = std::move(kept);
}

std::vector<std::string> arguments_of(const Options& options) {
  std::vector<std::string> all = options.words;
  all.insert(all.end(), options.overrides.begin(), options.overrides.end());
  return all;
}

// The file with other branches of what it leaves open; those that make no job are left out.
std::vector<CheckReport> read_branches(const Options& options,
                                       std::optional<planner::LaunchFormat> format) {
  constexpr int kBranches = 4;  // the first three of every condition, and none of them
  std::vector<CheckReport> readings;
  for (int branch = 0; branch < kBranches; ++branch) {
    try {
      CheckReport reading;
      reading.config =
          planner::read_launch_file(options.file, format, arguments_of(options), branch);
      reading.found = planner::make_launch_case(reading.config, options.launch);
      reading.rules = planner::check_launch(reading.config, reading.found);
      readings.push_back(std::move(reading));
    } catch (const Error&) {
      continue;
    }
  }
  return readings;
}

bool fits(const CheckReport& reading) {
  if (!reading.rules.layout_holds) {
    return false;
  }
  planner::Estimate estimate;
  planner::Estimator(reading.found.job).estimate(reading.found.plan, estimate);
  return estimate.memory.fit != planner::Fit::kNo;
}

void judge(const Options& options, std::optional<planner::LaunchFormat> format,
           CheckReport& report) {
  std::vector<CheckReport> branches;
  if (!report.config.undecided.empty()) {
    branches = read_branches(options, format);
    std::vector<planner::RuleReport> rules;
    for (const CheckReport& branch : branches) {
      rules.push_back(branch.rules);
    }
    if (!rules.empty()) {
      planner::soften_open_errors(report.config, rules, report.rules);
    }
  }
  if (!report.config.unreadable.empty()) {
    report.verdict = {false,
                      fmt::format("arguments could not be worked out: {}; write what they come to, "
                                  "or give it after --",
                                  fmt::join(report.config.unreadable, ", "))};
    return;
  }
  if (report.rules.layout_holds) {
    report.estimate.emplace();
    planner::Estimator(report.found.job).estimate(report.found.plan, *report.estimate);
    report.verdict = verdict_of(report.config, report.found, *report.estimate,
                                std::any_of(branches.begin(), branches.end(), fits));
  }
}

int exit_code(const CheckReport& report) {
  const auto& violations = report.rules.violations;
  const bool broken = std::any_of(violations.begin(), violations.end(), [](const auto& violation) {
    return violation.severity == planner::Severity::kError;
  });
  if (broken || (report.verdict.known && !report.estimate)) {
    return kAnswerIsNo;
  }
  return report.verdict.known ? exit_code_of(report.estimate->memory) : kDone;
}

int run(const Options& options, Console& console) {
  if (options.launch.cluster.empty()) {
    throw Error(
        "--cluster",
        "is missing; give a preset with a node count (dgx-h100x8, see 'trireme clusters') or a "
        "topology file");
  }
  std::optional<planner::LaunchFormat> format;
  if (!options.format.empty()) {
    format = planner::launch_format_of(options.format);
  }
  CheckReport report;
  report.config = planner::read_launch_file(options.file, format, arguments_of(options));
  report.found = planner::make_launch_case(report.config, options.launch);
  report.rules = planner::check_launch(report.config, report.found);
  judge(options, format, report);
  if (report.config.unreadable.empty()) {
    if (report.estimate && !planner::check_plan(report.found.job, report.found.plan)) {
      report.switches = planner::switch_gains(report.found.job, report.found.plan,
                                              keys_of(options.launch.settings));
      keep_switches_that_hold(options, report);
    }
    search_better(console, report);
  }
  if (options.json) {
    print_json(console, "check", check_json(report));
  } else {
    print_check(console, report);
  }
  return exit_code(report);
}

// What the file may leave open, or have wrong: the job options of `estimate`.
void add_job_options_beside_a_file(CLI::App& command, planner::LaunchOptions& launch) {
  command
      .add_option(
          "--model", launch.model,
          "what is trained, where the file does not say: a preset, a config.json, a model file")
      ->type_name("M");
  add_count_option(command, "--seq", launch.sequence, "tokens in a sequence; overrides the file");
  add_count_option(command, "--global-batch", launch.global_batch,
                   "sequences in a step; overrides the file");
  add_count_option(command, "--micro-batch", launch.micro_batch,
                   "sequences in a micro-batch; overrides the file");
  add_count_option(
      command, "--gpus", launch.gpus,
      "ranks that are started; overrides the file (default: its launcher's, else the cluster's)");
  add_choice_option(command, "--precision", launch.precision,
                    "what matrix products run in; overrides the file",
                    {"bf16", "fp16", "fp32", "fp8"});
  add_choice_option(command, "--optimizer", launch.optimizer, "overrides the file",
                    {"adam", "adam8bit", "sgd"});
  add_choice_option(command, "--attention", launch.attention, "overrides the file",
                    {"flash", "unfused"});
  add_choice_option(command, "--recompute", launch.recompute,
                    "what backward recomputes; overrides the file", {"none", "selective", "full"});
  add_count_option(command, "--recompute-layers", launch.recompute_layers,
                   "full recompute of so many layers of each (virtual) stage");
  command
      .add_option("--recompute-modules", launch.recompute_modules,
                  "what selective recompute repeats: core_attn,layernorm,mlp,…")
      ->type_name("LIST");
  command
      .add_option("--set", launch.settings, "KEY=VALUE overrides one of the framework's choices")
      ->type_name("KEY=VALUE")
      ->take_all()
      ->expected(1)
      ->allow_extra_args(false);
}

}  // namespace

void add_check_command(CLI::App& app, Program& program) {
  auto options = std::make_shared<Options>();
  CLI::App* command = add_command(
      app, program, "check",
      "a launch configuration: broken rules, memory and time to expect, a better layout",
      "trireme check train_llama3_8b.sh --cluster dgx-h100x2 -- --micro-batch-size 2");
  command
      ->add_option(
          "file", options->file,
          "Megatron-LM script or arguments, Megatron-Bridge config, torchtitan TOML, DeepSpeed "
          "JSON or accelerate YAML")
      ->type_name("FILE")
      ->required();
  command
      ->add_option("words", options->words,
                   "words that the script takes ($1, $2, …); after --: arguments that follow those "
                   "of the file and override them")
      ->type_name("WORD");
  program.takes_rest(command, options->overrides);
  std::vector<std::string> formats;
  for (const std::string_view name : planner::launch_format_names()) {
    formats.emplace_back(name);
  }
  add_choice_option(*command, "--format", options->format, "default: by name and contents",
                    formats);
  command
      ->add_option("--cluster", options->launch.cluster,
                   "a preset with a node count (dgx-h100x16), or a topology file")
      ->type_name("C");
  add_job_options_beside_a_file(*command, options->launch);
  command
      ->add_option("--calibration", options->launch.calibration,
                   "a profile written by 'trireme calibrate'")
      ->type_name("FILE");
  command->add_flag("--json", options->json, "JSON on stdout");
  program.on(command, [options](Console& console) { return run(*options, console); });
}

}  // namespace trireme::tools
