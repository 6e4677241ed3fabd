// From what a file tells to a whole cluster: what it leaves open is the GPU's usual node's, and
// listed.
#pragma once

#include "topologies/import/facts.h"
#include "topologies/import/import.h"

namespace trireme::topologies {

// Throws Error: a card or a network that nobody names, nodes without adapters.
Imported complete_node(const NodeFacts& facts, const std::string& name,
                       const ImportOptions& options);
Imported complete_network(const NetworkFacts& facts, const std::string& name,
                          const ImportOptions& options);
// The network that the options name, of the family that the file tells, or that the usual node has.
void set_network(Imported& imported, const ImportOptions& options, const Cluster& usual,
                 const std::string& family);

}  // namespace trireme::topologies
