// Built instead of read_switch_yaml.cc where yaml-cpp is not installed.
#include "core/error.h"
#include "topologies/import/facts.h"

namespace trireme::topologies {

NetworkFacts read_switch_yaml(const std::string& /*text*/, const std::string& name) {
  throw Error(name,
              "is YAML, which this build cannot read: install libyaml-cpp-dev and build again");
}

}  // namespace trireme::topologies
