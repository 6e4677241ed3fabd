// What links between GPUs make of a node that a file shows.
#pragma once

#include <cstddef>
#include <vector>

#include "topologies/import/facts.h"
#include "topologies/import/import.h"

namespace trireme::topologies {

// For each GPU the first that it reaches over links.
std::vector<std::size_t> linked_domains(const NodeFacts& facts);
// Which fabric the links make.
void set_fabric(Imported& imported, const NodeFacts& facts);
// `nvidia-smi topo -mp` and virtual machines hide NVLink, which boards with NVSwitches have.
void doubt_hidden_links(Imported& imported, const Cluster& usual);
// Whether no GPU has more links to all others together than the card has: then none is a switch's.
bool links_are_direct(const NodeFacts& facts, const Gpu& gpu);
// Rates that NCCL books, as links of this card.
void count_links(NodeFacts& facts, const Gpu& gpu);

}  // namespace trireme::topologies
