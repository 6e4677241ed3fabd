#include "planner/launch/read_launch.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "core/error.h"
#include "core/files.h"
#include "models/model_names.h"
#include "planner/launch/launch_command.h"
#include "planner/launch/launch_layout.h"
#include "planner/launch/trainers/trainer.h"
#include "planner/launch/yaml_kinds.h"
#include "planner/shell/command_string.h"

namespace trireme::planner {
namespace {

constexpr std::size_t kFileMax = 4'000'000;

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

std::string read_text(const std::string& path) {
  std::string content = read_file(path, "a launch configuration", kFileMax);
  if (content.find('\0') != std::string::npos) {
    throw Error(path, "is not text; a launch configuration would be right");
  }
  if (content.find_first_not_of(" \t\r\n") == std::string::npos) {
    throw Error(path, "is empty; a launch configuration would be right");
  }
  return content;
}

// The folder that files of a script may lie below: its repository's, else its own.
std::filesystem::path root_of(const std::filesystem::path& folder) {
  namespace fs = std::filesystem;
  constexpr int kLevels = 8;
  std::error_code failed;
  fs::path root = folder;
  for (int level = 0; level < kLevels && root.has_relative_path(); ++level) {
    if (fs::exists(root / ".git", failed)) {
      return root;
    }
    root = root.parent_path();
  }
  return folder;
}

// Where a script was written for another place (/workspace/project/models/x.sh): the file with the
// longest end of its name below the root; empty: none.
std::filesystem::path by_its_tail(const std::filesystem::path& root,
                                  const std::filesystem::path& name) {
  namespace fs = std::filesystem;
  std::error_code failed;
  for (auto first = name.begin(); first != name.end(); ++first) {
    fs::path tail;
    for (auto part = first; part != name.end(); ++part) {
      tail /= *part;
    }
    if (tail.is_relative() && fs::is_regular_file(root / tail, failed)) {
      return fs::weakly_canonical(root / tail, failed);
    }
  }
  return {};
}

// A file that a script names, in or below its own folder or in its repository.
std::optional<std::string> read_beside(const std::string& script, const std::string& name) {
  namespace fs = std::filesystem;
  std::error_code failed;
  const fs::path folder = fs::weakly_canonical(fs::absolute(script), failed).parent_path();
  const fs::path given(name);
  fs::path file = fs::weakly_canonical(given.is_absolute() ? given : folder / given, failed);
  if (!given.is_absolute() && !fs::exists(file, failed)) {
    file = fs::weakly_canonical(fs::absolute(given), failed);  // named from where check was started
  }
  const fs::path root = root_of(folder);
  // named from a folder between the script's and its repository's, as `bash scripts/x.sh` leaves it
  for (fs::path from = folder.parent_path(); !given.is_absolute() && !fs::exists(file, failed) &&
                                             from.string().starts_with(root.string());
       from = from.parent_path()) {
    file = fs::weakly_canonical(from / given, failed);
  }
  if (!fs::exists(file, failed)) {
    file = by_its_tail(root, given);
  }
  const auto inside =
      std::mismatch(root.begin(), root.end(), file.begin(), file.end()).first == root.end();
  if (!inside || !fs::is_regular_file(file, failed)) {
    return {};
  }
  return read_text(file.string());
}

// torchtitan's own TOML, whatever its comments say of how it is started.
bool has_titan_sections(std::string_view text) {
  return contains(text, "\n[parallelism]") || contains(text, "\n[training]") ||
         text.starts_with("[training]") || text.starts_with("[model]");
}

std::optional<LaunchFormat> by_contents(std::string_view text) {
  const std::size_t first = std::min(text.find_first_not_of(" \t\r\n"), text.size());
  if (first < text.size() && text[first] == '{') {
    return LaunchFormat::kDeepspeed;
  }
  if (has_titan_sections(text) || starts_torchtitan(text)) {
    return LaunchFormat::kTorchtitan;
  }
  if (contains(text, "distributed_type:") || contains(text, "fsdp_config:")) {
    return LaunchFormat::kAccelerate;
  }
  if (contains(text, "cfg.model.") || contains(text, "config.model.") ||
      contains(text, "run_recipe.py") || contains(text, "megatron.bridge")) {
    return LaunchFormat::kMegatronBridge;
  }
  for (const char* flag : {"--tensor-model-parallel-size", "--num-layers", "--micro-batch-size",
                           "--seq-length", "--tensor_model_parallel_size", "--num_layers",
                           "--micro_batch_size", "--seq_length", "megatron sft ", "megatron pt "}) {
    if (contains(text, flag)) {
      return LaunchFormat::kMegatron;
    }
  }
  if (contains(text, "model.tensor_model_parallel_size") ||
      contains(text, "train.global_batch_size")) {
    return LaunchFormat::kMegatronBridge;
  }
  return {};
}

}  // namespace

bool reads_format(LaunchFormat format) {
  return (format != LaunchFormat::kTorchtitan || reads_toml()) &&
         (format != LaunchFormat::kAccelerate || reads_yaml());
}

LaunchFormat recognise_format(const std::string& path, std::string_view text) {
  const std::string extension = std::filesystem::path(path).extension().string();
  const auto contents = by_contents(text);
  const bool yaml = extension == ".yaml" || extension == ".yml";
  if (yaml && (is_swift_megatron_yaml(text) || is_flag_yaml(text))) {
    return LaunchFormat::kMegatron;
  }
  if (yaml && is_primus_yaml(text, "torchtitan")) {
    return LaunchFormat::kTorchtitan;
  }
  if (yaml && is_megatron_yaml(text)) {
    return LaunchFormat::kMegatronBridge;
  }
  const bool braces = yaml && text.starts_with('{');
  refuse_other_file(text, path, contents && !braces);
  if (extension == ".toml") {
    return LaunchFormat::kTorchtitan;
  }
  if (extension == ".json") {
    return LaunchFormat::kDeepspeed;
  }
  if (yaml) {
    return LaunchFormat::kAccelerate;
  }
  if (extension == ".py") {
    return LaunchFormat::kMegatronBridge;
  }
  if (!contents) {
    throw Error(path, fmt::format("is none of the formats that are known by their contents; give "
                                  "--format, one of {}",
                                  fmt::join(launch_format_names(), ", ")));
  }
  return *contents;
}

namespace {

LaunchConfig read_flag_yaml(std::string_view text, const std::string& source,
                            const std::vector<std::string>& arguments,
                            const LaunchReading& reading) {
  LaunchConfig config =
      read_megatron(command_of_flag_yaml(text, source, reading), source, arguments, reading);
  if (!config.model && config.model_name.empty()) {
    config.model_said = flag_yaml_model(text, source);
    config.model_name = models::preset_in(config.model_said);
  }
  return config;
}

LaunchConfig read_as(LaunchFormat format, std::string_view text, const std::string& source,
                     const std::vector<std::string>& arguments, const LaunchReading& reading) {
  switch (format) {
    case LaunchFormat::kMegatron: {
      const bool yaml = source.ends_with(".yaml") || source.ends_with(".yml");
      if (yaml && is_flag_yaml(text)) {
        return read_flag_yaml(text, source, arguments, reading);
      }
      const std::string command =
          yaml ? swift_command_of_yaml(text, source) : with_swift_yaml(text, reading);
      return read_megatron(command, source, arguments, reading);
    }
    case LaunchFormat::kMegatronBridge:
      return read_megatron_bridge(text, source, arguments, reading);
    case LaunchFormat::kTorchtitan:
      if (is_primus_yaml(text, "torchtitan")) {
        return read_primus_titan(text, source, arguments, reading);
      }
      return is_script_name(source) || (starts_torchtitan(text) && !has_titan_sections(text))
                 ? read_torchtitan_script(text, source, arguments, reading)
                 : read_torchtitan(text, source, arguments);
    case LaunchFormat::kDeepspeed:
      return read_deepspeed(text, source, arguments);
    case LaunchFormat::kAccelerate:
      return read_accelerate(text, source, arguments);
  }
  throw Error("--format", "is unknown");
}

}  // namespace

LaunchConfig read_launch(LaunchFormat format, std::string_view text, const std::string& source,
                         const std::vector<std::string>& arguments, const LaunchReading& reading) {
  LaunchConfig config = read_as(format, text, source, arguments, reading);
  config.release = release_of(config, text);
  config.predicted_as = predicted_as(config, text);
  return config;
}

namespace {

bool is_told(std::string_view text, const std::string& path) {
  return by_contents(text) || is_verl(text, path) || is_openrlhf(text, path);
}

// What tells a script's format: its own text, or that of a script that it starts.
std::string text_that_tells(const std::string& text, const std::string& path,
                            const std::vector<std::string>& arguments,
                            const LaunchReading& reading) {
  if (is_told(text, path) || !is_script_name(path)) {
    return text;
  }
  LaunchConfig around;
  around.source = path;
  std::vector<std::string> rest = arguments;
  const std::vector<std::string> words = take_script_words(text, rest);
  for (const std::string& name :
       read_launch_script(text, path, words, reading, around).variables.files) {
    const auto started = reading.read(name);
    if (started && is_told(*started, path)) {
      return *started;
    }
  }
  return text;
}

}  // namespace

LaunchConfig read_launch_file(const std::string& path, std::optional<LaunchFormat> format,
                              const std::vector<std::string>& arguments, int choice) {
  const std::string text = read_text(path);
  const LaunchReading reading{
      .read = [&path](const std::string& name) { return read_beside(path, name); },
      .choice = choice};
  const std::string tells = format ? text : text_that_tells(text, path, arguments, reading);
  if (!format && is_verl(tells, path)) {
    return read_verl(text, path, arguments, reading);
  }
  if (!format && is_areal(text, path)) {
    return read_areal(text, path, arguments);
  }
  if (!format && is_kempnerforge(text, path)) {
    return read_kempnerforge(text, path, arguments);
  }
  if (!format && is_automodel(text, path)) {
    return read_automodel(text, path, arguments);
  }
  if (!format && is_nemo_rl(text, path)) {
    return read_nemo_rl(text, path, arguments, reading);
  }
  if (!format && is_openrlhf(tells, path)) {
    return read_openrlhf(text, path, arguments, reading);
  }
  if (!format && (!by_contents(text) || is_trainer_file(text, path)) &&
      !(path.ends_with(".yaml") && is_swift_megatron_yaml(text))) {
    if (auto run = read_trainer(text, path, arguments, reading)) {
      return *run;
    }
  }
  if (!format) {
    format = recognise_format(path, tells);
  }
  return read_launch(*format, text, path, arguments, reading);
}

}  // namespace trireme::planner
