// The two small languages inside Megatron-LM's arguments, read and written: which layers have
// experts, and which layers each pipeline stage holds. Sources: Megatron-LM d98e8a64,
// core/transformer/transformer_block.py (get_num_layers_to_build),
// core/transformer/pipeline_parallel_layer_layout.py.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "core/error.h"
#include "planner/launch/megatron/megatron.h"
#include "planner/plan/stages.h"

namespace trireme::planner {
namespace {

constexpr std::size_t kPatternMax = 200'000;

std::optional<std::int64_t> number_at(std::string_view text, std::size_t& at) {
  std::int64_t value = 0;
  const auto [stop, failure] = std::from_chars(text.data() + at, text.data() + text.size(), value);
  if (failure != std::errc()) {
    return {};
  }
  at = static_cast<std::size_t>(stop - text.data());
  return value;
}

// Expands "*N" after a letter or a bracket; ',' separates and means nothing.
class Layout {
 public:
  Layout(const LaunchConfig& config, const LaunchSetting& setting)
      : config_(config), setting_(setting), text_(setting.value) {}

  std::string run() {
    std::string stages = sequence(0);
    if (at_ < text_.size()) {
      fail();
    }
    return stages;
  }

 private:
  [[noreturn]] void fail() const {
    refuse_setting(
        config_, setting_,
        "stages separated by '|', of E, t, m and L, with (…)*N, as in Et*3|(tt|)*29,m|L");
  }

  std::string sequence(int depth) {
    std::string all;
    while (at_ < text_.size() && text_[at_] != ')') {
      std::string part;
      const char c = text_[at_++];
      if (c == '(') {
        if (depth > 20) {
          fail();
        }
        part = sequence(depth + 1);
        if (at_ >= text_.size() || text_[at_++] != ')') {
          fail();
        }
      } else if (std::string_view("EtmL|").find(c) != std::string_view::npos) {
        part = std::string(1, c);
      } else if (c != ',' && c != ' ' && c != '\\' && c != '"' && c != '\'') {
        fail();
      }
      std::int64_t times = 1;
      if (!part.empty() && at_ < text_.size() && text_[at_] == '*') {
        ++at_;
        times = number_at(text_, at_).value_or(-1);
      }
      if (times < 0 || (all.size() + part.size()) * static_cast<std::size_t>(times) > kPatternMax) {
        fail();
      }
      for (std::int64_t i = 0; i < times; ++i) {
        all += part;
      }
    }
    return all;
  }

  const LaunchConfig& config_;
  const LaunchSetting& setting_;
  std::string_view text_;
  std::size_t at_ = 0;
};

// A list of 0 and 1 as Python would work it out: [0]*3+[1]*58, ([1]*3+[0])*12.
class LayerList {
 public:
  LayerList(const LaunchConfig& config, const LaunchSetting& setting)
      : config_(config), setting_(setting), text_(setting.value) {}

  std::vector<bool> run() {
    std::vector<bool> flags = sum(0);
    if (at_ < text_.size()) {
      fail();
    }
    return flags;
  }

 private:
  [[noreturn]] void fail() const {
    refuse_setting(config_, setting_, "a number, or a list such as ([0]*3+[1]*58)");
  }

  // Blanks, quotes and commas stand for nothing.
  char next() {
    while (at_ < text_.size() && std::string_view(" ,'\"\\").find(text_[at_]) != kNone) {
      ++at_;
    }
    return at_ < text_.size() ? text_[at_] : '\0';
  }

  std::vector<bool> sum(int depth) {
    std::vector<bool> flags = product(depth);
    while (next() == '+') {
      ++at_;
      const std::vector<bool> more = product(depth);
      flags.insert(flags.end(), more.begin(), more.end());
    }
    return flags;
  }

  std::vector<bool> product(int depth) {
    const char open = next();
    if ((open != '(' && open != '[') || depth > 20) {
      fail();
    }
    ++at_;
    const std::vector<bool> once = open == '(' ? sum(depth + 1) : digits();
    if (next() != (open == '(' ? ')' : ']')) {
      fail();
    }
    ++at_;
    std::int64_t times = 1;
    if (next() == '*') {
      ++at_;
      next();
      times = number_at(text_, at_).value_or(-1);
    }
    if (times < 0 || (once.size() + 1) * static_cast<std::size_t>(times) > kPatternMax) {
      fail();
    }
    std::vector<bool> flags;
    for (std::int64_t i = 0; i < times; ++i) {
      flags.insert(flags.end(), once.begin(), once.end());
    }
    return flags;
  }

  std::vector<bool> digits() {
    std::vector<bool> flags;
    for (char c = next(); c == '0' || c == '1'; c = next()) {
      flags.push_back(c == '1');
      ++at_;
    }
    return flags;
  }

