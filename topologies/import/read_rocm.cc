// The tables of `rocm-smi --showtopo` and `amd-smi topology`: link types (XGMI, PCIE), hops,
// weights, and the NUMA node of each GPU. amd-smi names GPUs by bus id.
#include <algorithm>
#include <cctype>
#include <charconv>
#include <sstream>

#include "core/error.h"
#include "topologies/import/facts.h"

namespace trireme::topologies {
namespace {

enum class Section { kNone, kType, kHops, kWeight, kAccess };

std::vector<std::string> words_of(const std::string& line) {
  std::istringstream stream(line);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) {
    words.push_back(word);
  }
  return words;
}

// "GPU3" or "GPU[3]" (with what follows); -1: neither.
int gpu_number(const std::string& word) {
  if (!word.starts_with("GPU") && !word.starts_with("DCU")) {
    return -1;
  }
  const std::size_t digits = word.size() > 3 && word[3] == '[' ? 4 : 3;
  int number = -1;
  std::from_chars(word.data() + std::min(digits, word.size()), word.data() + word.size(), number);
  return number <= 4096 ? number : -1;
}

struct Tables {
  std::vector<int> columns;  // of the table being read
  std::vector<std::vector<std::string>> types, hops, weights, access;
  std::vector<std::string> buses;  // in the order of the first header
  std::vector<std::string> numa;
};

// "0000:c1:00.0"
bool is_bus_id(const std::string& word) {
  return word.size() >= 10 && word.size() <= 16 && word[word.size() - 2] == '.' &&
         std::ranges::count(word, ':') == 2;
}

int device_number(const std::string& word, Tables& tables) {
  if (!is_bus_id(word)) {
    return gpu_number(word);
  }
  const auto found = std::ranges::find(tables.buses, word);
  if (found == tables.buses.end() && tables.buses.size() < 1024) {
    tables.buses.push_back(word);
    return static_cast<int>(tables.buses.size()) - 1;
  }
  return static_cast<int>(found - tables.buses.begin());
}

void set_cell(std::vector<std::vector<std::string>>& table, std::size_t row, std::size_t column,
              const std::string& cell) {
  table.resize(std::max(table.size(), row + 1));
  table[row].resize(std::max(table[row].size(), column + 1));
  table[row][column] = cell;
}

void read_line(const std::vector<std::string>& words, Section section, const std::string& name,
               Tables& tables) {
  if (words.empty() || (gpu_number(words[0]) < 0 && !is_bus_id(words[0]))) {
    return;
  }
  const auto is_device = [](const auto& w) { return gpu_number(w) >= 0 || is_bus_id(w); };
  const bool header =
      std::ranges::all_of(words, is_device) && words.back().find(']') == std::string::npos;
  if (header) {
    tables.columns.clear();
    for (const std::string& word : words) {
      tables.columns.push_back(device_number(word, tables));
    }
    return;
  }
  // "GPU[0] : (Topology) Numa Node: 0"
  const auto row = static_cast<std::size_t>(device_number(words[0], tables));
  const auto node = std::ranges::find(words, "Node:");
  if (node != words.end() && node + 1 != words.end()) {
    tables.numa.resize(std::max(tables.numa.size(), row + 1));
    tables.numa[row] = *(node + 1);
    return;
  }
  if (section == Section::kNone) {
    return;
  }
  if (words.size() != tables.columns.size() + 1 || row > 1024) {
    throw Error(name, "row '" + words[0] + "' has not as many cells as its header has GPUs");
  }
  for (std::size_t i = 0; i < tables.columns.size(); ++i) {
    std::vector<std::vector<std::string>>& table = section == Section::kType     ? tables.types
                                                   : section == Section::kHops   ? tables.hops
                                                   : section == Section::kAccess ? tables.access
                                                                                 : tables.weights;
    set_cell(table, row, static_cast<std::size_t>(tables.columns[i]), words[i + 1]);
  }
}

Tables parse(const std::string& text, const std::string& name) {
  Tables tables;
  Section section = Section::kNone;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) {
    const auto has = [&line](const char* word) { return line.find(word) != std::string::npos; };
    if (has("===") || has("etween two GPUs") || has(" TABLE")) {
      section = has("Link Type") || has("LINK TYPE TABLE") ? Section::kType
                : has("Hops") || has("HOPS TABLE")         ? Section::kHops
                : has("Weight") || has("WEIGHT TABLE")     ? Section::kWeight
                : has("ACCESS TABLE")                      ? Section::kAccess
                                                           : Section::kNone;
      continue;
    }
    read_line(words_of(line), section, name, tables);
  }
  return tables;
}

