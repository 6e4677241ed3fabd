#include "planner/launch/launch_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "planner/shell/names.h"

namespace trireme::planner {
namespace {

bool is_flag(std::string_view word) {
  return word.size() > 2 && word.starts_with("--") && word[2] != '-';
}

bool is_short_flag(std::string_view word) {
  return word.size() > 1 && word[0] == '-' &&
         ((word[1] >= 'a' && word[1] <= 'z') || (word[1] >= 'A' && word[1] <= 'Z'));
}

// Lines `#SBATCH --nodes=16` as words.
std::vector<ShellText> batch_header(std::string_view text) {
  std::vector<ShellText> words;
  int line = 1;
  for (std::size_t at = 0; at < text.size(); ++line) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    std::string_view row = text.substr(at, end - at);
    at = end + 1;
    if (!row.starts_with("#SBATCH")) {
      continue;
    }
    row.remove_prefix(7);
    row = row.substr(0, std::min(row.find(" #"), row.size()));
    ShellText plain{std::string(row), std::vector<int>(row.size(), line),
                    std::vector<bool>(row.size()), false};
    const auto more = split(plain);
    words.insert(words.end(), more.begin(), more.end());
  }
  return words;
}

// What the file asks of whoever starts it.
void remark_questions(bool without_words, LaunchConfig& config) {
  constexpr std::size_t kNamed = 5;
  if (config.undecided.empty()) {
    return;
  }
  std::vector<std::string> asked;
  for (const LaunchQuestion& question : config.undecided) {
    if (asked.size() < kNamed) {
      asked.push_back(fmt::format("{} ({})", question.text, line_of(config, question.line)));
    }
  }
  const std::size_t more = config.undecided.size() - asked.size();
  config.remarks.push_back(
      fmt::format("the file does not decide {}{}: every branch is read in order, the last "
                  "assignment holds, and "
                  "no error rests on one that may not run{}",
                  fmt::join(asked, "; "), more > 0 ? fmt::format(" and {} more", more) : "",
                  without_words ? "; words after the file are the script's $1, $2, …" : ""));
}

}  // namespace

std::string key_of(std::string_view flag) {
  std::string key(flag.substr(std::min(flag.find_first_not_of('-'), flag.size())));
  std::replace(key.begin(), key.end(), '-', '_');
  return key;
}

namespace {

bool is_quote(char c) {
  return c == '"' || c == '\'';
}

// What stands between these is compared with a word: `--tp)`, `-t|--tp=*)`, [ "$1" = --tp ] and
// [[ $word == --tp* ]].
bool is_pattern(std::string_view before, std::string_view after) {
  before.remove_suffix(!before.empty() && is_quote(before.back()) ? 1 : 0);
  after.remove_prefix(after.starts_with("=") ? 1 : 0);
  after.remove_prefix(after.starts_with("*") ? 1 : 0);
  after.remove_prefix(!after.empty() && is_quote(after.front()) ? 1 : 0);
  after.remove_prefix(after.starts_with("*") ? 1 : 0);
  after.remove_prefix(std::min(after.find_first_not_of(' '), after.size()));
  const bool starts =
      before.empty() || std::string_view(" \t\n|(").find(before.back()) != std::string_view::npos;
  before = before.substr(0, before.find_last_not_of(' ') + 1);
  const bool compared = before.ends_with(" =") || before.ends_with("==");
  return starts &&
         (after.starts_with(")") || after.starts_with("|") || (compared && after.starts_with("]")));
}

// getopts "t:p:" takes -t 4 and -t4.
bool asks_getopts(std::string_view script, std::string_view flag) {
  const std::size_t at = script.find("getopts ");
  if (at == std::string_view::npos || flag.size() < 2 || flag[1] == '-') {
    return false;
  }
  std::string_view letters = script.substr(at + 8);
  letters.remove_prefix(std::min(letters.find_first_not_of(" \"':"), letters.size()));
  letters = letters.substr(0, letters.find_first_of(" \"'\n"));
  return letters.find(flag[1]) != std::string_view::npos;
}

}  // namespace

