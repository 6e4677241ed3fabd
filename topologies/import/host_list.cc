#include <algorithm>

#include "core/error.h"
#include "topologies/import/facts.h"

namespace trireme::topologies {
namespace {

// "01-08" counts with its leading zeros.
void expand_range(const std::string& before, const std::string& range, const std::string& after,
                  const std::string& where, std::vector<std::string>& hosts) {
  const std::size_t dash = range.find('-');
  const std::string low = range.substr(0, dash);
  const std::string high = dash == std::string::npos ? low : range.substr(dash + 1);
  const auto digits = [](const std::string& text) {
    return !text.empty() && text.size() <= 9 &&
           std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
  };
  if (dash == std::string::npos && !digits(range)) {
    hosts.push_back(before + range + after);
    return;
  }
  if (!digits(low) || !digits(high) || std::stol(low) > std::stol(high) ||
      static_cast<std::size_t>(std::stol(high) - std::stol(low)) + hosts.size() > kHostsMost) {
    throw Error(where, "'" + range.substr(0, 40) +
                           "' is no range of hosts, such as 1-16 of at most " +
                           std::to_string(kHostsMost));
  }
  for (long i = std::stol(low); i <= std::stol(high); ++i) {
    std::string number = std::to_string(i);
    number.insert(0, number.size() < low.size() ? low.size() - number.size() : 0, '0');
    hosts.push_back(before);
    hosts.back() += number;
    hosts.back() += after;
  }
}

void expand(const std::string& item, const std::string& where, std::vector<std::string>& hosts) {
  const std::size_t open = item.find('[');
  if (open == std::string::npos) {
    if (item.find(']') != std::string::npos) {
      throw Error(where, "'" + item.substr(0, 40) + "' closes a bracket that it does not open");
    }
    hosts.push_back(item);
    return;
  }
  const std::size_t close = item.find(']', open);
  if (close == std::string::npos) {
    throw Error(where, "'" + item.substr(0, 40) + "' opens a bracket that it does not close");
  }
  std::vector<std::string> firsts;
  const std::string ranges = item.substr(open + 1, close - open - 1);
  std::size_t begin = 0;
  while (begin <= ranges.size()) {
    const std::size_t end = std::min(ranges.find(',', begin), ranges.size());
    expand_range(item.substr(0, open), ranges.substr(begin, end - begin), "", where, firsts);
    begin = end + 1;
  }
  const std::string rest = item.substr(close + 1);
  for (const std::string& first : firsts) {
    if (rest.find('[') == std::string::npos) {
      hosts.push_back(first + rest);
    } else {
      expand(first + rest, where, hosts);
    }
    if (hosts.size() > kHostsMost) {
      throw Error(where, "names more than " + std::to_string(kHostsMost) + " hosts");
    }
  }
}

}  // namespace

std::vector<std::string> host_list(const std::string& text, const std::string& where) {
  std::vector<std::string> hosts;
  std::string item;
  int depth = 0;
  for (const char c : text + ",") {
    depth += c == '[' ? 1 : (c == ']' ? -1 : 0);
    if (c == ',' && depth <= 0) {
      if (!item.empty()) {
        expand(item, where, hosts);
      }
      item.clear();
      depth = 0;
    } else if (c != ' ' && c != '\t' && c != '"') {
      item += c;
    }
  }
  if (!item.empty()) {
    item.pop_back();  // the comma that was added
    throw Error(where, "'" + item.substr(0, 40) + "' opens a bracket that it does not close");
  }
  return hosts;
}

}  // namespace trireme::topologies
