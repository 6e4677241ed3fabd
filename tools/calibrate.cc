// `trireme calibrate`: from measurements to a profile. It measures the GPUs at hand, or fits what
// was measured before: raw points, logs of nccl-tests, whole runs.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/files.h"
#include "core/json_reader.h"
#include "core/json_text.h"
#include "core/microbenchmarks_json.h"
#include "planner/calibrate/machine.h"
#include "planner/calibrate/measurement_file.h"
#include "planner/calibrate/training_log.h"
#include "planner/calibrate/validation.h"
#include "tools/calibrate_cuda.h"
#include "tools/calibrate_report.h"
#include "tools/commands.h"
#include "tools/plan_file.h"
#include "tools/request.h"

namespace trireme::tools {
namespace {

using topologies::Profile;

struct CalibrateArguments {
  bool quick = false, json = false, in_place = false, other_card = false;
  std::string output = "profile.json";
  std::string raw, from_points, operation;
  std::vector<std::string> fit, from_run;
  JobOptions job;
  LayoutOptions layout;
};

Profile empty_profile() {
  Profile profile;
  profile.name.clear();
  return profile;
}

// The profile that is built on: --calibration's as its file has it, else an empty one.
Profile base_profile(const CalibrateArguments& options) {
  return options.job.calibration.empty() ? empty_profile()
                                         : topologies::load_profile(options.job.calibration);
}

// Without what the shipped profile filled in.
Profile measured_part(Profile profile) {
  if (std::ranges::find(profile.shipped_parts, "gpus") != profile.shipped_parts.end()) {
    profile.gpus.clear();
  }
  return profile;
}

// New fits of GPUs and collectives take the place of those in `base`.
Profile laid_over(Profile base, const Profile& found) {
  if (!found.gpus.empty()) {
    if (std::erase(base.shipped_parts, "gpus") > 0) {
      base.gpus.clear();
    }
    for (const auto& [name, fit] : found.gpus) {
      base.gpus[name] = fit;
    }
    base.machine = found.machine;
    base.topology = found.topology;
    base.points = found.points;
  }
  for (const auto& [name, constants] : found.networks) {
    base.networks[name] = constants;
  }
  for (const auto& [name, constants] : found.frameworks) {
    base.frameworks[name] = constants;
    std::erase(base.shipped_parts, "framework " + name);
  }
  for (const topologies::CollectiveTable& table : found.collectives) {
    std::erase_if(base.collectives, [&table](const topologies::CollectiveTable& old) {
      return old.operation == table.operation && old.gpu == table.gpu &&
             old.network == table.network && old.ranks == table.ranks &&
             old.ranks_per_node == table.ranks_per_node;
    });
    base.collectives.push_back(table);
  }
  if (!found.overlaps.empty()) {
    base.overlaps = found.overlaps;
  }
  for (const auto& [what, residual] : found.residuals) {
    base.residuals[what] = residual;
  }
  return base;
}

// What was measured elsewhere names no clocks and versions, but the card: a profile says whose it
// is.
void name_machine(Profile& profile, const topologies::Cluster& cluster) {
  if (!profile.machine) {
    profile.machine = MachineFingerprint{};
    profile.machine->gpu = cluster.gpu.name;
    profile.machine->gpus = cluster.gpus;
    profile.topology = cluster.name;
  }
}

int save_and_print(const CalibrateArguments& options, Profile profile, CalibrationReport report,
                   const Console& console) {
  if (profile.name.empty()) {
    profile.name = std::filesystem::path(options.output).stem().string();
  }
  topologies::save_profile(profile, options.output);
  report.output = options.output;
  print_calibration(console, report, topologies::with_shipped_parts(profile), options.json);
  return kDone;
}

topologies::Cluster named_cluster(const CalibrateArguments& options, const std::string& why) {
  if (options.job.cluster.empty()) {
    throw Error("--cluster", "is missing; " + why);
  }
  return topologies::load_cluster(options.job.cluster);
}

int fit_points(const CalibrateArguments& options, const Microbenchmarks& points,
               const std::string& source, const Console& console) {
  planner::ProfileFitSettings settings;
  settings.cluster = options.job.cluster.empty() ? planner::cluster_of_machine(points.machine)
                                                 : topologies::load_cluster(options.job.cluster);
  settings.source = source;
  Profile base = base_profile(options);
  settings.base = measured_part(base);
  planner::ProfileFit fit = planner::fit_profile(points, settings);
  CalibrationReport report;
  report.fits = std::move(fit.lines);
  report.collectives = std::move(fit.collectives);
  Profile profile = laid_over(std::move(base), fit.profile);
  profile.name = profile.name.empty() ? fit.profile.name : profile.name;
  return save_and_print(options, std::move(profile), std::move(report), console);
}

int measure(const CalibrateArguments& options, const Console& console) {
  const Measurement measurement{
      .quick = options.quick,
      .gpus = options.job.gpus,
      .check =
          [&](const MachineFingerprint& machine) {
            if (options.job.cluster.empty()) {
              planner::cluster_of_machine(machine);
            }
          },
      .finish =
          [&](const Microbenchmarks& points) {
            if (!options.raw.empty()) {
              write_file_atomically(options.raw, readable_json(microbenchmarks_to_json(points)));
            }
            return fit_points(options, points, "measured by trireme calibrate", console);
          }};
  return measure_on_gpus(measurement, console);
}

int fit_files(const CalibrateArguments& options, const Console& console) {
  planner::MeasurementHints hints;
  hints.cluster = named_cluster(
      options, "--fit needs the machine that was measured, a preset or a topology file");
  hints.operation = options.operation;
  hints.ranks = options.job.gpus;
  hints.in_place = options.in_place;
  hints.other_card = options.other_card;
  Profile profile = base_profile(options);
  CalibrationReport report;
  std::vector<planner::CollectiveMeasurement> collectives;
  for (const std::string& path : options.fit) {
    planner::MeasurementFile file = planner::read_measurements(path, hints);
    report.remarks.insert(report.remarks.end(), file.remarks.begin(), file.remarks.end());
    const std::string name = std::filesystem::path(path).filename().string();
    if (file.collectives.empty()) {
      planner::ProfileFit fit = planner::fit_profile(file.points, {.cluster = hints.cluster,
                                                                   .source = name,
                                                                   .host_timed = file.host_timed,
                                                                   .base = measured_part(profile)});
      report.fits.insert(report.fits.end(), fit.lines.begin(), fit.lines.end());
      report.collectives.insert(report.collectives.end(), fit.collectives.begin(),
                                fit.collectives.end());
      profile = laid_over(std::move(profile), fit.profile);
      continue;
    }
    for (planner::CollectiveMeasurement& one : file.collectives) {
      one.source = name;
      collectives.push_back(std::move(one));
    }
    report.tables.insert(report.tables.end(), file.tables.begin(), file.tables.end());
  }
  if (!collectives.empty()) {
    name_machine(profile, hints.cluster);
    const auto lines = planner::fit_collectives(collectives, profile);
    report.collectives.insert(report.collectives.end(), lines.begin(), lines.end());
    for (const planner::CollectiveFitReport& line : lines) {
      profile.residuals[line.name] = line.regimes_error;
    }
    report.measured = std::move(collectives);
  }
  return save_and_print(options, std::move(profile), std::move(report), console);
}

// Rows in the published format, each with its own job and layout.
void add_rows(const std::string& text, const std::string& path, const Profile& profile,
              std::vector<planner::MeasuredRun>& runs, std::vector<std::string>& remarks) {
  const std::string name = std::filesystem::path(path).stem().string();
  for (const planner::ValidationCase& one :
       planner::validation_cases({planner::parse_published(text, name)}, profile)) {
    if (!one.found.skipped.empty() || !one.measured_seconds || !one.row.outcome.empty()) {
      const std::string why = !one.found.skipped.empty() ? one.found.skipped
                              : !one.measured_seconds    ? "no step time"
                                                         : "outcome " + one.row.outcome;
      remarks.push_back(fmt::format("{}: passed over: {}", one.row.id, why));
      continue;
    }
    planner::MeasuredRun run;
    run.name = one.row.id;
    run.step_seconds = *one.measured_seconds;
    run.job = one.found.job;
    run.plan = one.found.plan;
    runs.push_back(std::move(run));
  }
}

// A log says how long steps took; the flags say of what.
planner::MeasuredRun run_of_log(const std::string& text, const std::string& path,
                                const CalibrateArguments& options) {
  const planner::StepLog log = planner::parse_step_log(text, path);
  const Request request = make_request("", options.job, options.layout);
  planner::MeasuredRun run;
  run.name = fmt::format("{} ({})", std::filesystem::path(path).filename().string(), log.format);
  run.job = request.job;
  run.plan = request.plan;
  const auto tokens = static_cast<double>(request.job.global_batch * request.job.sequence);
  run.step_seconds =
      planner::steady_step_seconds(log, tokens, static_cast<double>(request.plan.gpus()));
  return run;
}

// A result of `run` names its job, which is predicted anew under the profile that is corrected; the
// cluster it ran on may come from the flags. Results without either carry predictions of their own.
planner::MeasuredRun run_of_result(const std::string& path, const CalibrateArguments& options) {
  const nlohmann::json json = read_json_file(path);
  JsonReader reader(json, path);
  JobOptions given;
  if (reader.has("job")) {
    JobOptions over;
    over.cluster = options.job.cluster;
    given = merged(read_job_options(reader.object("job")), over);
  }
  if (given.cluster.empty()) {
    return planner::read_run_result(path);
  }
  planner::MeasuredRun run;
  run.name = path;
  run.step_seconds = reader.number("median_step_seconds", 1e-9, 1e9);
  run.plan = read_layout(reader.object("layout"));
  given.gpus = run.plan.gpus();
  given.calibration.clear();
  run.job = make_job(given);
  complete(*run.job, run.plan);
  return run;
}

// An object, or an array of them. Lines of logs may begin with a bracket too: [rank0]:, [titan], a
// time.
bool is_json(const std::string& text) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string::npos || text[first] != '[') {
    return first != std::string::npos && text[first] == '{';
  }
  const std::size_t second = text.find_first_not_of(" \t\r\n", first + 1);
  return second != std::string::npos && (text[second] == '{' || text[second] == ']');
}

