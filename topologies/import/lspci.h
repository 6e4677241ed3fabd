// `lspci -vvv` (as root, else it hides capabilities): no topology, but what is wrong with the links
// of cards and adapters, and whether PCIe ACS sends their messages to each other by way of the CPU.
#pragma once

#include <string>
#include <vector>

#include "topologies/import/import.h"

namespace trireme::topologies {

bool is_lspci(const std::string& text);
std::vector<Doubt> lspci_doubts(const std::string& text);

}  // namespace trireme::topologies
