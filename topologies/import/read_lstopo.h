// hwloc's `lstopo --of xml`.
#pragma once

#include "topologies/import/facts.h"

namespace pugi {
class xml_node;
}

namespace trireme::topologies {

// `topology` is the document's <topology>. Throws Error: no GPU, or too many.
NodeFacts read_lstopo(const pugi::xml_node& topology, const std::string& name);

}  // namespace trireme::topologies
