#include "planner/plan/framework_versions.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <utility>

#include "core/embedded_file.h"
#include "core/error.h"
#include "core/json_reader.h"
#include "planner/plan/framework_fields.h"
#include "planner/plan/job.h"

namespace trireme::planner {

namespace embedded {
std::span<const core::EmbeddedFile> frameworks();
}  // namespace embedded

namespace {

using nlohmann::json;

struct Recipe {
  json when;
  json fields;
};

// An entry of the file or one of its versions: fields over those of what it is like.
struct Entry {
  FrameworkVersion label;
  std::string like;    // of an entry: another entry; of a version: an older version
  std::string stands;  // of an entry: the version that its bare name means; empty: none
  std::vector<std::string> words;
  json fields = json::object();
  std::vector<Recipe> recipes;
  std::vector<Entry> versions;
};

constexpr std::pair<const char*, StateLayout> kStates[] = {
    {"flat_buffers", StateLayout::kFlatBuffers},
    {"torch", StateLayout::kTorch},
    {"deepspeed", StateLayout::kDeepSpeed}};
constexpr std::pair<const char*, Sharder> kSharders[] = {
    {"buffers", Sharder::kBuffers}, {"megatron_fsdp", Sharder::kMegatronFsdp},
    {"fsdp1", Sharder::kFsdp1},     {"fsdp2", Sharder::kFsdp2},
    {"zero", Sharder::kZero},       {"trireme", Sharder::kTrireme}};
constexpr std::pair<const char*, topologies::Precision> kPrecisions[] = {
    {"bf16", topologies::Precision::kBf16},
    {"fp16", topologies::Precision::kFp16},
    {"fp8", topologies::Precision::kFp8},
    {"fp4", topologies::Precision::kFp4}};

template <typename Value, std::size_t Count>
Value value_named(const std::pair<const char*, Value> (&table)[Count], const std::string& name,
                  const std::string& where) {
  for (const auto& [text, value] : table) {
    if (name == text) {
      return value;
    }
  }
  throw Error("frameworks.json#" + where, fmt::format("'{}' is not known", name));
}

void apply_fields(const json& fields, Framework& framework) {
  JsonReader reader(fields, "frameworks.json");
  if (reader.has("implementation")) {
    framework.implementation = implementation_of(reader.text("implementation"));
  }
  if (reader.has("states")) {
    framework.states = value_named(kStates, reader.text("states"), "states");
  }
  if (reader.has("sharder")) {
    framework.sharder = value_named(kSharders, reader.text("sharder"), "sharder");
  }
  if (reader.has("host_counts")) {
    const std::string counts = reader.text("host_counts");
    framework.host_counts = counts == "none" ? "" : counts;
  }
  if (reader.has("constants")) {
    framework.constants = reader.text("constants");
  }
  for (const FrameworkField& field : framework_fields()) {
    const std::string& key = field.setting.name;
    if (!reader.has(key)) {
      continue;
    }
    std::visit(
        [&](auto member) {
          using Type = std::decay_t<decltype(framework.*member)>;
          if constexpr (std::is_same_v<Type, bool>) {
            framework.*member = reader.boolean(key);
          } else if constexpr (std::is_same_v<Type, double>) {
            framework.*member = reader.number(key, 0);
          } else {
            framework.*member =
                static_cast<Type>(reader.integer(key, 0, std::numeric_limits<Type>::max()));
          }
        },
        field.member);
  }
  reader.finish();
}

std::string take(json& object, const char* key) {
  std::string text = object.value(key, "");
  object.erase(key);
  return text;
}

// Labels, words, recipes and versions leave the object; what stays is its fields.
Entry read_entry(json object, const std::string& name) {
  Entry entry;
  entry.label.name = name.empty() ? take(object, "name") : name;
  entry.label.version = take(object, "version");
  entry.label.since = take(object, "since");
  entry.label.summary = take(object, "summary");
  entry.label.source = take(object, "source");
  entry.like = take(object, "like");
  entry.stands = take(object, "stands");
  for (const json& word : object.value("words", json::array())) {
    entry.words.push_back(word.get<std::string>());
  }
  for (const json& recipe : object.value("recipes", json::array())) {
    json fields = recipe;
    fields.erase("when");
    entry.recipes.push_back({recipe.at("when"), std::move(fields)});
  }
  for (const json& version : object.value("versions", json::array())) {
    entry.versions.push_back(read_entry(version, entry.label.name));
  }
  for (const char* key : {"words", "recipes", "versions"}) {
    object.erase(key);
  }
  entry.fields = std::move(object);
  return entry;
}

const std::vector<Entry>& catalogue() {
  static const std::vector<Entry> entries = [] {
    std::vector<Entry> read;
    for (const core::EmbeddedFile& file : embedded::frameworks()) {
      const json document = parse_json(file.content, "frameworks.json");
      for (const json& entry : document.at("frameworks")) {
        read.push_back(read_entry(entry, ""));
      }
    }
    return read;
  }();
  return entries;
}

const Entry* entry_named(const std::string& name) {
  const auto found = std::ranges::find_if(
      catalogue(), [&](const Entry& entry) { return entry.label.name == name; });
  return found == catalogue().end() ? nullptr : &*found;
}

// "core_0.14.1" as {0, 14, 1} behind "core_"; what holds no number has none.
struct Release {
  std::string prefix;
  std::vector<int> numbers;
};

std::optional<Release> release_of(const std::string& version) {
  const std::size_t digits = version.find_first_of("0123456789");
  if (digits == std::string::npos ||
      version.find_first_not_of("0123456789.", digits) != std::string::npos) {
    return std::nullopt;
  }
  Release release{version.substr(0, digits), {0}};
  for (const char letter : version.substr(digits)) {
    if (letter == '.') {
      release.numbers.push_back(0);
    } else {
      release.numbers.back() = std::min(100'000'000, 10 * release.numbers.back() + (letter - '0'));
    }
  }
  return release;
}

const Entry& version_of(const Entry& entry, const std::string& version) {
  const Entry* older = nullptr;
  const std::optional<Release> wanted = release_of(version);
  for (const Entry& one : entry.versions) {
    if (one.label.version == version) {
      return one;
    }
    const std::optional<Release> release = release_of(one.label.version);
    if (wanted && release && release->prefix == wanted->prefix &&
        release->numbers <= wanted->numbers &&
        (older == nullptr || release_of(older->label.version)->numbers < release->numbers)) {
      older = &one;
    }
  }
  if (older != nullptr) {
    return *older;
  }
  std::vector<std::string> names;
  for (const Entry& one : entry.versions) {
    names.push_back(one.label.version);
  }
  throw Error("--framework " + entry.label.name + "@" + version,
              names.empty() ? "it has no versions; leave @ away"
                            : fmt::format("no such version; there are {}", fmt::join(names, ", ")));
}

bool holds(const json& when, const RecipeCase& run) {
  const std::pair<const char*, bool> switches[] = {
      {"latent", run.latent},   {"experts", run.experts},         {"gated", run.gated},
      {"unfused", run.unfused}, {"tensor", run.tensor},           {"pipeline", run.pipeline},
      {"tuning", run.tuning},   {"expert_bias", run.expert_bias}, {"rack", run.rack}};
  for (const auto& [key, value] : when.items()) {
    if (key == "precisions") {
      if (std::ranges::none_of(value, [&](const json& name) {
            return value_named(kPrecisions, name.get<std::string>(), "precisions") == run.precision;
          })) {
        return false;
      }
    } else if (key == "compute_capability") {
      if (run.compute_capability < value.at(0) || run.compute_capability > value.at(1)) {
        return false;
      }
    } else {
      const auto found = std::ranges::find_if(
          switches, [&, name = key](const auto& each) { return name == each.first; });
      if (found == std::end(switches)) {
        throw Error("frameworks.json#when", fmt::format("'{}' is not known", key));
      }
      if (found->second != value.get<bool>()) {
        return false;
      }
    }
  }
  return true;
}

void apply(const Entry& entry, const RecipeCase* run, Framework& framework) {
  apply_fields(entry.fields, framework);
  for (const Recipe& recipe : entry.recipes) {
    if (run != nullptr && holds(recipe.when, *run)) {
      apply_fields(recipe.fields, framework);
    }
  }
}

void apply_version(const Entry& entry, const Entry& version, const RecipeCase* run,
                   Framework& framework) {
  if (!version.like.empty()) {
    apply_version(entry, version_of(entry, version.like), run, framework);
  }
  apply(version, run, framework);
}

Framework build(const std::string& spec, const RecipeCase* run) {
  const std::size_t at = spec.find('@');
  const std::string name = spec.substr(0, at);
  const Entry* entry = entry_named(name);
  if (entry == nullptr) {
    throw Error("--framework", fmt::format("'{}' is not a framework; there are {}", name,
                                           fmt::join(framework_names(), ", ")));
  }
  Framework framework;
  if (!entry->like.empty()) {
    framework = build(entry->like, run);
  } else {
    framework.base = framework.constants = name;
  }
  framework.name = name;
  framework.version.clear();
  apply(*entry, run, framework);
  if (at == std::string::npos && !entry->stands.empty()) {
    apply_version(*entry, version_of(*entry, entry->stands), run, framework);
  }
  if (at != std::string::npos) {
    const Entry& version = version_of(*entry, spec.substr(at + 1));
    apply_version(*entry, version, run, framework);
    framework.version = version.label.version;
  }
  return framework;
}

// Length of the longest of `words` that `text` holds.
std::size_t longest_held(const std::vector<std::string>& words, std::string_view text) {
  std::size_t longest = 0;
  for (const std::string& word : words) {
    if (text.find(word) != std::string_view::npos) {
      longest = std::max(longest, word.size());
    }
  }
  return longest;
}

const Entry* entry_of_words(const std::string& behaviour, std::string_view words) {
  const Entry* named = entry_named(behaviour);
  const Entry* best = named;
  std::size_t longest = 0;
  for (const Entry& entry : catalogue()) {
    const std::size_t held = longest_held(entry.words, words);
    const bool alike = named == nullptr || find_framework(entry.label.name).sharder ==
                                               find_framework(behaviour).sharder;
    if (held > longest && alike) {
      best = &entry;
      longest = held;
    }
  }
  return best;
}

}  // namespace

const std::vector<FrameworkVersion>& framework_versions() {
  static const std::vector<FrameworkVersion> all = [] {
    std::vector<FrameworkVersion> list;
    for (const Entry& entry : catalogue()) {
      list.push_back(entry.label);
      for (const Entry& version : entry.versions) {
        list.push_back(version.label);
      }
    }
    return list;
  }();
  return all;
}

std::vector<std::string> framework_names() {
  std::vector<std::string> names;
  for (const Entry& entry : catalogue()) {
    names.push_back(entry.label.name);
  }
  return names;
}

Framework find_framework(const std::string& name) {
  return build(name, nullptr);
}

bool is_rack(const topologies::Cluster& cluster) {
  constexpr int kServerGpus = 16;  // of the largest, a DGX-2
  return cluster.node.nvlink_domain > kServerGpus;
}

RecipeCase recipe_case_of(const Job& job) {
  return {.precision = job.precision,
          .compute_capability = job.cluster.gpu.compute_capability,
          .latent = job.model.latent.has_value(),
          .experts = job.model.moe.has_value(),
          .gated = job.model.gated_mlp,
          .unfused = job.attention == models::AttentionKernel::kUnfused,
          .expert_bias = job.model.moe && job.model.moe->expert_bias,
          .rack = is_rack(job.cluster),
          .tuning = job.training.has_adapters()};
}

Framework find_framework(const std::string& name, const RecipeCase& run) {
  return build(name, &run);
}

std::string behaviour_of(const std::string& behaviour, std::string_view words,
                         std::string_view notes, std::string_view date) {
  if (behaviour.find('@') != std::string::npos) {
    return behaviour;
  }
  const Entry* entry = entry_of_words(behaviour, words);
  if (entry == nullptr) {
    return "";
  }
  const Entry* by_words = nullptr;
  const Entry* by_date = nullptr;
  std::size_t longest = 0;
  for (const Entry& version : entry->versions) {
    const std::size_t held =
        std::max(longest_held(version.words, words), longest_held(version.words, notes));
    if (held > longest) {
      by_words = &version;
      longest = held;
    }
    // Without a date the newest; what is undated is found by its words alone.
    if (!version.label.since.empty() && (date.empty() || version.label.since <= date)) {
      by_date = &version;
    }
  }
  const Entry* version = by_words != nullptr ? by_words : by_date;
  return version == nullptr ? entry->label.name : entry->label.name + "@" + version->label.version;
}

}  // namespace trireme::planner
