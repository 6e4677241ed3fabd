// Megatron-Bridge: `cfg.model.x = value` in Python, or KEY=VALUE overrides and short options of a
// command line. What the recipe itself sets is not in the file; a remark says so.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <utility>

#include "core/error.h"
#include "models/model_names.h"
#include "models/presets.h"
#include "planner/launch/launch_command.h"
#include "planner/launch/megatron/megatron.h"
#include "planner/launch/python_values.h"
#include "planner/launch/read_launch.h"
#include "planner/launch/yaml_kinds.h"

namespace trireme::planner {
namespace {

constexpr std::string_view kBridgeSections[] = {
    "model",        "train",          "optimizer", "scheduler",  "ddp",        "dist", "dataset",
    "tokenizer",    "logger",         "rng",       "checkpoint", "validation", "peft", "profiling",
    "comm_overlap", "mixed_precision"};

// Megatron-LM's name of a field (transformer_config.py, training/config.py).
std::string canonical(const std::string& path) {
  static const std::map<std::string, std::string> kOthers = {
      {"sequence_length", "seq_length"},
      {"microbatch_group_size_per_vp_stage", "microbatch_group_size_per_virtual_pipeline_stage"}};
  if (const MegatronField* field = renamed_by_bridge(path); field != nullptr) {
    return std::string(field->flag);
  }
  const std::string last = path.substr(path.rfind('.') + 1);
  const auto found = kOthers.find(last);
  return found == kOthers.end() ? last : found->second;
}

// Fields that say the opposite of the flag.
bool is_opposite(const std::string& path) {
  const MegatronField* field = renamed_by_bridge(path);
  return field != nullptr && field->use == MegatronUse::kOpposite;
}

bool is_known_section(std::string_view path) {
  const std::string_view section = path.substr(0, std::min(path.find('.'), path.size()));
  return std::find(std::begin(kBridgeSections), std::end(kBridgeSections), section) !=
         std::end(kBridgeSections);
}

bool is_path(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '.';
  });
}

// What the program works out: args.micro_batch_size, seq_length, TP > 1.
bool is_left_to_program(const std::string& path, std::string_view value) {
  constexpr std::string_view kNumbers = "size length layers heads experts rank";
  constexpr std::string_view kWords = "None null True False true false";
  const bool name = is_path(value) &&
                    (value[0] == '_' || std::isalpha(static_cast<unsigned char>(value[0])) != 0);
  const bool number = is_among(kNumbers, std::string_view(path).substr(path.rfind('_') + 1));
  const bool compares = value.find_first_of("<>") != std::string_view::npos ||
                        value.find("==") != std::string_view::npos ||
                        value.find(" if ") != std::string_view::npos;
  return compares || (name && !is_among(kWords, value) &&
                      (number || value.starts_with("args.") || value.starts_with("self.args.")));
}

void add_setting(LaunchConfig& config, const std::string& path, const std::string& said, int line) {
  std::string value = said;
  if (const auto variable = environment_value(trimmed(said.substr(0, said.find('#'))))) {
    if (!variable->otherwise && decides_memory_or_time(canonical(path))) {
      config.unset.push_back({canonical(path), "$" + variable->name, path, line});
      return;
    }
    value = variable->otherwise.value_or("None");
  }
  if (is_left_to_program(path, trimmed(value.substr(0, value.find('#'))))) {
    config.remarks.push_back(
        fmt::format("{} ({}) is left to the program: {}", path, line_of(config, line), value));
    if (decides_memory_or_time(canonical(path))) {
      config.unset.push_back({canonical(path), trimmed(value), path, line});
    }
    return;
  }
  LaunchSetting setting{canonical(path), plain_value(value), path, line};
  // Plain sums of numbers, as in train.global_batch_size = 8 * 64.
  if (setting.value.find_first_of("*+/") != std::string::npos) {
    ShellVariables none{.source = config.source, .known = {}, .unset = {}};
    if (const auto number = shell_arithmetic(none, setting.value, line)) {
      setting.value = std::to_string(*number);
    }
  }
  if (is_opposite(path)) {
    const bool yes = setting.value == "True" || setting.value == "true";
    setting.value = yes ? "False" : "True";
  }
  if (path == "model.should_pad_vocab" && setting.value != "True" && setting.value != "true") {
    setting = {"make_vocab_size_divisible_by", "1", path, line};
  }
  const std::string section = path.substr(0, path.find('.'));
  const bool matters = section == "model" || section == "train" || section == "ddp" ||
                       section == "dist" || section == "optimizer" || section == "comm_overlap";
  if (matters && path != "model.should_pad_vocab" &&
      use_of_megatron_setting(setting.key) == MegatronUse::kUnknown) {
    config.unknown.push_back(setting);
  }
  config.settings.push_back(std::move(setting));
}

