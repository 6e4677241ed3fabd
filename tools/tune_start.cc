#include "tools/tune_start.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string_view>

#include "core/error.h"
#include "core/files.h"
#include "planner/calibrate/training_log.h"
#include "planner/launch/export.h"
#include "planner/launch/field_table.h"
#include "tools/child_process.h"
#include "tools/request.h"

namespace trireme::tools {
namespace {

namespace fs = std::filesystem;

// Nothing where the program ended before it wrote any.
std::string content_of(const std::string& path) {
  return fs::exists(path) ? read_file(path, "what the run wrote") : "";
}

std::string content_of(std::FILE* file) {
  std::string text;
  std::rewind(file);
  for (int c = std::fgetc(file); c != EOF; c = std::fgetc(file)) {
    text.push_back(static_cast<char>(c));
  }
  return text;
}

bool is_own(const TuneStart& start) {
  return start.job.framework.empty() || start.job.framework == "trireme";
}

planner::LaunchFormat format_of(const TuneStart& start) {
  return start.format.empty()
             ? planner::default_launch_format(start.job.framework,
                                              planner::find_framework(start.job.framework).base)
             : planner::launch_format_of(start.format);
}

std::string path_of(const TuneStart& start, const std::string& name, const std::string& suffix) {
  return fs::absolute(fs::path(start.folder) / (name + suffix)).string();
}

const char* suffix_of(planner::LaunchFormat format) {
  switch (format) {
    case planner::LaunchFormat::kMegatron:
      return ".sh";
    case planner::LaunchFormat::kMegatronBridge:
      return ".py";
    case planner::LaunchFormat::kTorchtitan:
      return ".toml";
    case planner::LaunchFormat::kDeepspeed:
      return ".json";
    case planner::LaunchFormat::kAccelerate:
      return ".yaml";
  }
  return "";
}

// The command that `trireme export` names, after it has written the file. Throws Error with what it
// refused.
std::string export_file(const TuneStart& start, const std::string& plan, const std::string& file) {
  std::vector<std::string> words = {"export",   plan,
                                    "--format", std::string(planner::to_string(format_of(start))),
                                    "--steps",  std::to_string(start.steps),
                                    "-o",       file};
  if (!start.flavor.empty()) {
    words.insert(words.end(), {"--flavor", start.flavor});
  }
  Console console;
  console.out = std::tmpfile();
  console.err = std::tmpfile();
  const int code = run_program(words, console);
  const std::string said = content_of(console.err);
  std::fclose(console.out);
  std::fclose(console.err);
  if (code != kDone) {
    throw Error("export", said.substr(0, said.find('\n')));
  }
  const std::size_t at = said.find(": ", said.find("start "));
  return said.substr(at + 2, said.find('\n', at) - at - 2);
}

std::string own_command(const TuneStart& start, const std::string& plan,
                        const std::string& result) {
  const std::string program = fs::read_symlink("/proc/self/exe").string();
  return fmt::format("{} run {} --backend {} --steps {} -o {} -q", planner::shell_word(program),
                     planner::shell_word(plan), start.backend, start.steps,
                     planner::shell_word(result));
}

void replace_all(std::string& text, const std::string& what, const std::string& by) {
  for (std::size_t at = text.find(what); at != std::string::npos;
       at = text.find(what, at + by.size())) {
    text.replace(at, what.size(), by);
  }
}

bool says_out_of_memory(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text.find("out of memory") != std::string::npos ||
         text.find("outofmemory") != std::string::npos;
}

std::string last_line(const std::string& text) {
  std::istringstream stream(text);
  std::string last;
  for (std::string line; std::getline(stream, line);) {
    last = line.empty() ? last : line;
  }
  constexpr std::size_t kLongest = 300;
  return planner::printable(last.substr(0, kLongest));
}

double seconds_in(const std::string& log, const std::string& result,
                  const planner::Estimate& estimate, const planner::Job& job) {
  if (!result.empty()) {
    return nlohmann::json::parse(content_of(result)).at("median_step_seconds").get<double>();
  }
  const planner::StepLog steps = planner::parse_step_log(content_of(log), log);
  const auto tokens = static_cast<double>(job.global_batch * job.sequence);
  return planner::steady_step_seconds(steps, tokens, static_cast<double>(estimate.plan.gpus()));
}

bool has_steps(const std::string& text, const std::string& log, std::int64_t steps) {
  try {
    const planner::StepLog found = planner::parse_step_log(text, log);
    const std::size_t logged = std::max(found.step_seconds.size(), found.tokens_per_second.size());
    return logged >= static_cast<std::size_t>(steps);
  } catch (const Error&) {
    return false;
  }
}

void judge(std::int64_t steps, const Ended& ended, const std::string& log,
           const std::string& result, const planner::Estimate& estimate, const planner::Job& job,
           TuneRun& run) {
  const std::string text = content_of(log);
  const bool ran = !ended.timed_out && ended.exit_code == 0;
  // Programs may hang while they leave: what has all its steps in its log was measured.
  const bool hangs_at_its_end = ended.timed_out && result.empty() && has_steps(text, log, steps);
  if (ran || hangs_at_its_end) {
    try {
      run.measured_seconds = seconds_in(log, result, estimate, job);
      run.outcome = TuneOutcome::kOk;
      return;
    } catch (const std::exception& error) {
      run.detail = planner::printable(error.what());
    }
  }
  if (says_out_of_memory(text)) {
    run.outcome = TuneOutcome::kOutOfMemory;
    run.detail.clear();
  } else if (ended.timed_out) {
    run.outcome = TuneOutcome::kTimeout;
    run.detail = fmt::format("ended after {:.0f} s", ended.seconds);
  } else if (!ran && ended.exit_code == kMissingMachine && !result.empty()) {
    throw Error("--backend", last_line(text), ErrorKind::kMissingMachine);
  } else if (!ran) {
    run.detail = fmt::format("exit code {}: {}", ended.exit_code, last_line(text));
  }
}

}  // namespace

void name_program(TuneStart& start) {
  if (!is_own(start)) {
    start.job.framework = planner::launched_framework(
        format_of(start), planner::find_framework(start.job.framework), planner::Sharding::kNone);
  }
}

std::string launch_file_of(const TuneStart& start, const std::string& name) {
  return is_own(start) ? "" : path_of(start, name, suffix_of(format_of(start)));
}

TuneRun start_run(const TuneStart& start, const std::string& name,
                  const planner::Estimate& estimate, double limit) {
  const std::string plan = path_of(start, name, ".plan.json");
  const std::string log = path_of(start, name, ".log");
  const std::string result = is_own(start) ? path_of(start, name, ".result.json") : "";
  const std::string file = is_own(start) ? plan : launch_file_of(start, name);
  write_plan_file(plan, start.job, estimate);
  TuneRun run;
  run.name = name;
  run.layout = planner::short_form(estimate.plan);
  run.plan = estimate.plan;
  run.predicted_seconds = estimate.time.step_seconds;
  run.predicted_reserved_gib = estimate.memory.reserved_gib;
  std::string command;
  try {
    command = is_own(start) ? own_command(start, plan, result) : export_file(start, plan, file);
  } catch (const Error& error) {
    run.detail = error.what();
    constexpr std::string_view kFlavor = "export: trireme: --flavor: ";
    if (run.detail.starts_with(kFlavor)) {  // what was asked for, whatever the layout
      throw Error("--flavor", run.detail.substr(kFlavor.size()));
    }
    return run;
  }
  std::string submit = start.submit.empty() ? "{command}" : start.submit;
  replace_all(submit, "{file}", planner::shell_word(file));
  replace_all(submit, "{log}", planner::shell_word(log));
  replace_all(submit, "{layout}", run.layout);
  replace_all(submit, "{command}", command);
  fs::remove(result.empty() ? log : result);
  const Ended ended = run_command(submit, log, limit);
  run.wall_seconds = ended.seconds;
  judge(start.steps, ended, log, result, estimate, make_job(start.job), run);
  return run;
}

}  // namespace trireme::tools