std::string cell(const std::vector<std::vector<std::string>>& table, std::size_t a, std::size_t b) {
  return a < table.size() && b < table[a].size() ? table[a][b] : "";
}

// The least weight of two GPUs that XGMI joins: theirs is a link of their own. Hops do not tell:
// both tools print 1 for all GPUs of one hive (ROCm/rocm-systems issue 5763). 0: no weights.
int least_weight(const Tables& tables) {
  int least = 0;
  for (std::size_t a = 0; a < tables.types.size(); ++a) {
    for (std::size_t b = 0; b < tables.types.size(); ++b) {
      const std::string text = cell(tables.weights, a, b);
      int weight = 0;
      std::from_chars(text.data(), text.data() + text.size(), weight);
      if (a != b && weight > 0 && cell(tables.types, a, b) == "XGMI") {
        least = least == 0 ? weight : std::min(least, weight);
      }
    }
  }
  return least;
}

// amd-smi's table of peer access: ENABLED or DISABLED.
void set_access(const Tables& tables, NodeFacts& facts) {
  int open = 0;
  int closed = 0;
  std::string first;
  for (std::size_t a = 0; a < tables.access.size(); ++a) {
    for (std::size_t b = a + 1; b < tables.access.size(); ++b) {
      const std::string text = cell(tables.access, a, b);
      open += text == "ENABLED" ? 1 : 0;
      closed += text == "DISABLED" ? 1 : 0;
      if (text == "DISABLED" && first.empty()) {
        first = "GPU" + std::to_string(a) + " and GPU" + std::to_string(b);
      }
    }
  }
  if (open + closed > 0) {
    facts.peer_to_peer = open > 0;
  }
  if (open > 0 && closed > 0) {
    facts.doubts.push_back({"peer access",
                            std::to_string(closed) + " of " + std::to_string(open + closed) +
                                " pairs of GPUs have none (" + first +
                                "); all are taken to have it",
                            "look for PCIe ACS, for an IOMMU that is not in passthrough mode "
                            "(iommu=pt), and for cards without large BARs"});
  }
}

}  // namespace

NodeFacts read_rocm_tables(const std::string& text, const std::string& name) {
  const Tables tables = parse(text, name);
  const std::size_t gpus = tables.types.size();
  if (gpus == 0 || gpus > static_cast<std::size_t>(kLayoutGpusMost)) {
    throw Error(name, "has no table of link types between two GPUs of 1 to " +
                          std::to_string(kLayoutGpusMost) + " GPUs");
  }
  NodeFacts facts;
  facts.gpus = static_cast<int>(gpus);
  facts.links.assign(gpus, std::vector<int>(gpus, 0));
  facts.switch_links.assign(gpus, 0);
  facts.links_told = true;
  const std::string least = std::to_string(least_weight(tables));
  for (std::size_t a = 0; a < gpus; ++a) {
    for (std::size_t b = 0; b < gpus; ++b) {
      const std::string type = cell(tables.types, a, b);
      const std::string other = cell(tables.types, b, a);
      if (a != b && type.empty() && other.empty()) {
        throw Error(
            name, "does not say how GPU" + std::to_string(a) + " reaches GPU" + std::to_string(b));
      }
      // Over two hops another GPU forwards: no link of the pair's own.
      const std::string hops = cell(tables.hops, a, b);
      const std::string weight = cell(tables.weights, a, b);
      const bool direct = (hops.empty() || hops == "0" || hops == "1") &&
                          (weight.empty() || least == "0" || weight == least);
      const bool linked = (type == "XGMI" || other == "XGMI") && direct;
      facts.links[a][b] = facts.links[b][a] = a != b && linked ? 1 : 0;
    }
  }
  facts.switches_told = false;
  set_access(tables, facts);
  if (tables.numa.size() == gpus &&
      std::ranges::none_of(tables.numa, [](const auto& n) { return n.empty() || n == "-1"; })) {
    for (std::size_t i = 0; i < gpus; ++i) {
      const auto same = std::ranges::find(tables.numa, tables.numa[i]) - tables.numa.begin();
      const auto label = static_cast<int>(i);
      facts.gpu_places.push_back({static_cast<int>(same), label, label, label, {}});
    }
  }
  return facts;
}

}  // namespace trireme::topologies
