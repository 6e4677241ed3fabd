// `trireme export`: a plan as a launch configuration of the framework that runs it.
#include <fmt/format.h>

#include <memory>

#include "core/error.h"
#include "core/files.h"
#include "core/json_reader.h"
#include "models/presets.h"
#include "planner/cost/estimate.h"
#include "planner/launch/export.h"
#include "planner/launch/field_table.h"
#include "tools/commands.h"
#include "tools/launchable.h"
#include "tools/report.h"
#include "tools/request.h"
#include "tools/sample_options.h"

namespace trireme::tools {
namespace {

struct ExportArguments {
  std::string plan_file;
  JobOptions job;
  LayoutOptions layout;
  std::string format, flavor, output, form = "benchmark", launcher = "torchrun";
  std::optional<std::int64_t> steps;
};

std::vector<std::string> format_names() {
  const auto names = planner::launch_format_names();
  return {names.begin(), names.end()};
}

// The framework that the options and the plan file name, and the sharding they ask for: what
// decides whose job is read again.
Request request_of(const ExportArguments& options, const JobOptions& job) {
  return make_request(options.plan_file, job, options.layout);
}

// What launch files cannot say is refused, not left out.
void refuse_fine_tuning(const planner::Job& job) {
  if (const std::string refusal = fine_tuning_refusal(job); !refusal.empty()) {
    throw Error("--lora-rank", refusal);
  }
}

// A plan for trireme, or for how a program shards, is read again as the format's own program's, so
// that its rules and its prediction are those of what will be started.
Request launched_request(const ExportArguments& options, planner::LaunchFormat& format) {
  Request request = request_of(options, options.job);
  refuse_fine_tuning(request.job);  // whatever the format
  const planner::Framework& framework = request.job.framework;
  format = options.format.empty() ? planner::default_launch_format(framework.name, framework.base)
                                  : planner::launch_format_of(options.format);
  const std::string launched =
      planner::launched_framework(format, framework, request.plan.sharding);
  if (launched == planner::full_name(framework)) {
    return request;
  }
  JobOptions job = options.job;
  job.framework = launched;
  return request_of(options, job);
}

void choose_form(const ExportArguments& options, planner::LaunchFormat format,
                 planner::LaunchPlan& launch) {
  constexpr std::int64_t kBenchmarkSteps = 50;
  constexpr std::int64_t kTrainingSteps = 10'000;
  const bool trains = options.form == "training";
  launch.form = trains ? planner::LaunchForm::kTraining : planner::LaunchForm::kBenchmark;
  launch.steps = options.steps.value_or(trains ? kTrainingSteps : kBenchmarkSteps);
  if (options.launcher == "slurm") {
    if (format != planner::LaunchFormat::kMegatron) {
      throw Error("--launcher", fmt::format("slurm writes a job script, which {} is not; leave it "
                                            "out and start the command of its heading by srun",
                                            planner::to_string(format)));
    }
    launch.launcher = planner::Launcher::kSlurm;
  }
}

int run(const ExportArguments& options, Console& console) {
  planner::LaunchFormat format{};
  const Request request = launched_request(options, format);
  planner::LaunchPlan launch;
  launch.job = request.job;
  launch.plan = request.plan;
  launch.flavor = options.flavor;
  choose_form(options, format, launch);
  for (const std::string& setting : request.options.settings) {
    const std::string key = setting.substr(0, setting.find('='));
    if (!planner::is_in_launch_files(key)) {
      launch.notes.push_back(fmt::format("--set {} is in the prediction only.", setting));
    }
  }
  if (models::load_model(request.options.model).multi_token_layers >
      launch.job.model.multi_token_layers) {
    launch.notes.push_back(fmt::format("{}'s extra prediction module is left out: {} trains none.",
                                       launch.job.model.name, launch.job.framework.name));
  }
  planner::set_hosts(launch);
  planner::settle_launched_job(format, launch);
  planner::Estimate estimate;
  planner::Estimator(launch.job).estimate(launch.plan, estimate);
  launch.step_seconds = estimate.time.step_seconds;
  launch.peak_allocated_gib = estimate.memory.allocated_gib;
  launch.peak_reserved_gib = estimate.memory.reserved_gib;
  launch.tokens_per_second_per_gpu = estimate.throughput.tokens_per_second_per_gpu;
  launch.model_tflops_per_gpu = estimate.throughput.model_tflops_per_gpu;
  if (!options.output.empty()) {
    launch.file = options.output;
  }
  const planner::LaunchFile file = planner::write_launch(format, launch);
  if (options.output.empty()) {
    fmt::print(console.out, "{}", file.text);
  } else {
    write_file_atomically(options.output, file.text);
  }
  if (!console.quiet) {
    fmt::print(console.err, "start {}: {}\n", planner::where_to_start(launch),
               planner::printable(file.command));
    if (estimate.memory.fit != planner::Fit::kFits) {
      fmt::print(console.err, "note: {}\n", verdict(estimate.memory));
    }
    for (const std::string& remark : file.remarks) {
      fmt::print(console.err, "note: {}\n", planner::printable(remark));
    }
  }
  return kDone;
}

}  // namespace

void add_export_command(Command& app, Program& program) {
  auto options = std::make_shared<ExportArguments>();
  Command* command = add_command(
      app, program, "export", "a plan as a launch configuration of the framework that runs it",
      "trireme export plan.json --format megatron -o run.sh\n  trireme export --model llama-3.1-8b "
      "--cluster dgx-h100x1 --framework fsdp2 --seq 8192 --sharding full -o llama.toml");
  add_plan_file_option(*command, options->plan_file);
  add_job_options(*command, options->job);
  add_sample_options(*command, options->job);
  add_layout_options(*command, options->layout);
  add_choice_option(*command, "--format", options->format,
                    "whose configuration (default: that of the plan's framework)", format_names());
  command
      ->add_option("--flavor", options->flavor,
                   "torchtitan's name of the model's size, e.g. 8B; needed where the model's name "
                   "does not say it")
      ->type_name("NAME");
  add_choice_option(*command, "--form", options->form,
                    "benchmark: mock data and 50 steps; training: data, tokenizer and checkpoints "
                    "come from the environment (default benchmark)",
                    {"benchmark", "training"});
  add_count_option(*command, "--steps", options->steps,
                   "steps of the run (default: 50, or 10,000 of training)");
  add_choice_option(*command, "--launcher", options->launcher,
                    "torchrun on each host, or a Slurm job script (default torchrun)",
                    {"torchrun", "slurm"});
  command->add_option("-o,--output", options->output, "write to a file instead of stdout")
      ->type_name("FILE");
  program.on(command, [options](Console& console) { return run(*options, console); });
}

}  // namespace trireme::tools