// KEY=VALUE, with Hydra's '+' in front if any; true when it was one.
bool read_override(LaunchConfig& config, std::string_view word, int line) {
  const std::size_t equals = word.find('=');
  if (equals == std::string_view::npos) {
    return false;
  }
  std::string path(word.substr(0, equals));
  path.erase(0, path.find_first_not_of('+') == std::string::npos ? 0 : path.find_first_not_of('+'));
  if (!is_path(path) || !is_known_section(path) ||
      (path.find('.') == std::string::npos && path != "mixed_precision")) {
    return false;
  }
  add_setting(config, path, std::string(word.substr(equals + 1)), line);
  return true;
}

const char* short_option(std::string_view word) {
  constexpr std::pair<std::string_view, const char*> kOptions[] = {
      {"-tp", "model.tensor_model_parallel_size"},
      {"-pp", "model.pipeline_model_parallel_size"},
      {"-cp", "model.context_parallel_size"},
      {"-vp", "model.virtual_pipeline_model_parallel_size"},
      {"-ep", "model.expert_model_parallel_size"},
      {"-etp", "model.expert_tensor_parallel_size"},
      {"-gb", "train.global_batch_size"},
      {"-mb", "train.micro_batch_size"},
      {"-sl", "model.seq_length"}};
  for (const auto& [option, path] : kOptions) {
    if (word == option) {
      return path;
    }
  }
  return nullptr;
}

bool counts_as_override(std::string_view word) {
  LaunchConfig probe;
  return read_override(probe, word, 0) || short_option(word) != nullptr || word == "--recipe";
}

void read_words(LaunchConfig& config, const std::vector<ShellText>& words) {
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i].text;
    const int line = words[i].lines.empty() ? 0 : words[i].lines.front();
    const bool more = i + 1 < words.size();
    if (read_override(config, word, line)) {
      continue;
    }
    if (const char* path = short_option(word); path != nullptr) {
      const bool has_value = more && !words[i + 1].text.starts_with("-");
      add_setting(config, has_value ? path : word, has_value ? words[++i].text : "", line);
    } else if ((word == "--recipe" || word == "--model-recipe-name" || word == "-m") && more) {
      config.settings.push_back({"recipe", words[++i].text, word, line});
    } else if (word.starts_with("--recipe=")) {
      config.settings.push_back({"recipe", word.substr(9), "--recipe", line});
    }
  }
}

// Settings that stand without a value, as a variable that the script does not set leaves them.
void set_apart_unset(LaunchConfig& config, const ShellScript& script) {
  for (LaunchSetting& setting : std::exchange(config.settings, {})) {
    const char* path = short_option(setting.spelled);
    LaunchSetting named = setting;
    named.key = path != nullptr ? canonical(path) : named.key;
    if (!setting.value.empty() || !decides_memory_or_time(named.key) ||
        !note_unset(script, named, config)) {
      config.settings.push_back(std::move(setting));
    }
  }
}

// NAME=VALUE inside the brackets of a call that makes a section, as section.NAME.
void read_keywords(LaunchConfig& config, const std::string& section, std::string_view call,
                   int line) {
  for (std::size_t at = call.find('='); at != std::string_view::npos; at = call.find('=', at + 1)) {
    std::size_t begin = at;
    while (begin > 0 && is_path(call.substr(begin - 1, 1))) {
      --begin;
    }
    std::size_t end = at + 1;
    int depth = 0;
    while (end < call.size() && (depth > 0 || (call[end] != ',' && call[end] != ')'))) {
      depth += call[end] == '(' || call[end] == '[' ? 1 : 0;
      depth -= call[end] == ')' || call[end] == ']' ? 1 : 0;
      ++end;
    }
    if (begin < at) {
      add_setting(config, section + "." + std::string(call.substr(begin, at - begin)),
                  std::string(call.substr(at + 1, end - at - 1)), line);
    }
    at = std::max(at, end - 1);  // what is inside the value is its own
  }
}

