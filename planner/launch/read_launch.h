// Reads a launch configuration of any of the formats.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "planner/launch/launch_config.h"

namespace trireme::planner {

// How a script is read beside its text.
struct LaunchReading {
  // The text of a file that the script sources; nothing where it may not be read.
  std::function<std::optional<std::string>(const std::string& name)> read = {};
  int choice = -1;  // of undecided branches, as in planner/shell/script.h
};

// Whether this program can read the format: TOML needs toml++, YAML yaml-cpp, when it is built.
bool reads_format(LaunchFormat format);

// The format by name and contents. Throws Error, naming the formats, when neither tells.
LaunchFormat recognise_format(const std::string& path, std::string_view text);

// Throws Error where the text is of a program that is not read, with what would be right instead;
// `has_format`: its contents are those of a format.
void refuse_other_file(std::string_view text, const std::string& path, bool has_format);

// Reads `text`, which came from `source`. `arguments`: words before the first flag are a script's
// $1, $2, …; flags (Megatron-LM, torchtitan: --section.key VALUE) or KEY=VALUE follow those of the
// file and override them. Throws Error (FILE:LINE: what is wrong, what would be right).
LaunchConfig read_launch(LaunchFormat format, std::string_view text, const std::string& source,
                         const std::vector<std::string>& arguments = {},
                         const LaunchReading& reading = {});
// The same from a file, whose format is recognised when `format` is empty; what it sources is read
// where it lies in or below the file's folder.
LaunchConfig read_launch_file(const std::string& path, std::optional<LaunchFormat> format,
                              const std::vector<std::string>& arguments = {}, int choice = -1);

// One reader each (read_megatron.cc and so on), as read_launch.
LaunchConfig read_megatron(std::string_view text, const std::string& source,
                           const std::vector<std::string>& arguments,
                           const LaunchReading& reading = {});
LaunchConfig read_megatron_bridge(std::string_view text, const std::string& source,
                                  const std::vector<std::string>& arguments,
                                  const LaunchReading& reading = {});
LaunchConfig read_torchtitan(std::string_view text, const std::string& source,
                             const std::vector<std::string>& arguments);
// A script that starts torchtitan: the TOML that it names, with the command's settings behind it.
bool starts_torchtitan(std::string_view text);
LaunchConfig read_torchtitan_script(std::string_view text, const std::string& source,
                                    const std::vector<std::string>& arguments,
                                    const LaunchReading& reading);
LaunchConfig read_deepspeed(std::string_view text, const std::string& source,
                            const std::vector<std::string>& arguments);
LaunchConfig read_accelerate(std::string_view text, const std::string& source,
                             const std::vector<std::string>& arguments);
// DeepSpeed's settings, whether from its JSON or from accelerate's deepspeed_config: keys are the
// JSON's, joined by dots. Fills framework, choices, precision, batch and layout. Values "auto"
// count as missing; a remark lists them. Throws Error as above.
void read_deepspeed_layout(LaunchConfig& config);

// Those settings once they are read, `arguments` after them: unknown keys, and the layout as above.
void read_deepspeed_settings(const std::vector<std::string>& arguments, LaunchConfig& config);
// accelerate's settings once they are read: types, batch and layout as above.
void read_accelerate_settings(LaunchConfig& config);
// A run of transformers' Trainer (LLaMA-Factory's and axolotl's YAML, a command line of theirs, of
// ms-swift's or TRL's) as DeepSpeed's or accelerate's configuration with the run's values; nothing
// where the text is none. Throws Error: a file that it names cannot be read.
std::optional<LaunchConfig> read_trainer(std::string_view text, const std::string& source,
                                         const std::vector<std::string>& arguments,
                                         const LaunchReading& reading);
// verl's actor or SFT trainer, and OpenRLHF's: whether a script or YAML is one, and what it starts.
// Throw Error.
bool is_verl(std::string_view text, const std::string& source);
bool is_openrlhf(std::string_view text, const std::string& source);
// AReaL's YAML (trainers/areal.cc), NeMo Automodel's (trainers/automodel.cc) and NeMo RL's
// (trainers/nemo_rl.cc).
bool is_areal(std::string_view text, const std::string& source);
bool is_automodel(std::string_view text, const std::string& source);
bool is_nemo_rl(std::string_view text, const std::string& source);
LaunchConfig read_verl(std::string_view text, const std::string& source,
                       const std::vector<std::string>& arguments, const LaunchReading& reading);
LaunchConfig read_areal(std::string_view text, const std::string& source,
                        const std::vector<std::string>& arguments);
LaunchConfig read_automodel(std::string_view text, const std::string& source,
                            const std::vector<std::string>& arguments);
// KempnerForge's TOML (kempnerforge.cc).
bool is_kempnerforge(std::string_view text, const std::string& source);
LaunchConfig read_kempnerforge(std::string_view text, const std::string& source,
                               const std::vector<std::string>& arguments);
LaunchConfig read_nemo_rl(std::string_view text, const std::string& source,
                          const std::vector<std::string>& arguments, const LaunchReading& reading);
LaunchConfig read_openrlhf(std::string_view text, const std::string& source,
                           const std::vector<std::string>& arguments, const LaunchReading& reading);

// ---- the syntaxes below them (settings_text.cc): a text's settings as section.key, with their
// lines. Without toml++ or yaml-cpp, which are optional, the program says which package would
// bring it.

// Without blanks at either end.
std::string trimmed(std::string_view text);
// A Python file whose names of numbers, words and switches that it assigns once (TP, PP = 4, 2)
// are put in where they stand on the right of an '='. Lines stay where they are.
std::string with_python_constants(std::string_view text);
// Append to config.settings. Lists become their elements separated by blanks, lists of lists by
// '|'. Throw Error (FILE:LINE) when the text is none of the syntax, or when the program was built
// without its library.
void read_json_settings(std::string_view text, LaunchConfig& config);
// `whole`: last names of keys whose values the program takes as whole numbers as they stand, so
// that a text, a list or 4.0 is none (TOML has types).
void read_toml_settings(std::string_view text, LaunchConfig& config, std::string_view whole = {});
void read_yaml_settings(std::string_view text, LaunchConfig& config);
// false: the library was not there when the program was built
bool reads_toml();
bool reads_yaml();

}  // namespace trireme::planner
