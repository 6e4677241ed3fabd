// Stands in for import_xml.cc where pugixml was not found at configuration.
#include "core/error.h"
#include "topologies/import.h"

namespace trireme::topologies {

NodeFacts read_topology_xml(const std::string& /*text*/, const std::string& name) {
  throw Error(name, "is XML, which this build cannot read: install libpugixml-dev and build again");
}

}  // namespace trireme::topologies