int fit_from_runs(const CalibrateArguments& options, const Console& console) {
  Profile profile = options.job.calibration.empty()
                        ? topologies::with_shipped_parts(empty_profile())
                        : topologies::load_profile(options.job.calibration);
  CalibrationReport report;
  std::vector<planner::MeasuredRun> runs;
  for (const std::string& path : options.from_run) {
    const std::string text = read_file(path, "a run, rows or a log", planner::kMeasurementsMost);
    const bool json = is_json(text);
    if (json && text.find("\"trireme.run/") != std::string::npos) {
      runs.push_back(run_of_result(path, options));
    } else if (json) {
      add_rows(text, path, profile, runs, report.remarks);
    } else {
      runs.push_back(run_of_log(text, path, options));
    }
  }
  if (!runs.empty() && runs.front().job) {
    name_machine(profile, runs.front().job->cluster);
  }
  report.runs = planner::fit_runs(runs, profile);
  return save_and_print(options, std::move(profile), std::move(report), console);
}

int run(const CalibrateArguments& options, const Console& console) {
  const int sources = (options.fit.empty() ? 0 : 1) + (options.from_run.empty() ? 0 : 1) +
                      (options.from_points.empty() ? 0 : 1);
  if (sources > 1) {
    throw Error("calibrate",
                "give one of --fit, --from-points and --from-run; build up a profile "
                "in steps with --calibration and -o");
  }
  const auto folder = std::filesystem::path(options.output).parent_path();
  if (!folder.empty() && !std::filesystem::is_directory(folder)) {
    throw Error(options.output,
                fmt::format("cannot be written: there is no folder {}", folder.string()));
  }
  if (!options.fit.empty()) {
    return fit_files(options, console);
  }
  if (!options.from_run.empty()) {
    return fit_from_runs(options, console);
  }
  if (!options.from_points.empty()) {
    return fit_points(
        options,
        microbenchmarks_from_json(read_json_file(options.from_points), options.from_points),
        "measured by trireme calibrate", console);
  }
  return measure(options, console);
}

}  // namespace

