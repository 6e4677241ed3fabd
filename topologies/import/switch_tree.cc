#include "topologies/import/switch_tree.h"

#include <algorithm>
#include <charconv>
#include <set>

#include "core/error.h"

namespace trireme::topologies {

SwitchTree::Switch& SwitchTree::add(const std::string& name, const std::string& where) {
  const auto [found, fresh] = switches_.emplace(name, Switch{});
  if (!fresh) {
    throw Error(where, "switch '" + name.substr(0, 60) + "' is there twice");
  }
  order_.push_back(name);
  return found->second;
}

void SwitchTree::put(Switch& at, std::vector<std::string> nodes, const std::string& where) {
  hosts_ += nodes.size();
  if (hosts_ > kHostsMost) {
    throw Error(where, "with this line the network has " + std::to_string(hosts_) +
                           " hosts; at most " + std::to_string(kHostsMost) + " are taken");
  }
  at.nodes = std::move(nodes);
}

namespace {

// `scontrol show topo` names the nodes of a switch also at those above it.
void leave_out_placed(const NetworkFacts& facts, std::vector<std::string>& nodes) {
  std::set<std::string_view> placed;
  for (const NetworkFacts::Unit& unit : facts.units) {
    placed.insert(unit.nodes.begin(), unit.nodes.end());
  }
  std::erase_if(nodes, [&](const std::string& node) { return placed.contains(node); });
}

}  // namespace

void SwitchTree::visit(const std::string& at, std::vector<std::string>& above,
                       const std::string& name, NetworkFacts& facts,
                       std::map<std::string, bool>& seen, bool may_be_empty) const {
  constexpr std::size_t kDeepest = 32;
  const auto found = switches_.find(at);
  if (found == switches_.end() && may_be_empty) {
    facts.remarks.push_back("switch " + at.substr(0, 60) + " has no nodes");
    return;
  }
  if (found == switches_.end()) {
    throw Error(name, "switch '" + at.substr(0, 60) + "' is below another, but is nowhere itself");
  }
  if (above.size() >= kDeepest) {
    throw Error(name, "switch '" + at.substr(0, 60) + "' is below itself, or more than 32 deep");
  }
  if (seen[at]) {
    return;  // below two switches, as in a fat tree
  }
  seen[at] = true;
  facts.levels = std::max(facts.levels, static_cast<int>(above.size()) + 1);
  above.push_back(at);
  for (const std::string& below : found->second.switches) {
    visit(below, above, name, facts, seen, may_be_empty);
  }
  above.pop_back();
  std::vector<std::string> own = found->second.nodes;
  if (!found->second.switches.empty() && !own.empty()) {
    leave_out_placed(facts, own);
  }
  if (!own.empty()) {
    facts.units.push_back({at, std::move(own), {above.rbegin(), above.rend()}});
  }
}

NetworkFacts SwitchTree::facts(const std::string& name, bool may_be_empty) const {
  std::set<std::string> below;
  for (const auto& [own, entry] : switches_) {
    below.insert(entry.switches.begin(), entry.switches.end());
  }
  NetworkFacts facts;
  std::map<std::string, bool> seen;
  std::size_t tops = 0;
  for (const std::string& own : order_) {
    if (!below.contains(own)) {
      ++tops;
      std::vector<std::string> above;
      visit(own, above, name, facts, seen, may_be_empty);
    }
  }
  if (facts.units.empty()) {
    throw Error(name, order_.empty() ? "names no switch with nodes below it"
                                     : "has no switch with nodes that is reached from the top");
  }
  std::set<std::string> nodes;
  std::size_t repeated = 0;
  for (NetworkFacts::Unit& unit : facts.units) {
    std::erase_if(unit.nodes, [&](const std::string& node) {
      const bool again = !nodes.insert(node).second;
      repeated += again ? 1 : 0;
      return again;
    });
  }
  std::erase_if(facts.units, [](const auto& unit) { return unit.nodes.empty(); });
  if (repeated > 0) {
    facts.remarks.push_back(std::to_string(repeated) +
                            " nodes are below several switches; each counts where it stands first");
  }
  if (tops > 1 && facts.units.size() > 1) {
    facts.remarks.push_back(std::to_string(tops) +
                            " switches have none above them; they are taken as joined at the top");
  }
  return facts;
}

std::vector<std::int64_t> block_sizes(const std::vector<std::string>& words,
                                      const std::string& where) {
  std::vector<std::int64_t> sizes;
  for (const std::string& word : words) {
    std::int64_t size = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), size);
    if (error != std::errc() || end != word.data() + word.size() || size < 1 || size > 10'000'000) {
      throw Error(where, "sizes of blocks hold '" + word.substr(0, 40) +
                             "'; they should be whole numbers, such as 18,36");
    }
    sizes.push_back(size);
  }
  return sizes;
}

void join_blocks(const std::vector<std::int64_t>& sizes, NetworkFacts& facts) {
  constexpr std::size_t kMost = 5;
  for (std::size_t i = 1; i < std::min(sizes.size(), kMost); ++i) {
    const std::int64_t blocks = sizes[i] / sizes.front();
    for (std::size_t unit = 0; unit < facts.units.size() && blocks > 1; ++unit) {
      facts.units[unit].above.push_back("blocks " +
                                        std::to_string(static_cast<std::int64_t>(unit) / blocks) +
                                        " of " + std::to_string(sizes[i]) + " nodes");
    }
  }
}

}  // namespace trireme::topologies
