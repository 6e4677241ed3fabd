#include "core/json_scan.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

namespace trireme {
namespace {

struct Key {
  std::string_view text;  // as written, without its quotes
  std::size_t line = 0;
};

std::string spelled_out(std::string_view key) {
  const auto value = nlohmann::json::parse("\"" + std::string(key) + "\"", nullptr, false);
  return value.is_string() ? value.get<std::string>() : std::string(key);
}

class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {}

  JsonScan run() {
    for (at_ = 0; at_ < text_.size(); ++at_) {
      switch (text_[at_]) {
        case '"':
          take_string();
          break;
        case '{':
        case '[':
          begins_.push_back(keys_.size());
          result_.depth = std::max(result_.depth, static_cast<int>(begins_.size()));
          break;
        case '}':
        case ']':
          end_structure();
          break;
        case '\n':
          ++line_;
          break;
        default:
          break;
      }
    }
    return std::move(result_);
  }

 private:
  // A string before a colon is a key.
  void take_string() {
    const std::size_t begin = ++at_;
    while (at_ < text_.size() && text_[at_] != '"') {
      at_ += text_[at_] == '\\' ? 2 : 1;
    }
    const std::size_t end = std::min(at_, text_.size());
    const std::size_t next = text_.find_first_not_of(" \t\r\n", std::min(at_ + 1, text_.size()));
    if (next != std::string_view::npos && text_[next] == ':') {
      keys_.push_back({text_.substr(begin, end - begin), line_});
      escaped_ = escaped_ || keys_.back().text.find('\\') != std::string_view::npos;
    }
  }

  void end_structure() {
    if (begins_.empty()) {
      return;
    }
    const auto first = keys_.begin() + static_cast<std::ptrdiff_t>(begins_.back());
    begins_.pop_back();
    if (!result_.repeated) {
      find_repeated(first);
    }
    keys_.erase(first, keys_.end());
  }

  void find_repeated(std::vector<Key>::iterator first) {
    const auto less = [](const Key& a, const Key& b) { return a.text < b.text; };
    const auto same = [](const Key& a, const Key& b) { return a.text == b.text; };
    std::vector<std::string> spelled;
    if (escaped_) {  // "\u0061" is "a"
      spelled.reserve(static_cast<std::size_t>(keys_.end() - first));
      for (auto key = first; key != keys_.end(); ++key) {
        key->text = spelled.emplace_back(spelled_out(key->text));
      }
    }
    std::stable_sort(first, keys_.end(), less);
    const auto twice = std::adjacent_find(first, keys_.end(), same);
    if (twice != keys_.end()) {
      result_.repeated = RepeatedKey{std::string(twice->text), (twice + 1)->line};
    }
  }

  std::string_view text_;
  std::size_t at_ = 0, line_ = 1;
  std::vector<Key> keys_;            // of the objects that are open, outer ones first
  std::vector<std::size_t> begins_;  // of each open list or object: its first place in keys_
  bool escaped_ = false;
  JsonScan result_;
};

}  // namespace

JsonScan scan_json(std::string_view text) {
  return Scanner(text).run();
}

}  // namespace trireme