// The text from `at` to the end of the line on which the bracket that opens there closes; to the
// end of its own line when it does not close soon.
std::string_view statement_at(std::string_view text, std::size_t at) {
  constexpr std::size_t kCallMax = 20'000;  // characters
  int depth = 0;
  for (std::size_t end = at; end < std::min(text.size(), at + kCallMax); ++end) {
    depth += text[end] == '(' ? 1 : 0;
    depth -= text[end] == ')' ? 1 : 0;
    if (text[end] == '\n' && depth <= 0) {
      return text.substr(at, end - at);
    }
  }
  return text.substr(at, text.find('\n', at) - at);
}

// What a recipe's function takes by keyword (recipes/*/), under the configuration's names; what it
// calls otherwise keeps its name.
void read_recipe_call(LaunchConfig& config, std::string_view call, int line) {
  constexpr std::pair<std::string_view, std::string_view> kNames[] = {
      {"tensor_parallelism", "tensor_model_parallel_size"},
      {"pipeline_parallelism", "pipeline_model_parallel_size"},
      {"virtual_pipeline_parallelism", "virtual_pipeline_model_parallel_size"},
      {"context_parallelism", "context_parallel_size"},
      {"expert_parallelism", "expert_model_parallel_size"},
      {"sequence_parallelism", "sequence_parallel"}};
  LaunchConfig inner;
  inner.format = config.format;
  inner.source = config.source;
  read_keywords(inner, "model", call, line);
  for (LaunchSetting& setting : inner.settings) {
    for (const auto& [name, field] : kNames) {
      setting.key = setting.key == name ? std::string(field) : setting.key;
    }
    if (reads_megatron_setting(setting.key)) {
      config.settings.push_back(std::move(setting));
    }
  }
}

// cfg.train.a, cfg.train.b = 1, 2 as one assignment each.
bool read_pairs(LaunchConfig& config, const std::string& left, std::string_view right, int line) {
  const auto parts = [](std::string_view text) {
    std::vector<std::string> all;
    while (!text.empty()) {
      const std::size_t end = std::min(text.find(','), text.size());
      all.push_back(trimmed(std::string(text.substr(0, end))));
      text.remove_prefix(std::min(end + 1, text.size()));
    }
    return all;
  };
  const std::vector<std::string> names = parts(left);
  const std::vector<std::string> values =
      parts(right.substr(0, std::min(right.find('#'), right.size())));
  if (names.size() < 2 || names.size() != values.size()) {
    return false;
  }
  for (std::size_t i = 0; i < names.size(); ++i) {
    const std::string path = names[i].substr(std::min(names[i].find('.') + 1, names[i].size()));
    if (!is_path(names[i]) || !is_known_section(path)) {
      return false;
    }
    add_setting(config, path, values[i], line);
  }
  return true;
}

