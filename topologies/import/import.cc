#include "topologies/import/import.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/error.h"
#include "topologies/import/complete.h"
#include "topologies/import/facts.h"
#include "topologies/import/lspci.h"

namespace trireme::topologies {
namespace {

bool has(const std::string& text, const char* word) {
  return text.find(word) != std::string::npos;
}

// A key at the start of a line, in any case.
bool has_setting(const std::string& text, std::string_view key) {
  const auto same = [](char a, char b) {
    return std::tolower(static_cast<unsigned char>(a)) ==
           std::tolower(static_cast<unsigned char>(b));
  };
  for (auto at = text.begin(); at != text.end();) {
    const auto end = std::find(at, text.end(), '\n');
    const auto first = std::find_if(at, end, [](char c) { return c != ' ' && c != '\t'; });
    if (std::distance(first, end) >= static_cast<std::ptrdiff_t>(key.size()) &&
        std::equal(key.begin(), key.end(), first, same)) {
      return true;
    }
    at = end == text.end() ? end : end + 1;
  }
  return false;
}

bool is_yaml(const std::string& text) {
  return has_setting(text, "switches:") || has_setting(text, "blocks:") ||
         has_setting(text, "- topology:") || has_setting(text, "capacity_blocks:") ||
         has_setting(text, "tree:");
}

}  // namespace

Imported import_topology(const std::string& text, const std::string& name,
                         const ImportOptions& options) {
  const std::size_t first = text.find_first_not_of(" \t\r\n\xef\xbb\xbf");
  if (first == std::string::npos) {
    throw Error(name, "is empty");
  }
  if (text[first] == '<') {
    return complete_node(read_xml(text, name), name, options);
  }
  if (has_setting(text, "SwitchName=") || has_setting(text, "BlockName=")) {
    return complete_network(read_slurm_conf(text, name), name, options);
  }
  if (has(text, "\"S-") && (has_setting(text, "Switch") || has_setting(text, "Ca"))) {
    return complete_network(read_ibnetdiscover(text, name), name, options);
  }
  if (has(text, " - SW ") ||
      has(text, "# Topology file: generated on")) {  // its --ports, its header
    return complete_network(read_ibnetdiscover(text, name), name, options);
  }
  if (is_yaml(text)) {
    return complete_network(read_switch_yaml(text, name), name, options);
  }
  if (has(text, "Link Type between") || has(text, "LINK TYPE TABLE") ||
      has(text, "ROCm System Management")) {
    return complete_node(read_rocm_tables(text, name), name, options);
  }
  if (has(text, "NCCL INFO") || has(text, "=== System :")) {
    return complete_node(read_nccl_debug(text, name), name, options);
  }
  if (is_lspci(text)) {
    throw Error(
        name,
        "is lspci's list of devices, which topo lint reads; it does not say what joins the GPUs");
  }
  return complete_node(read_matrix(text, name), name, options);
}

std::string matrix_text(const Node& node) {
  const NodeLayout layout = layout_of(node);
  std::string text = "     ";
  std::vector<Place> places = layout.gpus;
  places.insert(places.end(), layout.nics.begin(), layout.nics.end());
  const std::size_t gpus = layout.gpus.size();
  const auto label = [gpus](std::size_t i) {
    return i < gpus ? "GPU" + std::to_string(i) : "NIC" + std::to_string(i - gpus);
  };
  for (std::size_t i = 0; i < places.size(); ++i) {
    text += fmt::format(" {:<5}", label(i));
  }
  for (std::size_t a = 0; a < places.size(); ++a) {
    text += fmt::format("\n{:<5}", label(a));
    for (std::size_t b = 0; b < places.size(); ++b) {
      std::string cell = a == b ? "X" : path_name(path_between(places[a], places[b]));
      if (a != b && std::max(a, b) < gpus) {
        const bool switched = node.fabric == Node::Fabric::kNvSwitch &&
                              static_cast<int>(a) / std::max(1, node.nvlink_domain) ==
                                  static_cast<int>(b) / std::max(1, node.nvlink_domain);
        const int links =
            switched ? node.nvlink_links : (layout.links.empty() ? 0 : layout.links[a][b]);
        cell = links > 0 ? "NV" + std::to_string(links) : cell;
      }
      text += fmt::format(" {:<5}", cell);
    }
  }
  return text + "\n";
}

}  // namespace trireme::topologies
