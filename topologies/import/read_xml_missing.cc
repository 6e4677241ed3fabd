// Built instead of read_xml.cc where pugixml is not installed.
#include "core/error.h"
#include "topologies/import/facts.h"

namespace trireme::topologies {

NodeFacts read_xml(const std::string& /*text*/, const std::string& name) {
  throw Error(name, "is XML, which this build cannot read: install libpugixml-dev and build again");
}

}  // namespace trireme::topologies
