// The flags of a script's training command.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "planner/launch/gpu_count.h"
#include "planner/launch/launch_config.h"
#include "planner/launch/read_launch.h"
#include "planner/shell/script.h"

namespace trireme::planner {

// The words of the command that starts the training, launcher first.
struct LaunchCommand {
  std::vector<ShellText> launcher;   // up to the script's name
  std::vector<ShellText> arguments;  // of the script
};

// The key of a flag: without dashes before it, '-' as '_', as in flags_of below.
std::string key_of(std::string_view flag);
// Whether the script itself looks for the first flag among the words, as a pattern of a `case`
// (`--tp)`), in a comparison or by getopts.
bool takes_flags_itself(std::string_view script, const std::vector<std::string>& words);
// --tp, -t: what no script takes as a word of its own unless it looks for it.
inline bool is_flag_word(std::string_view word) {
  return word.starts_with('-');
}
// The words of `arguments` that are the script's own: all where it looks for its flags itself, else
// those before the first that `overrides` says is none. What is left stays in `arguments`.
std::vector<std::string> take_script_words(std::string_view script,
                                           std::vector<std::string>& arguments,
                                           bool (*overrides)(std::string_view word) = is_flag_word);
// Reads a script with its batch system's header (#SBATCH); `words` are its $1, $2, …. Throws Error
// (FILE:LINE).
ShellScript read_launch_script(std::string_view text, const std::string& source,
                               const std::vector<std::string>& words, const LaunchReading& reading,
                               LaunchConfig& config);
// Variables of env_vars in a JSON text among the script's words, as `ray job submit` takes them.
void read_job_environment(const ShellScript& script, LaunchConfig& config);
// Variables that a command sets for what it starts: bash -c "export X=1; …", srun --export=ALL,X=1.
void read_inner_environment(const ShellScript& script, LaunchConfig& config);
// Variables before the command: CUDA_DEVICE_MAX_CONNECTIONS=1 torchrun …
void read_command_environment(const std::vector<ShellText>& launcher, LaunchConfig& config);
// Threads of a rank for an optimizer on the host; 0: its share of all cores.
std::int64_t host_threads_of(const LaunchConfig& config);
// Remarks of what may be missing: sourced files, loops, and variables without a value that stand as
// arguments (after a flag that is no switch they are its value, not named here).
void remark_missing_arguments(const ShellScript& script, bool (*is_switch)(std::string_view key),
                              LaunchConfig& config);
// What the script around a settings file says of its start: GPUs, environment, what is open. Its
// lines are none of that file's.
void take_over(const LaunchConfig& around, LaunchConfig& config);
// Notes a setting whose value is a variable that the script does not set, standing after it or
// behind its '='. Those of the same key so far no longer hold. False: there is none.
bool note_unset(const ShellScript& script, const LaunchSetting& setting, LaunchConfig& config);
// The command with the most words that `counts` says are training arguments; words that hold a
// whole command line (bash -c "…") are cut again. Without one, the variables that hold such words.
// Where the script starts several, a remark says which one it is.
LaunchCommand training_command(const ShellScript& script, bool (*counts)(std::string_view word),
                               LaunchConfig& config);
// The same of a program whose flags all have values, with what is said of its start: environment,
// GPUs, and what may be missing.
LaunchCommand started_command(const ShellScript& script, bool (*counts)(std::string_view word),
                              LaunchConfig& config);
// Extra arguments of the command line as words of a script, on line 0 and not to be split.
std::vector<ShellText> words_of(const std::vector<std::string>& arguments);
// "--x y", "--x=y" and "--x" as settings: keys without dashes, '-' as '_'.
std::vector<LaunchSetting> flags_of(const std::vector<ShellText>& words);

}  // namespace trireme::planner