  static constexpr std::size_t kNone = std::string_view::npos;
  const LaunchConfig& config_;
  const LaunchSetting& setting_;
  std::string_view text_;
  std::size_t at_ = 0;
};

using Layers = std::vector<std::int64_t>;

bool all_equal(const Layers& layers) {
  return std::all_of(layers.begin(), layers.end(),
                     [&](std::int64_t count) { return count == layers.front(); });
}

// Even once the embedding, the head or both count as a layer.
bool even_with_ends(const Layers& layers, StageSplit& split) {
  for (const auto& [embedding, loss] : {std::pair{true, true}, {true, false}, {false, true}}) {
    Layers counted = layers;
    counted.front() += embedding ? 1 : 0;
    counted.back() += loss ? 1 : 0;
    if (all_equal(counted)) {
      split.account_for_embedding = embedding;
      split.account_for_loss = loss;
      return true;
    }
  }
  return false;
}

// Stages of one chunk whose middle ones are equal.
bool even_between_ends(const Layers& layers, StageSplit& split) {
  const Layers middle(layers.begin() + 1, layers.end() - 1);
  if ((!middle.empty() && !all_equal(middle)) || layers.front() == 0 || layers.back() == 0) {
    return false;
  }
  split.first_stage = layers.front();
  split.last_stage = layers.back();
  return true;
}

// "Et*2|t*3|t*2L": E, t, m, L are embedding, layer, extra prediction module and loss.
std::string layout_text(const std::vector<Chunk>& chunks) {
  std::string text = "E";
  for (const Chunk& chunk : chunks) {
    const std::int64_t layers = chunk.own_layers();
    text += chunk.embedding ? "" : "|";
    text += layers == 0 ? "" : layers == 1 ? "t" : fmt::format("t*{}", layers);
    text += std::string(static_cast<std::size_t>(chunk.prediction), 'm');
  }
  return text + "L";
}

}  // namespace

std::vector<std::int64_t> read_pipeline_pattern(const LaunchConfig& config,
                                                const LaunchSetting& setting) {
  std::vector<std::int64_t> stages = {0};
  for (const char c : Layout(config, setting).run()) {
    if (c == '|') {
      stages.push_back(0);
    } else if (c == 't') {
      ++stages.back();
    }
  }
  return stages;
}

bool has_prediction_apart(const LaunchConfig& config, const LaunchSetting& setting) {
  const std::string letters = Layout(config, setting).run();
  const std::size_t module = letters.find('m');
  return module != std::string::npos && letters.find('|', module) != std::string::npos;
}

std::vector<bool> read_layer_pattern(const LaunchConfig& config, const LaunchSetting& setting,
                                     std::int64_t layers) {
  const std::string_view text = setting.value;
  std::size_t at = 0;
  if (const auto every = number_at(text, at); every && at == text.size()) {
    if (*every < 1 || *every > 1'000'000) {
      refuse_setting(config, setting, "a number from 1 on, or a list such as ([0]*3+[1]*58)");
    }
    std::vector<bool> flags;
    for (std::int64_t layer = 0; layer < layers; ++layer) {
      flags.push_back(layer % *every == 0);
    }
    return flags;
  }
  std::vector<bool> flags = LayerList(config, setting).run();
  if (static_cast<std::int64_t>(flags.size()) != layers) {
    refuse_setting(config, setting,
                   fmt::format("a list of {} layers (it has {})", layers, flags.size()));
  }
  return flags;
}

std::string layer_pattern(const std::vector<bool>& flags) {
  std::string text;
  for (std::size_t first = 0; first < flags.size();) {
    std::size_t last = first;
    while (last < flags.size() && flags[last] == flags[first]) {
      ++last;
    }
    text += fmt::format("{}[{}]*{}", text.empty() ? "" : "+", flags[first] ? 1 : 0, last - first);
    first = last;
  }
  return "(" + text + ")";
}

StageSplit megatron_stages(const LaunchPlan& launch) {
  StageSplit split;
  Layers layers;
  const std::vector<Chunk> chunks = chunks_of(launch.job, launch.plan);
  for (const Chunk& chunk : chunks) {
    layers.push_back(chunk.own_layers());
  }
  const bool one_chunk = launch.plan.virtual_pipeline == 1;
  if (launch.plan.prediction_apart) {
    split.layout = layout_text(chunks);
    return split;
  }
  if (all_equal(layers) || even_with_ends(layers, split) ||
      (one_chunk && even_between_ends(layers, split))) {
    return split;
  }
  split.layout = layout_text(chunks);
  return split;
}

}  // namespace trireme::planner
