#include "planner/plan/training.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>
#include <sstream>
#include <utility>

#include "core/error.h"
#include "planner/plan/fused_targets.h"

namespace trireme::planner {

namespace {

constexpr std::pair<std::string_view, BaseFormat> kBases[] = {
    {"bf16", BaseFormat::kSixteenBit},
    {"fp32", BaseFormat::kFp32},
    {"int8", BaseFormat::kInt8},
    {"nf4", BaseFormat::kNf4},
    {"nf4-double", BaseFormat::kNf4Double},
    {"gptq4", BaseFormat::kGptq4}};

constexpr std::uint16_t kFusedQkv = kTargetQuery | kTargetKey | kTargetValue | kTargetFusedQkv;

// What libraries call the linear layers of their model families.
constexpr std::pair<std::string_view, std::uint16_t> kTargets[] = {
    {"q", kTargetQuery},
    {"q_proj", kTargetQuery},
    {"query", kTargetQuery},
    {"k", kTargetKey},
    {"k_proj", kTargetKey},
    {"key", kTargetKey},
    {"v", kTargetValue},
    {"v_proj", kTargetValue},
    {"value", kTargetValue},
    {"qkv", kFusedQkv},
    {"c_attn", kFusedQkv},
    {"linear_qkv", kFusedQkv},
    {"query_key_value", kFusedQkv},
    {"o", kTargetOutput},
    {"o_proj", kTargetOutput},
    {"output_proj", kTargetOutput},
    {"projection", kTargetOutput},
    {"dense", kTargetOutput},
    {"linear_proj", kTargetOutput},
    {"attention", kAttentionTargets},
    {"gate", kTargetGate},
    {"gate_proj", kTargetGate},
    {"w1", kTargetGate},
    {"up", kTargetUp},
    {"up_proj", kTargetUp},
    {"w2", kTargetUp},
    {"w3", kTargetUp},
    {"linear_fc1", kTargetGate | kTargetUp | kTargetFusedMlp},
    {"dense_h_to_4h", kTargetUp},
    {"down", kTargetDown},
    {"down_proj", kTargetDown},
    {"linear_fc2", kTargetDown},
    {"dense_4h_to_h", kTargetDown},
    {"c_proj", kTargetOutput | kTargetDown},  // Qwen and GPT-2 call both so
    {"mlp", kMlpTargets},
    {"head", kTargetHead},
    {"lm_head", kTargetHead},
    {"all", kLinearTargets},
    {"all-linear", kLinearTargets},
    {"linear", kLinearTargets},
    {"*_proj", kLinearTargets},
    {"default", kTargetQuery | kTargetKey | kTargetValue},
};

constexpr std::int64_t kLongestSample = 1'000'000'000;

void normalise(std::vector<LengthShare>& lengths, const std::string& where) {
  double total = 0;
  for (const LengthShare& length : lengths) {
    if (length.tokens < 1 || length.tokens > kLongestSample || !(length.share >= 0) ||
        !std::isfinite(length.share)) {
      throw Error(where, fmt::format("a length of {} tokens with count {} is wrong; lengths from 1 "
                                     "and counts from 0 are expected",
                                     length.tokens, length.share));
    }
    total += length.share;
  }
  if (!(total > 0)) {
    throw Error(where, "holds no sample; [[tokens, count], ...] would be right");
  }
  for (LengthShare& length : lengths) {
    length.share /= total;
  }
  std::sort(lengths.begin(), lengths.end(),
            [](const LengthShare& a, const LengthShare& b) { return a.tokens < b.tokens; });
}

std::vector<LengthShare> json_lengths(const std::string& text, const std::string& where) {
  const nlohmann::json parsed = nlohmann::json::parse(text, nullptr, false);
  if (!parsed.is_array()) {
    throw Error(where, "is not a histogram; [[tokens, count], ...] would be right");
  }
  std::vector<LengthShare> lengths;
  for (const nlohmann::json& pair : parsed) {
    const bool right = pair.is_array() && pair.size() == 2 && pair[0].is_number_integer() &&
                       pair[1].is_number() && pair[0].get<double>() < 1e9;
    if (!right) {
      throw Error(where,
                  fmt::format("'{}' is wrong; [tokens, count] would be right",
                              pair.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace)));
    }
    lengths.push_back({pair[0].get<std::int64_t>(), pair[1].get<double>()});
  }
  return lengths;
}

}  // namespace

