// Source: torchtitan v0.2.2, torchtitan/models/*/__init__.py.
#include "planner/launch/torchtitan.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "models/function_table.h"
#include "models/model_file.h"
#include "models/model_names.h"
#include "models/presets.h"
#include "planner/launch/field_table.h"

namespace trireme::planner {
namespace {

struct Family {
  std::string_view name;
  std::string_view part;  // of the model's own name
  bool pipelines, flex_attention;
};
constexpr Family kFamilies[] = {
    {"llama3", "llama-3", true, false},  {"llama4", "llama-4", true, false},
    {"qwen3", "qwen3", false, false},    {"deepseek_v3", "deepseek", true, true},
    {"gpt_oss", "gpt-oss", false, true},
};

// A field of the function that torchtitan's flavor has otherwise than the preset.
struct Change {
  const char* key = nullptr;
  double value = 0;
};
struct Flavor {
  std::string_view family, flavor, assets;
  std::int64_t layers, hidden, ffn, heads, kv_heads, vocab, experts;
  const char* preset = nullptr;  // the model that it is; none: told by its dimensions alone
  std::array<Change, 3> changes = {};
};
// DeepSeek's flavors have one mscale, which the softmax's scale takes too.
constexpr Change kTitanEpsilon = {"norm_epsilon", 1e-5};
// ffn is that of one expert where there are experts.
constexpr Flavor kFlavors[] = {
    {"llama3", "8B", "Llama-3.1-8B", 32, 4096, 14336, 32, 8, 128256, 0, "llama-3.1-8b"},
    {"llama3", "70B", "Llama-3.1-70B", 80, 8192, 28672, 64, 8, 128256, 0, "llama-3.1-70b"},
    {"llama3", "405B", "Llama-3.1-405B", 126, 16384, 53248, 128, 8, 128256, 0, "llama-3.1-405b"},
    {"llama4", "17bx16e", "Llama-4-Scout-17B-16E", 48, 5120, 8192, 40, 8, 202048, 16},
    {"llama4", "17bx128e", "Llama-4-Maverick-17B-128E", 48, 5120, 8192, 40, 8, 202048, 128},
    {"qwen3", "0.6B", "Qwen3-0.6B", 28, 1024, 3072, 16, 8, 151936, 0, "qwen3-0.6b"},
    {"qwen3", "1.7B", "Qwen3-1.7B", 28, 2048, 6144, 16, 8, 151936, 0, "qwen3-1.7b"},
    {"qwen3", "4B", "Qwen3-4B", 36, 2560, 9728, 32, 8, 151936, 0, "qwen3-4b"},
    {"qwen3", "8B", "Qwen3-8B", 36, 4096, 12288, 32, 8, 151936, 0, "qwen3-8b"},
    {"qwen3", "14B", "Qwen3-14B", 40, 5120, 17408, 40, 8, 151936, 0, "qwen3-14b"},
    {"qwen3", "32B", "Qwen3-32B", 64, 5120, 25600, 64, 8, 151936, 0, "qwen3-32b"},
    {"qwen3", "30B-A3B", "Qwen3-30B-A3B", 48, 2048, 768, 32, 4, 151936, 128, "qwen3-30b-a3b"},
    {"qwen3",
     "235B-A22B",
     "Qwen3-235B-A22B",
     94,
     4096,
     1536,
     64,
     4,
     151936,
     128,
     "qwen3-235b-a22b",
     {{{"rotary_base", 5e6}}}},
    {"deepseek_v3",
     "16B",
     "deepseek-moe-16b-base",
     27,
     2048,
     1408,
     16,
     16,
     102400,
     64,
     "deepseek-v2-lite",
     {{kTitanEpsilon, {"rotary_mscale", 0.7}, {"rotary_mscale_all", 0.7}}}},
    {"deepseek_v3",
     "236B",
     "DeepSeek-V2",
     60,
     5120,
     1536,
     128,
     128,
     102400,
     160,
     "deepseek-v2",
     {{kTitanEpsilon, {"rotary_mscale", 1}, {"rotary_mscale_all", 1}}}},
    {"deepseek_v3",
     "671B",
     "DeepSeek-V3.1-Base",
     61,
     7168,
     2048,
     128,
     128,
     129280,
     256,
     "deepseek-v3",
     {{kTitanEpsilon}}},
    {"gpt_oss", "20b", "gpt-oss-20b", 24, 2880, 2880, 64, 8, 201088, 32, "gpt-oss-20b"},
    {"gpt_oss", "120b", "gpt-oss-120b", 36, 2880, 2880, 64, 8, 201088, 128, "gpt-oss-120b"},
};

// Flavors beside those: small ones for debugging, and other attention kernels.
constexpr std::pair<std::string_view, std::string_view> kOtherFlavors[] = {
    {"llama3", "debugmodel debugmodel_flex_attn debugmodel_varlen_attn 8B_flex 8B_varlen"},
    {"llama4", "debugmodel debugmodel_irope 17bx16e_irope 17bx128e_irope"},
    {"qwen3", "debugmodel debugmodel_moe"},
    {"deepseek_v3", "debugmodel debugmodel_flex_attn"},
    {"gpt_oss", "debugmodel"},
};

bool has_dimensions_of(const models::Transformer& model, const Flavor& flavor) {
  const std::int64_t experts = model.moe ? model.moe->experts : 0;
  const std::int64_t ffn = model.moe ? model.moe->expert_ffn : model.ffn;
  // With latent attention the count of key-value heads is a convention.
  const bool heads =
      model.heads == flavor.heads && (model.latent || model.kv_heads == flavor.kv_heads);
  const bool latent = model.latent.has_value() == (flavor.family == "deepseek_v3");
  return heads && latent && model.layers == flavor.layers && model.hidden == flavor.hidden &&
         model.vocab == flavor.vocab && experts == flavor.experts && ffn == flavor.ffn;
}

// Fields that say how experts are balanced and weights drawn are torchtitan's own choices.
bool is_training_choice(std::string_view key) {
  return key == "router_aux_loss" || key == "router_z_loss" || key == "init_std" ||
         key == "router_bias_selects";
}

models::Transformer read_flavor(const Flavor& flavor) {
  models::Transformer model = models::load_model(flavor.preset);
  for (const Change& change : flavor.changes) {
    if (change.key != nullptr) {
      const auto member = models::function_field(change.key).member;
      model.function.*std::get<double models::Function::*>(member) = change.value;
    }
  }
  return model;
}

// A row of kFlavors with a preset. Read once: a search asks of each layout whether it can be
// written.
const models::Transformer& model_of(const Flavor& flavor) {
  static const auto models = [] {
    std::map<const Flavor*, models::Transformer> all;
    for (const Flavor& each : kFlavors) {
      if (each.preset != nullptr) {
        all.emplace(&each, read_flavor(each));
      }
    }
    return all;
  }();
  return models.at(&flavor);
}

// What of `model` the flavor has otherwise, by name and with both values; empty: nothing.
std::string difference_from(const models::Transformer& model, const Flavor& flavor) {
  if (flavor.preset == nullptr) {
    return "";
  }
  const models::Transformer& titan = model_of(flavor);
  for (const models::FunctionField& field : models::function_fields()) {
    if (!is_training_choice(field.key) &&
        !models::same_value(field, model.function, titan.function)) {
      return fmt::format("{} {}, not {}", field.key, models::value_text(field, titan.function),
                         models::value_text(field, model.function));
    }
  }
  models::Transformer alike = model;
  alike.name = titan.name;
  alike.function = titan.function;
  alike.max_sequence = titan.max_sequence;
  alike.multi_token_layers = titan.multi_token_layers;
  alike.kv_heads = model.latent ? titan.kv_heads : model.kv_heads;
  if (alike == titan) {
    return "";
  }
  const nlohmann::ordered_json ours = models::write_model_file(alike);
  const nlohmann::ordered_json theirs = models::write_model_file(titan);
  for (const auto& [key, value] : ours.items()) {
    if (!theirs.contains(key) || theirs.at(key) != value) {
      return fmt::format("no {} {}", key, printable(value.dump()));
    }
  }
  for (const auto& [key, value] : theirs.items()) {
    if (!ours.contains(key)) {
      return fmt::format("{} {}, which the model lacks", key, printable(value.dump()));
    }
  }
  return "another number of router biases";
}

TorchtitanModel made(std::string_view family, std::string_view flavor, std::string_view assets) {
  const auto* found = std::find_if(std::begin(kFamilies), std::end(kFamilies),
                                   [&](const Family& each) { return each.name == family; });
  return {std::string(family), std::string(flavor), std::string(assets), found->pipelines,
          found->flex_attention};
}

std::string known_flavors() {
  std::string text;
  for (const Flavor& flavor : kFlavors) {
    text += fmt::format("{}{}/{}", text.empty() ? "" : ", ", flavor.family, flavor.flavor);
  }
  return text;
}

std::string_view family_of(const models::Transformer& model) {
  std::string name = model.name;
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  for (const Family& family : kFamilies) {
    if (name.find(family.part) != std::string::npos) {
      return family.name;
    }
  }
  return "";
}

std::string_view named_family(const Launched& launched) {
  const auto slash = launched.flavor.find('/');
  return slash == std::string_view::npos ? family_of(launched.job.model)
                                         : launched.flavor.substr(0, slash);
}

// What the person says is taken as it is, also a flavor of their own.
TorchtitanModel named_model(const LaunchPlan& launch) {
  const std::string family(named_family(launch));
  const auto slash = launch.flavor.find('/');
  const std::string flavor =
      slash == std::string::npos ? launch.flavor : launch.flavor.substr(slash + 1);
  const bool known = std::any_of(std::begin(kFamilies), std::end(kFamilies),
                                 [&](const Family& each) { return each.name == family; });
  if (!known || flavor.empty()) {
    refuse("--flavor", fmt::format("'{}' does not say which of torchtitan's models it is of; give "
                                   "MODEL/FLAVOR with llama3, llama4, qwen3, deepseek_v3 or "
                                   "gpt_oss, e.g. llama3/8B",
                                   launch.flavor));
  }
  return made(family, flavor, "");
}

}  // namespace

std::optional<models::Transformer> torchtitan_flavor(std::string_view family,
                                                     std::string_view flavor) {
  const auto* found =
      std::find_if(std::begin(kFlavors), std::end(kFlavors),
                   [&](const Flavor& row) { return row.family == family && row.flavor == flavor; });
  if (found == std::end(kFlavors) || found->preset == nullptr) {
    return {};
  }
  return model_of(*found);
}

TorchtitanName torchtitan_name(std::string_view family, std::string_view flavor) {
  TorchtitanName name;
  for (const auto& [own, others] : kOtherFlavors) {
    if (models::letters_and_digits(own) != models::letters_and_digits(family)) {
      continue;
    }
    name.family = own;
    std::vector<std::string_view> all;
    for (const Flavor& row : kFlavors) {
      if (row.family == own) {
        all.push_back(row.flavor);
      }
    }
    name.flavors = fmt::format("{}", fmt::join(all, ", "));
    for (const std::string_view other : names_in(others)) {
      all.push_back(other);
    }
    const auto same = std::find_if(all.begin(), all.end(), [&](std::string_view one) {
      return models::letters_and_digits(one) == models::letters_and_digits(flavor);
    });
    name.flavor = same == all.end() ? "" : std::string(*same);
    const TorchtitanModel model = made(own, name.flavor, "");
    name.pipelines = model.pipelines;
    name.flex_attention = model.flex_attention;
    for (const std::string_view end :
         {"_flex", "_flex_attn", "_varlen", "_varlen_attn", "_irope"}) {
      name.flex_attention |= name.flavor.ends_with(end);
    }
  }
  return name;
}

TorchtitanCode torchtitan_code(const Launched& launched) {
  std::string_view name;
  if (!launched.flavor.empty()) {
    name = named_family(launched);
  } else {
    const auto* alike =
        std::find_if(std::begin(kFlavors), std::end(kFlavors),
                     [&](const Flavor& row) { return has_dimensions_of(launched.job.model, row); });
    name = alike == std::end(kFlavors) ? std::string_view() : alike->family;
  }
  const auto* found = std::find_if(std::begin(kFamilies), std::end(kFamilies),
                                   [&](const Family& each) { return each.name == name; });
  return found == std::end(kFamilies) ? TorchtitanCode{}
                                      : TorchtitanCode{found->pipelines, found->flex_attention};
}

TorchtitanModel torchtitan_model(const LaunchPlan& launch) {
  if (!launch.flavor.empty()) {
    return named_model(launch);
  }
  for (const Flavor& flavor : kFlavors) {
    if (!has_dimensions_of(launch.job.model, flavor)) {
      continue;
    }
    const std::string difference = difference_from(launch.job.model, flavor);
    if (difference.empty()) {
      return made(flavor.family, flavor.flavor, flavor.assets);
    }
    const std::string name = fmt::format("{}/{}", flavor.family, flavor.flavor);
    refuse("--model", fmt::format("torchtitan v0.2.2's {} has the dimensions of {}, but {}; "
                                  "--flavor {} takes it as it is, --flavor MODEL/NAME names one of "
                                  "your own",
                                  name, launch.job.model.name, difference, name));
  }
  refuse("--model", fmt::format("torchtitan v0.2.2 has no flavor of {}'s dimensions; it has {}; "
                                "--flavor MODEL/NAME names one of your own",
                                launch.job.model.name, known_flavors()));
}

}  // namespace trireme::planner
