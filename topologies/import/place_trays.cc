// Hosts of a rack whose NVLink joins them (NVL72: 18 trays of 4 GPUs) as the NVLink domains that
// they make, which are nodes here.
#include <algorithm>
#include <map>

#include "topologies/import/facts.h"

namespace trireme::topologies {
namespace {

// Neighbours of a unit in as few domains as hold them, alike but for one host.
std::vector<std::vector<std::string>> domains_of(const std::vector<std::string>& hosts,
                                                 std::size_t most) {
  const std::size_t count = (hosts.size() + most - 1) / most;
  std::vector<std::vector<std::string>> domains(count);
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    domains[i * count / hosts.size()].push_back(hosts[i]);
  }
  return domains;
}

// The size with which most hosts are counted where larger domains count as such and smaller ones
// not at all.
int common_size(const std::map<std::size_t, std::size_t>& domains_by_size) {
  std::size_t best = 1;
  std::size_t counted = 0;
  std::size_t domains = 0;
  for (auto entry = domains_by_size.rbegin(); entry != domains_by_size.rend(); ++entry) {
    domains += entry->second;
    if (entry->first * domains > counted) {
      counted = entry->first * domains;
      best = entry->first;
    }
  }
  return static_cast<int>(best);
}

}  // namespace

int join_trays(NetworkFacts& facts, int trays_of_rack) {
  std::vector<std::vector<std::vector<std::string>>> all;
  std::map<std::size_t, std::size_t> domains_by_size;
  std::size_t hosts = 0;
  for (const NetworkFacts::Unit& unit : facts.units) {
    all.push_back(domains_of(unit.nodes, static_cast<std::size_t>(trays_of_rack)));
    for (const auto& domain : all.back()) {
      ++domains_by_size[domain.size()];
      hosts += domain.size();
    }
  }
  const int size = common_size(domains_by_size);
  std::size_t kept = 0;
  for (std::size_t unit = 0; unit < all.size(); ++unit) {
    facts.units[unit].nodes.clear();
    for (const auto& domain : all[unit]) {
      if (domain.size() >= static_cast<std::size_t>(size)) {
        facts.units[unit].nodes.push_back(domain.front());
        ++kept;
      }
    }
  }
  std::erase_if(facts.units, [](const auto& unit) { return unit.nodes.empty(); });
  facts.remarks.push_back(std::to_string(hosts) + " hosts of a rack of " +
                          std::to_string(trays_of_rack) + ": " + std::to_string(kept) +
                          " NVLink domain" + (kept == 1 ? "" : "s") + " of " +
                          std::to_string(size) + " hosts, neighbours of one block or leaf");
  const std::size_t left = hosts - kept * static_cast<std::size_t>(size);
  if (left > 0) {
    facts.remarks.push_back(std::to_string(left) +
                            " hosts are not counted: domains are taken as alike");
  }
  return size;
}

}  // namespace trireme::topologies
