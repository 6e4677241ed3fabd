// `trireme check`: a launch configuration's broken rules, its memory and time, a better layout.
#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "planner/launch/launch_layout.h"
#include "planner/plan/names.h"
#include "tools/check_report.h"
#include "tools/commands.h"
#include "tools/options.h"
#include "tools/pages.h"
#include "tools/progress.h"
#include "tools/report_option.h"

namespace trireme::tools {
namespace {

struct CheckArguments {
  std::string file, format, report;
  planner::LaunchOptions launch;
  std::vector<std::string> words;      // the script's own
  std::vector<std::string> overrides;  // after --
  bool json = false;
};

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

int run(const CheckArguments& options, Console& console) {
  check_recompute_options(options.launch.recompute, options.launch.recompute_layers.has_value(),
                          !options.launch.recompute_modules.empty());
  CheckRequest request{options.file, options.format, options.words, options.launch};
  request.arguments.insert(request.arguments.end(), options.overrides.begin(),
                           options.overrides.end());
  Progress progress(console, "searching");
  const CheckReport report = check_file(request, [&](double share) { progress.show(share); });
  progress.clear();
  if (!options.report.empty()) {
    write_page(options.report, check_page(report));
  }
  if (options.json) {
    print_check_json(console, report);
  } else {
    print_check(console, report);
  }
  return exit_code(report);
}

// What the file may leave open, or have wrong: the job options of `estimate`.
void add_job_options_beside_a_file(Command& command, planner::LaunchOptions& launch) {
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
  command
      .add_option("--framework", launch.framework,
                  "whose behaviour is modelled (default: the file's own program, as of the release "
                  "that the file tells)")
      ->type_name("NAME[@VERSION]");
  add_choice_option(command, "--precision", launch.precision,
                    "what matrix products run in; overrides the file",
                    planner::kPrecisionNames.names());
  add_choice_option(command, "--optimizer", launch.optimizer, "overrides the file",
                    planner::kOptimizerNames.names());
  add_choice_option(command, "--attention", launch.attention, "overrides the file",
                    planner::kAttentionNames.names());
  add_choice_option(command, "--recompute", launch.recompute,
                    "what backward recomputes; overrides the file",
                    planner::kRecomputeNames.names());
  add_count_option(command, "--recompute-layers", launch.recompute_layers,
                   "full recompute of so many layers of each (virtual) stage");
  command
      .add_option("--recompute-modules", launch.recompute_modules,
                  "what selective recompute repeats: core_attn,layernorm,mlp,…")
      ->type_name("LIST");
  add_settings_option(command, "--set", launch.settings,
                      "KEY=VALUE overrides one of the framework's choices");
}

}  // namespace

void add_check_command(Command& app, Program& program) {
  auto options = std::make_shared<CheckArguments>();
  Command* command = add_command(
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
  add_report_option(*command, options->report);
  command->add_flag("--json", options->json, "JSON on stdout");
  program.on(command, [options](Console& console) { return run(*options, console); });
}

}  // namespace trireme::tools
