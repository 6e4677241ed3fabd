// How many processes a training's launcher starts.
#include "planner/launch/gpu_count.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>

#include "core/error.h"
#include "planner/launch/field_table.h"
#include "planner/launch/launch_command.h"

namespace trireme::planner {
namespace {

bool is_option(std::string_view word) {
  return word.size() > 1 && word[0] == '-' &&
         (word.starts_with("--")
              ? word.size() > 2 && word[2] != '-'
              : ((word[1] >= 'a' && word[1] <= 'z') || (word[1] >= 'A' && word[1] <= 'Z')));
}

// A value all the same, and a wrong one: --num_gpus -3.
bool is_negative(std::string_view word) {
  return word.size() > 1 && word[0] == '-' && word[1] >= '0' && word[1] <= '9';
}

std::optional<std::int64_t> count_of(const LaunchConfig& config, std::string_view key) {
  const LaunchSetting* setting = find_setting(config, key);
  if (setting == nullptr) {
    return {};
  }
  // gpu:8, gpu:a100:8; 1:4 of an elastic launch is not a count
  const std::string& text = setting->value;
  const std::size_t colon =
      key == "gres" || key == "gpus_per_node" ? text.rfind(':') : std::string::npos;
  const std::size_t begin = colon == std::string::npos ? 0 : colon + 1;
  std::int64_t value = 0;
  const auto [stop, failure] =
      std::from_chars(text.data() + begin, text.data() + text.size(), value);
  const bool good = failure == std::errc() && stop == text.data() + text.size() && value >= 1 &&
                    value <= 10'000'000;
  return good ? std::optional(value) : std::nullopt;
}

// Short flags of launchers by their long names.
std::string long_name(const std::string& key) {
  static const std::map<std::string, std::string> kNames = {
      {"N", "nodes"}, {"n", "ntasks"}, {"np", "ntasks"}, {"G", "gpus"}};
  const auto found = kNames.find(key);
  return found == kNames.end() ? key : found->second;
}

}  // namespace

std::optional<std::int64_t> first_count(const LaunchConfig& flags,
                                        std::initializer_list<std::string_view> keys) {
  for (const std::string_view key : keys) {
    if (const auto count = count_of(flags, key)) {
      return count;
    }
  }
  return {};
}

LaunchConfig launcher_flags(const std::vector<ShellText>& words) {
  LaunchConfig launcher;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string& text = words[i].text;
    if (!is_option(text)) {
      continue;
    }
    const std::size_t equals = text.find('=');
    LaunchSetting setting{key_of(text.substr(0, equals)), "", text, first_line(words[i])};
    setting.key = long_name(setting.key);
    if (equals != std::string::npos) {
      setting.value = text.substr(equals + 1);
    } else if (!words[i].open_after && i + 1 < words.size() &&
               (!words[i + 1].text.starts_with("-") || is_negative(words[i + 1].text))) {
      setting.value = words[i + 1].text;
      setting.open = words[i + 1].outside || words[i + 1].lost;
    }
    setting.open |= words[i].open_after || words[i].outside || words[i].lost;
    launcher.settings.push_back(std::move(setting));
  }
  return launcher;
}

