// Slurm's topology.conf (plugins topology/tree and topology/block).
#include <algorithm>
#include <cctype>
#include <map>
#include <set>
#include <sstream>

#include "core/edits.h"
#include "core/error.h"
#include "topologies/import/facts.h"
#include "topologies/import/switch_tree.h"

namespace trireme::topologies {
namespace {

using Settings = std::map<std::string, std::string>;  // keys in lower case

// Slurm's parser refuses them too; nodes behind Node= would be lost. Level and BlockIndex are what
// `scontrol show topology` prints of a switch and of a block.
void refuse_unknown(const std::string& key, const std::string& written, const std::string& where) {
  constexpr const char* kKeys[] = {"SwitchName", "Nodes",     "Switches",   "LinkSpeed",
                                   "Level",      "BlockName", "BlockIndex", "BlockSizes"};
  std::string all;
  for (const char* right : kKeys) {
    std::string plain(right);
    std::ranges::transform(plain, plain.begin(),
                           [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    if (plain == key) {
      return;
    }
    if (is_a_slip(key, plain)) {
      throw Error(where, "'" + written.substr(0, 40) + "' is no key of topology.conf; " + right +
                             " would be right");
    }
    all += (all.empty() ? "" : ", ") + plain;
  }
  throw Error(where, "'" + written.substr(0, 40) + "' is no key of topology.conf; one of " + all +
                         " would be right");
}

// "SwitchName=s0 Nodes=dev[0-5]": words, with lists in brackets kept whole.
Settings settings_of(const std::string& line, const std::string& where) {
  Settings settings;
  std::istringstream stream(line);
  for (std::string word; stream >> word;) {
    const std::size_t equals = word.find('=');
    if (equals == std::string::npos) {
      throw Error(where, "'" + word.substr(0, 40) + "' should be KEY=VALUE, such as SwitchName=s0");
    }
    std::string key = word.substr(0, equals);
    std::ranges::transform(key, key.begin(),
                           [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    refuse_unknown(key, word.substr(0, equals), where);
    settings[key] = word.substr(equals + 1);
  }
  return settings;
}

}  // namespace

NetworkFacts read_slurm_conf(const std::string& text, const std::string& name) {
  SwitchTree tree;
  std::istringstream stream(text);
  std::size_t number = 0;
  std::string pending;
  bool blocks = false;
  std::vector<std::int64_t> sizes;
  for (std::string line; std::getline(stream, line);) {
    ++number;
    line = line.substr(0, line.find('#'));
    const std::string where = name + ":" + std::to_string(number);
    // A backslash at the end goes on below.
    const std::size_t last = line.find_last_not_of(" \t\r");
    if (last != std::string::npos && line[last] == '\\') {
      pending += line.substr(0, last) + " ";
      continue;
    }
    const Settings settings = settings_of(pending + line, where);
    pending.clear();
    if (settings.contains("blocksizes")) {
      sizes = block_sizes(host_list(settings.at("blocksizes"), where), where);
    }
    const bool block = settings.contains("blockname");
    if (!block && !settings.contains("switchname")) {
      continue;
    }
    blocks = blocks || block;
    for (const std::string& own :
         host_list(settings.at(block ? "blockname" : "switchname"), where)) {
      SwitchTree::Switch& entry = tree.add(own, where);
      if (settings.contains("nodes")) {
        tree.put(entry, host_list(settings.at("nodes"), where), where);
      }
      if (settings.contains("switches")) {
        entry.switches = host_list(settings.at("switches"), where);
      }
    }
  }
  NetworkFacts facts = tree.facts(name);
  if (blocks) {
    facts.remarks.push_back("blocks are taken as units of nodes below one set of leaves");
    join_blocks(sizes, facts);
  }
  return facts;
}

}  // namespace trireme::topologies
