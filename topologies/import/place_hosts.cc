// The hosts that a job got, placed on the leaves of the network that it is part of.
#include <algorithm>
#include <map>
#include <set>

#include "core/error.h"
#include "topologies/import/facts.h"

namespace trireme::topologies {
namespace {

// Neighbours of a list that are below different leaves.
std::size_t crossings(const std::vector<std::string>& hosts,
                      const std::map<std::string, std::size_t>& unit_of) {
  std::size_t count = 0;
  for (std::size_t i = 1; i < hosts.size(); ++i) {
    count += unit_of.at(hosts[i]) != unit_of.at(hosts[i - 1]) ? 1 : 0;
  }
  return count;
}

std::string some_names(const NetworkFacts& facts) {
  std::string names;
  for (std::size_t i = 0; i < std::min<std::size_t>(3, facts.units.size()); ++i) {
    names += (names.empty() ? "" : ", ") + facts.units[i].nodes.front().substr(0, 60);
  }
  return names;
}

}  // namespace

void keep_hosts(NetworkFacts& facts, const std::vector<std::string>& hosts,
                const std::string& name) {
  std::map<std::string, std::size_t> unit_of;
  for (std::size_t unit = 0; unit < facts.units.size(); ++unit) {
    for (const std::string& node : facts.units[unit].nodes) {
      unit_of.emplace(node, unit);
    }
  }
  std::set<std::string> wanted;
  for (const std::string& host : hosts) {
    if (!unit_of.contains(host)) {
      throw Error("--nodes", "host '" + host.substr(0, 60) + "' is not in " + name +
                                 ", which holds " + some_names(facts) + ", ...");
    }
    if (!wanted.insert(host).second) {
      throw Error("--nodes", "host '" + host.substr(0, 60) + "' is there twice");
    }
  }
  std::vector<std::vector<std::string>> kept(facts.units.size());
  for (const std::string& host : hosts) {
    kept[unit_of.at(host)].push_back(host);
  }
  std::string counts;
  std::size_t leaves = 0;
  for (std::size_t unit = 0; unit < kept.size(); ++unit) {
    facts.units[unit].nodes = std::move(kept[unit]);
    const std::size_t count = facts.units[unit].nodes.size();
    leaves += count > 0 ? 1 : 0;
    if (count > 0 && leaves <= 16) {
      counts += (counts.empty() ? "" : ", ") + std::to_string(count);
    }
  }
  std::erase_if(facts.units, [](const auto& unit) { return unit.nodes.empty(); });
  facts.remarks.push_back(std::to_string(hosts.size()) + " hosts below " + std::to_string(leaves) +
                          " leaves: " + counts + (leaves > 16 ? ", ..." : ""));
  const std::size_t given = crossings(hosts, unit_of);
  if (given > leaves - 1) {
    facts.remarks.push_back(
        "ranks are placed leaf by leaf, where neighbours change leaf " +
        std::to_string(leaves - 1) + " times; in the order that --nodes gives they do " +
        std::to_string(given) + " times, which is slower: start them in this order");
  }
}

}  // namespace trireme::topologies
