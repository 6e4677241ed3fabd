// Switches by name, each with nodes or switches below it, and the units that they make.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "topologies/import/facts.h"

namespace trireme::topologies {

class SwitchTree {
 public:
  struct Switch {
    std::vector<std::string> nodes, switches;
  };
  // Throws Error when it is there already.
  Switch& add(const std::string& name, const std::string& where);
  // Throws Error where all switches together have more than kHostsMost.
  void put(Switch& at, std::vector<std::string> nodes, const std::string& where);
  [[nodiscard]] bool empty() const { return order_.empty(); }
  // Leaves in the order in which the topmost switches reach them. Throws Error: no node, a switch
  // that is nowhere, a node twice, or switches in a circle. `may_be_empty`: a switch that is only
  // named below another has no nodes.
  [[nodiscard]] NetworkFacts facts(const std::string& name, bool may_be_empty = false) const;

 private:
  // `above`: the switches from the top down to this one's own.
  void visit(const std::string& at, std::vector<std::string>& above, const std::string& name,
             NetworkFacts& facts, std::map<std::string, bool>& seen, bool may_be_empty) const;

  std::map<std::string, Switch> switches_;
  std::vector<std::string> order_;
  std::size_t hosts_ = 0;
};

// Slurm's sizes of blocks: the first is of one block, the others of as many side by side as they
// hold of it, which are a part of the network of their own. Throws Error, naming `where`: one is no
// number from 1 to 1e7.
std::vector<std::int64_t> block_sizes(const std::vector<std::string>& words,
                                      const std::string& where);
void join_blocks(const std::vector<std::int64_t>& sizes, NetworkFacts& facts);

}  // namespace trireme::topologies
