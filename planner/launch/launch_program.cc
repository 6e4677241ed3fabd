#include "planner/launch/launch_program.h"

#include <fmt/format.h>

#include <algorithm>

#include "planner/plan/framework_versions.h"

namespace trireme::planner {
namespace {

struct Program {
  LaunchFormat format;
  std::string_view base, entry;
};

constexpr Program kPrograms[] = {
    {LaunchFormat::kTorchtitan, "fsdp2", "torchtitan"},
    {LaunchFormat::kAccelerate, "fsdp2", "accelerate"},
    {LaunchFormat::kAccelerate, "fsdp1", "accelerate-fsdp1"},
};

// A setting as the file spells it, and the newest release that takes it: torchtitan's [compile] is
// of 2025-08-20 (#1608), local_batch_size of 2025-06-05 (#1238), [parallelism] of spring 2025.
struct OlderName {
  LaunchFormat format;
  std::string_view spelled, release;
};

constexpr OlderName kOlderNames[] = {
    {LaunchFormat::kTorchtitan, "training.tensor_parallel_degree", "2024-12"},
    {LaunchFormat::kTorchtitan, "training.data_parallel_degree", "2024-12"},
    {LaunchFormat::kTorchtitan, "training.data_parallel_shard_degree", "2024-12"},
    {LaunchFormat::kTorchtitan, "experimental.pipeline_parallel_degree", "2024-12"},
    {LaunchFormat::kTorchtitan, "experimental.context_parallel_degree", "2024-12"},
    {LaunchFormat::kTorchtitan, "training.batch_size", "2025-05"},
    {LaunchFormat::kTorchtitan, "training.compile", "2025-07"},
};

bool is_listed(const std::string& entry, std::string_view release) {
  const std::vector<FrameworkVersion>& all = framework_versions();
  return std::any_of(all.begin(), all.end(), [&](const FrameworkVersion& one) {
    return one.name == entry && one.version == release;
  });
}

// "0.2.2" behind "torchtitan v" in a line that begins with '#'.
std::string release_in_comments(const std::string& entry, std::string_view text) {
  const std::string words = entry + " v";
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    const std::size_t at = line.find(words);
    if (line.starts_with('#') && at != std::string_view::npos) {
      const std::string_view rest = line.substr(at + words.size());
      std::string release(rest.substr(0, rest.find_first_not_of("0123456789.")));
      release.erase(release.find_last_not_of('.') + 1);
      return release;
    }
  }
  return {};
}

}  // namespace

std::string program_of(LaunchFormat format, const std::string& base) {
  const auto* found =
      std::find_if(std::begin(kPrograms), std::end(kPrograms),
                   [&](const Program& one) { return one.format == format && one.base == base; });
  return found == std::end(kPrograms) ? base : std::string(found->entry);
}

bool is_program(const std::string& entry) {
  return std::any_of(std::begin(kPrograms), std::end(kPrograms),
                     [&](const Program& one) { return one.entry == entry; });
}

std::string release_of(const LaunchConfig& config, std::string_view text) {
  const std::string entry = program_of(config.format, config.framework);
  if (std::string release = release_in_comments(entry, text); !release.empty()) {
    return is_listed(entry, release) ? release : std::string();
  }
  for (const OlderName& name : kOlderNames) {
    const bool is_there =
        std::any_of(config.settings.begin(), config.settings.end(),
                    [&](const LaunchSetting& setting) { return setting.spelled == name.spelled; });
    if (name.format == config.format && is_there) {
      return std::string(name.release);
    }
  }
  return {};
}

}  // namespace trireme::planner
