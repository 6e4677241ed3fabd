#include "planner/calibrate/training_log.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "core/error.h"
#include "planner/calibrate/least_squares.h"

namespace trireme::planner {
namespace {

// Without terminal colours: ESC [ … m.
std::string plain(std::string_view line) {
  std::string text;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '\x1b') {
      const std::size_t end = line.find('m', i);
      i = end == std::string_view::npos ? line.size() : end;
    } else {
      text += line[i];
    }
  }
  return text;
}

// A time or a rate that a step can have; "INFO" begins with a number to std::from_chars.
bool is_plausible(double value) {
  return value > 1e-15 && value < 1e15;
}

// The number after `key`, digits grouped by commas or not.
std::optional<double> number_after(std::string_view line, std::string_view key) {
  const std::size_t at = line.find(key);
  if (at == std::string_view::npos) {
    return std::nullopt;
  }
  std::string digits;
  for (const char c : line.substr(at + key.size())) {
    const bool part = (c >= '0' && c <= '9') || c == '.' || c == 'e' || c == 'E' || c == '+';
    if (part) {
      digits += c;
    } else if (c != ',' && !(c == ' ' && digits.empty())) {
      break;
    }
  }
  double value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  return error == std::errc() && end == digits.data() + digits.size() && is_plausible(value)
             ? std::optional(value)
             : std::nullopt;
}

// Those of "step_seconds": [0.41, 0.4], which a program of one's own may print.
std::vector<double> seconds_in_list(std::string_view line) {
  std::vector<double> seconds;
  constexpr std::string_view kKey = "\"step_seconds\": [";
  const std::size_t at = line.find(kKey);
  if (at == std::string_view::npos) {
    return seconds;
  }
  const char* end = line.data() + line.size();
  const char* next = line.data() + at + kKey.size();
  do {
    next = std::find_if(next, end, [](char c) { return c != ' ' && c != ','; });
    double value = 0;
    const auto [stopped, error] = std::from_chars(next, end, value);
    if (error != std::errc() || !is_plausible(value)) {
      return {};
    }
    seconds.push_back(value);
    next = stopped;
  } while (next != end && *next == ',');
  return seconds;
}

}  // namespace

StepLog parse_step_log(std::string_view text, const std::string& where) {
  StepLog log;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string line = plain(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (const auto milliseconds = number_after(line, "elapsed time per iteration (ms):")) {
      log.step_seconds.push_back(*milliseconds * 1e-3);
    } else if (const auto seconds = seconds_in_list(line); !seconds.empty()) {
      log.step_seconds.insert(log.step_seconds.end(), seconds.begin(), seconds.end());
    } else if (line.find("step:") != std::string::npos) {
      if (const auto rate = number_after(line, "tps:")) {
        log.tokens_per_second.push_back(*rate);
      }
    }
  }
  if (log.step_seconds.empty() && log.tokens_per_second.empty()) {
    throw Error(where,
                "holds no step line: 'elapsed time per iteration (ms): 1234.5' of Megatron-LM, "
                "'step: 10 … tps: 5,762' of torchtitan, or '\"step_seconds\": [0.41, 0.4]' of a "
                "program of your own");
  }
  log.format = log.step_seconds.empty() ? "torchtitan" : "megatron";
  return log;
}

double steady_step_seconds(const StepLog& log, double tokens, double gpus) {
  std::vector<double> seconds = log.step_seconds;
  if (seconds.empty()) {
    for (const double rate : log.tokens_per_second) {
      seconds.push_back(tokens / (rate * gpus));
    }
  }
  if (seconds.size() >= 3) {
    const std::size_t least = seconds.size() < 5 ? 1 : 2;
    const std::size_t warm = std::max(least, seconds.size() / 5);
    seconds.erase(seconds.begin(), seconds.begin() + static_cast<std::ptrdiff_t>(warm));
  }
  return median_of(seconds);
}

}  // namespace trireme::planner