bool takes_flags_itself(std::string_view script, const std::vector<std::string>& words) {
  const auto first = std::find_if(words.begin(), words.end(),
                                  [](const std::string& word) { return word.starts_with("-"); });
  if (first == words.end()) {
    return false;
  }
  const std::string flag = first->substr(0, first->find('='));
  if (asks_getopts(script, flag)) {
    return true;
  }
  for (std::size_t at = script.find(flag); at != std::string_view::npos;
       at = script.find(flag, at + 1)) {
    if (is_pattern(script.substr(0, at), script.substr(at + flag.size()))) {
      return true;
    }
  }
  return false;
}

std::vector<std::string> take_script_words(std::string_view script,
                                           std::vector<std::string>& arguments,
                                           bool (*overrides)(std::string_view word)) {
  const auto end = takes_flags_itself(script, arguments)
                       ? arguments.end()
                       : std::find_if(arguments.begin(), arguments.end(), overrides);
  std::vector<std::string> words(arguments.begin(), end);
  arguments.erase(arguments.begin(), end);
  return words;
}

ShellScript read_launch_script(std::string_view text, const std::string& source,
                               const std::vector<std::string>& words, const LaunchReading& reading,
                               LaunchConfig& config) {
  const LaunchConfig header = launcher_flags(batch_header(text));
  const auto nodes = first_count(header, {"nodes"});
  const auto gpus = first_count(header, {"gpus_per_node", "gres"});
  const auto tasks = first_count(header, {"ntasks_per_node"});
  ShellWorld world{.words = words, .read = reading.read, .choice = reading.choice};
  if (nodes) {
    world.variables["SLURM_NNODES"] = world.variables["SLURM_JOB_NUM_NODES"] =
        std::to_string(*nodes);
  }
  if (gpus) {
    world.variables["SLURM_GPUS_PER_NODE"] = world.variables["SLURM_GPUS_ON_NODE"] =
        std::to_string(*gpus);
  }
  if (tasks) {
    world.variables["SLURM_NTASKS_PER_NODE"] = std::to_string(*tasks);
  }
  if (nodes && (gpus || tasks)) {
    world.variables["SLURM_NTASKS"] = std::to_string(*nodes * tasks.value_or(1));
    config.gpus_per_node = gpus ? gpus : tasks;
    config.gpus = *nodes * *config.gpus_per_node;
  }
  config.tasks_per_node = tasks;
  if (const auto all = first_count(header, {"ntasks"}); all && nodes && !tasks) {
    config.tasks_per_node = std::max<std::int64_t>(1, *all / *nodes);
  }
  ShellScript script = read_shell(text, source, world);
  config.files = script.variables.files;
  for (const ShellExport& variable : script.environment) {
    config.environment.push_back({variable.name, variable.value, variable.name, variable.line});
  }
  for (const ShellQuestion& question : script.undecided) {
    config.undecided.push_back({question.text, question.line});
  }
  read_job_environment(script, config);
  read_inner_environment(script, config);
  remark_questions(words.empty(), config);
  if (!words.empty() && !script.variables.uses_words) {
    config.remarks.push_back(
        fmt::format("the script does not look at its words: {}", fmt::join(words, " ")));
  }
  return script;
}

namespace {

// A loop whose rounds the file leaves open.
void remark_open_loop(const ShellLoop& loop, LaunchConfig& config) {
  if (loop.takes_options) {
    config.remarks.push_back(
        fmt::format("the loop ({}) takes options from the script's words: none is given, and what "
                    "stands before "
                    "it holds; words after the file (flags among them after --) are its $1, $2, …",
                    line_of(config, loop.line)));
  }
  if (!loop.open) {
    return;
  }
  const std::string named =
      fmt::format("the loop{} ({})", loop.variable.empty() ? "" : " over " + loop.variable,
                  line_of(config, loop.line));
  config.remarks.push_back(named + " was read once: the file does not say which rounds it has");
  if (loop.holds_arguments) {
    config.unreadable.push_back(named);
  }
}

}  // namespace