// Lines of Python: OBJECT.section.field = value, and OBJECT.section = Class(field=value, …).
void read_python(LaunchConfig& config, std::string_view text) {
  int line = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t begin = at;
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string row = trimmed(std::string(text.substr(at, end - at)));
    at = end + 1;
    ++line;
    const std::size_t equals = row.find('=');
    const bool assigns = equals != std::string::npos && equals + 1 < row.size() &&
                         row[equals + 1] != '=' && row.front() != '#';
    if (assigns) {
      const std::string left = trimmed(row.substr(0, equals));
      if (read_pairs(config, left, std::string_view(row).substr(equals + 1), line)) {
        continue;
      }
      const std::size_t dot = left.find('.');
      const std::string path = dot == std::string::npos ? "" : left.substr(dot + 1);
      const std::size_t bracket = row.find('(', equals);
      if (is_path(left) && path.find('.') != std::string::npos &&
          is_among("cfg config", left.substr(0, dot))) {
        refuse_slip_of_section(config, kBridgeSections, path, line);
      }
      if (is_known_section(path) && path.find('.') == std::string::npos &&
          bracket != std::string::npos) {
        const std::string_view call = statement_at(text, text.find('(', begin));
        read_keywords(config, path, call, line);
        if (row.find("MLAModelProvider(") != std::string::npos) {
          add_setting(config, "model.multi_latent_attention", "True", line);
        }
      }
      if (is_path(left) && (path.find('.') != std::string::npos || path == "mixed_precision") &&
          is_known_section(path)) {
        refuse_lower_case(config, row.substr(equals + 1), line);
        add_setting(config, path, row.substr(equals + 1), line);
        continue;
      }
    }
    // The recipe: an import or a call of a function named *_config, or a Hugging Face name.
    const bool names = row.find("_config") != std::string::npos ||
                       row.find("from_hf_pretrained") != std::string::npos;
    if (names && row.front() != '#' && !models::preset_in(row).empty() &&
        !has_setting(config, "recipe")) {
      config.settings.push_back({"recipe", row, "recipe", line});
    }
    if (const std::size_t call = row.find("_config(");
        call != std::string::npos && row.front() != '#' && !row.starts_with("def ")) {
      read_recipe_call(config, statement_at(text, text.find("_config(", begin) + 7), line);
    }
  }
}

void read_model_of_recipe(LaunchConfig& config) {
  config.model_said = text_setting(config, "recipe");
  config.model_name = models::preset_in(config.model_said);
  if (has_setting(config, "num_layers") && has_setting(config, "hidden_size")) {
    read_megatron_model(config);
  } else if (const auto layers = integer_setting(config, "num_layers", 1, 100'000);
             layers && !config.model_name.empty()) {
    models::Transformer model = models::load_model(config.model_name);
    if (model.moe_layers.size() > static_cast<std::size_t>(*layers)) {
      model.moe_layers.resize(static_cast<std::size_t>(*layers));
    }
    if (model.sliding_layers.size() > static_cast<std::size_t>(*layers)) {
      model.sliding_layers.resize(static_cast<std::size_t>(*layers));
    }
    model.name = fmt::format("{} of {} layers", config.model_name, *layers);
    model.layers = *layers;
    models::check_transformer(model, config.source);
    config.model = model;
  }
}

}  // namespace

LaunchConfig read_megatron_bridge(std::string_view text, const std::string& source,
                                  const std::vector<std::string>& arguments,
                                  const LaunchReading& reading) {
  LaunchConfig config;
  config.format = LaunchFormat::kMegatronBridge;
  config.source = source;
  std::vector<std::string> overrides = arguments;
  const bool python = text.find("import ") != std::string_view::npos ||
                      text.find("cfg.") != std::string_view::npos ||
                      text.find("config.model.") != std::string_view::npos;
  if (source.ends_with(".yaml") || source.ends_with(".yml")) {
    for (const LaunchSetting& setting : megatron_yaml_settings(text, config)) {
      if (is_known_section(setting.key)) {
        add_setting(config, setting.key, setting.value, setting.line);
      }
    }
  } else if (python) {
    read_python(config, with_python_constants(text));
  } else {
    const std::vector<std::string> words =
        take_script_words(text, overrides, [](std::string_view word) {
          return word.starts_with("-") || word.find('=') != std::string_view::npos;
        });
    const ShellScript script = read_launch_script(text, source, words, reading, config);
    const LaunchCommand command = training_command(script, counts_as_override, config);
    remark_missing_arguments(
        script, [](std::string_view) { return false; }, config);
    read_gpu_count(command.launcher, config);
    read_words(config, command.launcher);
    read_words(config, command.arguments);
    set_apart_unset(config, script);
  }
  read_words(config, words_of(overrides));
  if (config.settings.empty()) {
    throw Error(source,
                "sets nothing of Megatron-Bridge's configuration; lines such as "
                "cfg.model.tensor_model_parallel_size = 2, or overrides "
                "model.tensor_model_parallel_size=2, would be right");
  }
  read_model_of_recipe(config);
  read_megatron_layout(config);
  if (!has_nemo_trainer(text)) {
    config.remarks.emplace_back(
        "what the recipe itself sets is not in the file; settings that the file does not name are "
        "taken at the library's defaults");
  }
  return config;
}

}  // namespace trireme::planner