namespace {

bool starts_processes(const ShellText& word) {
  return word.text == "torchrun" || word.text.ends_with("/torchrun") ||
         word.text == "torch.distributed.run" || word.text == "torch.distributed.launch" ||
         word.text == "accelerate" || word.text == "deepspeed";
}

bool limits_threads(const ShellText& word) {
  return starts_processes(word) && word.text != "deepspeed";
}

bool starts_tasks(const ShellText& word) {
  return word.text == "srun" || word.text == "mpirun" || word.text == "mpiexec";
}

// srun --ntasks-per-node=8 torchrun …: eight of them on every node, each with processes of its own.
void read_launchers(const std::vector<ShellText>& words, LaunchConfig& config) {
  const auto srun = std::find_if(words.begin(), words.end(), starts_tasks);
  const auto inner = std::find_if(srun, words.end(), starts_processes);
  if (srun == words.end() || inner == words.end()) {
    config.tasks_per_node.reset();
    return;
  }
  const LaunchConfig outer = launcher_flags({srun, inner});
  const LaunchConfig starter = launcher_flags({inner, words.end()});
  const auto nodes = first_count(outer, {"nodes"});
  const auto of_starter = first_count(starter, {"nnodes", "num_machines"});
  const auto tasks = first_count(outer, {"ntasks"});
  const std::int64_t over = nodes.value_or(of_starter.value_or(1));
  if (const auto each = first_count(outer, {"ntasks_per_node"})) {
    config.tasks_per_node = each;
  } else if (tasks && (nodes || of_starter || *tasks > 1)) {
    config.tasks_per_node = std::max<std::int64_t>(1, *tasks / over);
  }
  config.tasks_line = first_line(*srun);
}

// --nproc_per_node eight: torchrun, deepspeed and accelerate start nothing.
void refuse_counts(const std::vector<ShellText>& words, const LaunchConfig& config) {
  constexpr std::pair<std::string_view, std::string_view> kCounts[] = {
      {"nproc_per_node", "gpu cpu xpu auto"},
      {"num_gpus", "-1"},  // DeepSpeed's default: all
      {"nnodes", ""},
      {"num_nodes", "-1"},
      {"num_processes", ""},
      {"num_machines", ""}};
  const auto starter = std::find_if(words.begin(), words.end(), starts_processes);
  const LaunchConfig launcher = launcher_flags({starter, words.end()});
  for (const LaunchSetting& setting : launcher.settings) {
    const auto* count = std::find_if(std::begin(kCounts), std::end(kCounts),
                                     [&](const auto& each) { return each.first == setting.key; });
    const std::string& text = setting.value;
    if (count == std::end(kCounts) || setting.open || text.empty() ||
        is_among(count->second, text)) {
      continue;
    }
    // 1:4 nodes of an elastic launch
    const bool digits = text.find_first_not_of("0123456789:") == std::string::npos;
    if (!digits || text.find_first_not_of('0') == std::string::npos) {
      throw Error(where_of(config, setting),
                  fmt::format("{} is {}; a whole number of at least 1{} would be right",
                              setting.spelled.substr(0, setting.spelled.find('=')), text,
                              count->first == "nproc_per_node" ? ", gpu, cpu or auto" : ""));
    }
  }
}

// open-instruct's mason.py starts what accelerate is told for one host on each of its --num_nodes.
void read_mason(const std::vector<ShellText>& words, const LaunchConfig& launcher,
                LaunchConfig& config) {
  const bool mason = std::any_of(words.begin(), words.end(), [](const ShellText& word) {
    return word.text.ends_with("mason.py");
  });
  const auto each = first_count(launcher, {"num_processes"});
  if (mason && each) {
    config.gpus_per_node = each;
    config.gpus = first_count(launcher, {"num_nodes"}).value_or(1) * *each;
  }
}

}  // namespace

void read_gpu_count(const std::vector<ShellText>& words, LaunchConfig& config) {
  refuse_counts(words, config);
  read_launchers(words, config);
  config.one_thread_a_rank = std::any_of(words.begin(), words.end(), limits_threads);
  const LaunchConfig launcher = launcher_flags(words);
  const auto per_node = first_count(
      launcher, {"nproc_per_node", "num_gpus", "gpus_per_node", "ntasks_per_node", "gres"});
  const auto nodes = first_count(launcher, {"nnodes", "num_nodes", "nodes"});
  const auto tasks = first_count(launcher, {"ntasks", "num_processes"});
  const bool torchrun =
      has_setting(launcher, "nproc_per_node") || has_setting(launcher, "num_gpus");
  const auto header_nodes =
      config.gpus && config.gpus_per_node ? *config.gpus / *config.gpus_per_node : 0;
  if (per_node) {
    config.gpus_per_node = per_node;
    const bool says_nodes = has_setting(launcher, "nnodes") || has_setting(launcher, "num_nodes");
    if (nodes) {
      config.gpus = *nodes * *per_node;
    } else if (header_nodes > 0) {
      config.gpus = header_nodes * *per_node;
    } else if (torchrun && !says_nodes) {
      config.gpus = per_node;  // torchrun's default is one node
    }
  } else if (nodes && config.gpus_per_node) {
    config.gpus = *nodes * *config.gpus_per_node;
  } else if (tasks && !torchrun) {
    config.gpus = tasks;
  }
  read_mason(words, launcher, config);
}

}  // namespace trireme::planner