void remark_missing_arguments(const ShellScript& script, bool (*is_switch)(std::string_view key),
                              LaunchConfig& config) {
  constexpr std::size_t kNamed = 20;
  std::vector<std::string> files;
  for (const ShellUnread& file : script.unread) {
    if (files.size() < kNamed) {
      files.push_back(fmt::format("{} ({})", file.name, line_of(config, file.line)));
      config.unread.push_back(file.name);
    }
  }
  if (!files.empty()) {
    config.remarks.push_back(
        fmt::format("{} {} sourced but cannot be read below the script's folder or in its "
                    "repository: what {} is not counted",
                    fmt::join(files, ", "), files.size() == 1 ? "is" : "are",
                    files.size() == 1 ? "it sets" : "they set"));
  }
  std::map<std::string, int> unset;
  for (const UnsetWord& word : script.variables.unset_words) {
    const bool is_value = word.after.ends_with('=') || is_short_flag(word.after) ||
                          (is_flag(word.after) && word.after.find('=') == std::string::npos &&
                           !is_switch(key_of(word.after)));
    if (word.command && !is_value && config.unreadable.size() < kNamed) {
      config.unreadable.push_back(
          fmt::format("$({}) ({})", word.name.substr(0, 60), line_of(config, word.line)));
    } else if (!is_value && unset.size() < kNamed) {
      unset.emplace(word.name, word.line);
    }
  }
  for (const auto& [name, line] : unset) {
    config.remarks.push_back(fmt::format(
        "${} ({}) stands as arguments but the file does not set it: nothing is in its place", name,
        line_of(config, line)));
  }
  for (std::size_t i = 0; i < std::min(script.loops.size(), kNamed); ++i) {
    remark_open_loop(script.loops[i], config);
  }
}

void take_over(const LaunchConfig& around, LaunchConfig& config) {
  config.gpus = around.gpus;
  config.gpus_per_node = around.gpus_per_node;
  config.tasks_per_node = around.tasks_per_node;
  config.one_thread_a_rank = around.one_thread_a_rank;
  config.environment = around.environment;
  config.undecided = around.undecided;
  config.unset = around.unset;
  for (LaunchSetting& setting : config.environment) {
    setting.line = 0;
  }
  for (LaunchSetting& setting : config.unset) {
    setting.line = 0;
  }
  for (LaunchQuestion& question : config.undecided) {
    question.line = 0;
  }
  config.unreadable = around.unreadable;
  config.unread = around.unread;
  config.remarks.insert(config.remarks.begin(), around.remarks.begin(), around.remarks.end());
}

bool note_unset(const ShellScript& script, const LaunchSetting& setting, LaunchConfig& config) {
  const std::vector<UnsetWord>& unset = script.variables.unset_words;
  const auto found = std::find_if(unset.rbegin(), unset.rend(), [&](const UnsetWord& word) {
    return word.after == setting.spelled || word.after == setting.spelled + "=";
  });
  if (found == unset.rend()) {
    return false;
  }
  config.unset.push_back(setting);
  config.unset.back().value =
      is_shell_name(found->name) ? "$" + found->name : "$(" + found->name + ")";
  std::erase_if(config.settings, [&](const auto& before) { return before.key == setting.key; });
  return true;
}

LaunchCommand started_command(const ShellScript& script, bool (*counts)(std::string_view word),
                              LaunchConfig& config) {
  LaunchCommand command = training_command(script, counts, config);
  remark_missing_arguments(
      script, [](std::string_view) { return false; }, config);
  read_command_environment(command.launcher, config);
  read_gpu_count(command.launcher, config);
  return command;
}

std::vector<ShellText> words_of(const std::vector<std::string>& arguments) {
  std::vector<ShellText> words;
  words.reserve(arguments.size());
  for (const std::string& argument : arguments) {
    words.push_back(ShellText{argument, std::vector<int>(argument.size(), 0),
                              std::vector<bool>(argument.size(), true), false});
  }
  return words;
}

std::vector<LaunchSetting> flags_of(const std::vector<ShellText>& words) {
  std::vector<LaunchSetting> settings;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string& text = words[i].text;
    if (!is_flag(text)) {
      continue;
    }
    const std::size_t equals = text.find('=');
    LaunchSetting setting{key_of(text.substr(0, equals)), "", text.substr(0, equals),
                          first_line(words[i])};
    setting.open = words[i].open_after || words[i].outside;
    if (equals != std::string::npos) {
      setting.value = text.substr(equals + 1);
    }
    while (i + 1 < words.size() && !is_flag(words[i + 1].text) &&
           !is_short_flag(words[i + 1].text)) {
      setting.value += (setting.value.empty() ? "" : " ") + words[++i].text;
    }
    settings.push_back(std::move(setting));
  }
  return settings;
}

}  // namespace trireme::planner