double frozen_bytes(BaseFormat base) {
  switch (base) {
    case BaseFormat::kSixteenBit:
      return 2;
    case BaseFormat::kFp32:
      return 4;
    case BaseFormat::kInt8:
      return 1 + 2.0 / 128;
    case BaseFormat::kNf4:
      return 0.5 + 4.0 / 64;
    case BaseFormat::kNf4Double:
      return 0.5 + 1.0 / 64 + 4.0 / (64 * 256);
    case BaseFormat::kGptq4:
      return 0.5 + 2.5 / 128;
  }
  return 2;
}

bool is_quantised(BaseFormat base) {
  return base != BaseFormat::kSixteenBit && base != BaseFormat::kFp32;
}

BaseFormat base_format_of(std::string_view name) {
  for (const auto& [known, base] : kBases) {
    if (name == known) {
      return base;
    }
  }
  throw Error("--base",
              fmt::format("'{}' is not one of {}", name, fmt::join(base_format_names(), ", ")));
}

std::string_view to_string(BaseFormat base) {
  for (const auto& [name, known] : kBases) {
    if (base == known) {
      return name;
    }
  }
  return "";
}

std::vector<std::string> base_format_names() {
  std::vector<std::string> names;
  for (const auto& [name, base] : kBases) {
    names.emplace_back(name);
  }
  return names;
}

std::uint16_t adapter_targets_of(std::string_view names) {
  unsigned targets = 0;
  std::string word;
  const std::string text = std::string(names) + ",";
  for (const char letter : text) {
    const bool part = std::isalnum(static_cast<unsigned char>(letter)) != 0 || letter == '_' ||
                      letter == '-' || letter == '*';
    if (part) {
      word += static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
      continue;
    }
    if (word.empty()) {
      continue;
    }
    const auto* found = std::find_if(std::begin(kTargets), std::end(kTargets),
                                     [&](const auto& one) { return one.first == word; });
    if (found == std::end(kTargets)) {
      throw Error("--lora-targets",
                  fmt::format("'{}' is no linear layer; q, k, v, o, gate, up, down, head, "
                              "attention, mlp or all-linear would be right",
                              word));
    }
    targets |= found->second;
    word.clear();
  }
  if (targets == 0) {
    throw Error("--lora-targets", "names no layer; q,v or all-linear would be right");
  }
  return static_cast<std::uint16_t>(targets);
}

double mean_length(const Training& training, std::int64_t longest) {
  double mean = training.lengths.empty() ? static_cast<double>(longest) : 0;
  for (const LengthShare& length : training.lengths) {
    mean += length.share * static_cast<double>(std::min(length.tokens, longest));
  }
  return mean;
}

double mean_square_length(const Training& training, std::int64_t longest) {
  const auto square = [](std::int64_t tokens) {
    return static_cast<double>(tokens) * static_cast<double>(tokens);
  };
  double mean = training.lengths.empty() ? square(longest) : 0;
  for (const LengthShare& length : training.lengths) {
    mean += length.share * square(std::min(length.tokens, longest));
  }
  return mean;
}

double expected_longest(const Training& training, std::int64_t longest, std::int64_t samples) {
  if (training.lengths.empty()) {
    return static_cast<double>(longest);
  }
  // P(longest <= t) = P(one <= t)^samples, summed over the sorted lengths.
  double expected = 0;
  double below = 0;
  double reached = 0;
  for (const LengthShare& length : training.lengths) {
    below = std::min(1.0, below + length.share);
    const double up_to = std::pow(below, static_cast<double>(samples));
    expected += (up_to - reached) * static_cast<double>(std::min(length.tokens, longest));
    reached = up_to;
  }
  return expected;
}

std::vector<LengthShare> parse_lengths(const std::string& text, const std::string& where) {
  const auto first = text.find_first_not_of(" \t\r\n");
  std::vector<LengthShare> lengths;
  if (first != std::string::npos && text[first] == '[') {
    lengths = json_lengths(text, where);
  } else {
    std::istringstream lines(text);
    std::string line;
    for (std::size_t number = 1; std::getline(lines, line); ++number) {
      if (line.find_first_not_of(" \t\r") == std::string::npos) {
        continue;
      }
      std::istringstream words(line);
      LengthShare length;
      std::string rest;
      if (!(words >> length.tokens >> length.share) || (words >> rest)) {
        throw Error(fmt::format("{}:{}", where, number),
                    "is not 'tokens count', two numbers a line");
      }
      lengths.push_back(length);
    }
  }
  normalise(lengths, where);
  return lengths;
}

}  // namespace trireme::planner