void add_calibrate_command(Command& app, Program& program) {
  auto options = std::make_shared<CalibrateArguments>();
  Command* command = add_command(
      app, program, "calibrate",
      "measures this machine's GPUs, or fits what was measured, and writes a profile for "
      "--calibration",
      "trireme calibrate --fit all_reduce.log --cluster dgx-h100x2 -o profile.json");
  command->add_flag("--quick", options->quick, "measure fewer sizes: under a minute on two GPUs");
  command->add_option("-o,--output", options->output, "the profile to write")
      ->default_text("profile.json");
  command->add_option("--raw", options->raw, "keep the raw points in this file too");
  command->add_option("--from-points", options->from_points, "fit raw points that --raw kept");
  command->add_option("--fit", options->fit,
                      "fit files of measurements: logs of nccl-tests, JSON tables of collectives, "
                      "JSON lines of micro-benchmarks; --cluster says of which machine");
  command->add_option("--op", options->operation,
                      "the collective of a log that does not name its tool");
  command->add_flag("--other-card", options->other_card,
                    "take logs of another card than the cluster's");
  command->add_flag("--in-place", options->in_place, "fit the in-place columns of logs");
  command->add_option("--from-run", options->from_run,
                      "correct the profile of --calibration (else the shipped one) by measured "
                      "runs: results of trireme run -o, rows in the format of validate --rows, "
                      "logs of Megatron-LM or torchtitan with the job and layout as flags");
  add_job_options(*command, options->job);
  add_layout_options(*command, options->layout);
  command->add_flag("--json", options->json, "JSON on stdout");
  program.on(command, [options](Console& console) { return run(*options, console); });
}

}  // namespace trireme::tools
