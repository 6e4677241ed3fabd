// References in YAML that OmegaConf reads: ${data.train_batch_size}, ${..x} from the setting's own
// section outwards, ${mul:${a}, ${b}} of NeMo RL, ${multiply:4, ${.hidden_size}} of NeMo 1, whose
// launcher composes a file under a section of its own (${training.model.seq_length}).
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <iterator>

#include "planner/launch/trainers/trainer.h"

namespace trireme::planner {
namespace {

// The key that a reference names: ${.x} and ${..x} count from the setting's own section.
std::string named_key(std::string_view name, std::string key) {
  while (name.starts_with('.')) {
    key.resize(key.rfind('.') == std::string::npos ? 0 : key.rfind('.'));
    name.remove_prefix(1);
    if (!name.starts_with('.')) {
      return key.empty() ? std::string(name) : fmt::format("{}.{}", key, name);
    }
  }
  return std::string(name);
}

// ${policy.precision}, ${mul:${policy.max_total_sequence_length},
// ${policy.train_micro_batch_size}}; empty: what it names is not there.
std::string resolved(const LaunchConfig& said, const std::string& key, const std::string& value,
                     int depth = 0) {
  constexpr int kDeepest = 6;
  constexpr std::string_view kProducts[] = {"mul:", "multiply:"};
  if (!value.starts_with("${") || !value.ends_with("}")) {
    return value;
  }
  const std::string inner = value.substr(2, value.size() - 3);
  if (depth > kDeepest) {
    return "";
  }
  const auto* product_of = std::find_if(std::begin(kProducts), std::end(kProducts),
                                        [&](auto begin) { return inner.starts_with(begin); });
  if (product_of == std::end(kProducts)) {
    constexpr std::string_view kComposed = "training.";
    const std::string name = named_key(inner, key);
    const LaunchSetting* other = find_setting(said, name);
    if (other == nullptr && name.starts_with(kComposed)) {
      other = find_setting(said, name.substr(kComposed.size()));
    }
    return other == nullptr ? "" : resolved(said, other->key, other->value, depth + 1);
  }
  constexpr double kMost = 1e9;
  double product = 1;
  for (const std::string_view part :
       parts_outside_braces(std::string_view(inner).substr(product_of->size()))) {
    const std::string word = resolved(said, key, std::string(part), depth + 1);
    double factor = 0;
    const char* end = word.data() + word.size();
    const auto [stop, failure] = std::from_chars(word.data(), end, factor);
    if (failure != std::errc() || stop != end || word.empty()) {
      return "";
    }
    product *= factor;
  }
  return product >= 1 && product <= kMost ? std::to_string(static_cast<std::int64_t>(product)) : "";
}

}  // namespace

void settle_references(LaunchConfig& said) {
  std::vector<std::string> values;
  values.reserve(said.settings.size());
  for (const LaunchSetting& setting : said.settings) {
    values.push_back(resolved(said, setting.key, setting.value));
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    said.settings[i].value = std::move(values[i]);
  }
  std::erase_if(said.settings, [](const LaunchSetting& each) {
    return each.value.empty() || each.value == "???" || each.value.starts_with("${");
  });
}

}  // namespace trireme::planner
