#include "tools/run_alike.h"

#include <fmt/format.h>

#include <filesystem>
#include <system_error>

#include "core/program_text.h"
#include "core/random.h"
#include "tools/build_facts.h"

namespace trireme::tools {
namespace {

std::string given(bool is) {
  return is ? "one" : "none";
}

std::string shortest(double value) {
  return fmt::format("{}", value);  // the shortest text that reads back as the same number
}

}  // namespace

std::vector<runtime::Told> told_of(const RunDescription& run,
                                   const runtime::TrainSettings& settings,
                                   const std::string& data) {
  return {
      {"trireme --version", version()},
      {"--backend", run.backend},
      {"--precision", run.precision},
      {"--model", run.job.model.name},
      {"--seq", std::to_string(run.job.sequence)},
      {"--global-batch", std::to_string(run.job.global_batch)},
      {"--framework", run.job.framework.name},
      {"--layout", planner::short_form(run.plan)},
      {"--set", fmt::format("{}", fmt::join(run.options.settings, " "))},
      {"--steps", std::to_string(settings.steps)},
      {"--seed", std::to_string(settings.seed)},
      {"--data", data},
      {"--lr", shortest(settings.learning_rate)},
      {"--warmup", std::to_string(settings.warmup)},
      {"--betas", shortest(settings.beta1) + "," + shortest(settings.beta2)},
      {"--weight-decay", shortest(settings.weight_decay)},
      {"--clip", shortest(settings.max_norm)},
      {"--save", given(!settings.save_folder.empty())},
      {"--save-every", std::to_string(settings.save_every)},
      {"--resume", given(!settings.resume_folder.empty())},
      {"--deterministic", run.deterministic ? "yes" : "no"},
      {"--trace", given(settings.timed)},
      // What is left: model files of one name, calibrations, builds of one version.
      {"the step program", fmt::format("{:016x}", fingerprint(run.program))},
  };
}

std::string data_text(const std::string& file, const runtime::TokenSource& tokens,
                      std::int64_t sequences, std::int64_t sequence) {
  if (file.empty()) {
    return "synthetic tokens";
  }
  std::vector<std::int32_t> read(static_cast<std::size_t>(sequence + 1));
  std::uint64_t key = 0;
  for (std::int64_t index = 0; index < sequences; ++index) {
    tokens.read(index, read);
    for (const std::int32_t token : read) {
      key = random_bits(key, static_cast<std::uint64_t>(token));
    }
  }
  std::error_code unseen;
  return fmt::format("a file of {} bytes, its first batch {:016x}",
                     std::filesystem::file_size(file, unseen), key);
}

}  // namespace trireme::tools
