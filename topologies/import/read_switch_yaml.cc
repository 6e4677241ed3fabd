// Slurm's topology.yaml (trees, blocks and flat networks) and topograph's models.
#include <yaml-cpp/yaml.h>

#include <algorithm>

#include "core/error.h"
#include "topologies/import/facts.h"
#include "topologies/import/switch_tree.h"

namespace trireme::topologies {
namespace {

// yaml-cpp reads nested lists by recursion; a file that nests them without end is refused before.
void refuse_deep_nesting(const std::string& text, const std::string& name) {
  int depth = 0;
  int dashes = 0;
  for (const char c : text) {
    depth += c == '[' || c == '{' ? 1 : 0;
    depth = std::max(0, depth - (c == ']' || c == '}' ? 1 : 0));
    dashes = c == '\n' ? 0 : dashes + (c == '-' || c == '?' ? 1 : 0);
    if (depth > 100 || dashes > 500) {
      throw Error(name, "has too many lists in lists");
    }
  }
}

std::string line_of(const YAML::Node& node, const std::string& name) {
  return name + ":" + std::to_string(node.Mark().line + 1);
}

// A list of names, each possibly a list of hosts itself: "s[1-2]", ["I[21-22]", I25].
std::vector<std::string> names_of(const YAML::Node& node, const std::string& name) {
  std::vector<std::string> names;
  if (!node.IsDefined() || node.IsNull()) {
    return names;
  }
  if (node.IsScalar()) {
    return host_list(node.Scalar(), line_of(node, name));
  }
  if (!node.IsSequence()) {
    throw Error(line_of(node, name), "should be a name or a list of names");
  }
  for (const YAML::Node& entry : node) {
    const YAML::Node own = entry.IsMap() && entry["name"].IsDefined() ? entry["name"] : entry;
    if (!own.IsScalar()) {
      throw Error(line_of(entry, name), "should be a name");
    }
    const std::vector<std::string> more = host_list(own.Scalar(), line_of(own, name));
    names.insert(names.end(), more.begin(), more.end());
    if (names.size() > kHostsMost) {
      throw Error(line_of(own, name), "names more than " + std::to_string(kHostsMost) + " hosts");
    }
  }
  return names;
}

std::string own_name(const YAML::Node& entry, const std::string& name) {
  for (const char* key : {"switch", "block", "name"}) {
    if (entry.IsMap() && entry[key].IsDefined() && entry[key].IsScalar()) {
      return entry[key].Scalar();
    }
  }
  throw Error(line_of(entry, name), "should be a switch or a block with its name and nodes");
}

struct SwitchReader {
  const std::string& name;
  SwitchTree tree;
  std::vector<std::string> remarks;

  void append(const std::string& own, const YAML::Node& entry) {
    SwitchTree::Switch& made = tree.add(own, line_of(entry, name));
    for (const char* key : {"switches", "children", "capacity_blocks"}) {
      const std::vector<std::string> below = names_of(entry[key], name);
      made.switches.insert(made.switches.end(), below.begin(), below.end());
    }
    tree.put(made, names_of(entry["nodes"], name), line_of(entry, name));
  }

  void switches(const YAML::Node& list) {
    if (list.IsMap()) {  // topograph: by name
      for (const auto& item : list) {
        if (!item.first.IsScalar() || !item.second.IsMap()) {
          throw Error(line_of(list, name), "should hold switches by name");
        }
        append(item.first.Scalar(), item.second);
      }
    } else if (list.IsSequence()) {
      for (const YAML::Node& entry : list) {
        append(own_name(entry, name), entry);
      }
    } else if (list.IsDefined() && !list.IsNull()) {
      throw Error(line_of(list, name), "switches should be a list of switches, each with its name");
    }
  }

  // topograph's blocks name the leaf they hang on; Slurm's are units themselves.
  void blocks(const YAML::Node& list) {
    if (list.IsDefined() && !list.IsNull() && !list.IsSequence()) {
      throw Error(line_of(list, name), "blocks should be a list of blocks, each with its nodes");
    }
    if (!list.IsSequence()) {
      return;
    }
    for (const YAML::Node& entry : list) {
      append(own_name(entry, name), entry);
    }
  }
};

bool names_switches(const YAML::Node& topology) {
  return topology.IsMap() && (topology["tree"].IsDefined() || topology["block"].IsDefined());
}

// Of Slurm's several topologies in one file its default; where that names no switches (flat), the
// first that does.
YAML::Node chosen_of(const YAML::Node& topologies, std::vector<std::string>& remarks) {
  const std::size_t count = topologies.size();
  YAML::Node chosen = topologies[0];
  for (const YAML::Node& entry : topologies) {
    if (entry.IsMap() && entry["cluster_default"].IsDefined() &&
        entry["cluster_default"].as<bool>(false)) {
      chosen.reset(entry);
    }
  }
  if (count > 1 && !names_switches(chosen)) {
    for (const YAML::Node& entry : topologies) {
      if (names_switches(entry)) {
        remarks.push_back("the default one of " + std::to_string(count) +
                          " topologies names no switches; another one is read" +
                          (entry["topology"].IsDefined() && entry["topology"].IsScalar()
                               ? ", " + entry["topology"].Scalar()
                               : ""));
        return entry;
      }
    }
  }
  if (count > 1) {
    remarks.push_back("the default one of " + std::to_string(count) + " topologies");
  }
  return chosen;
}

}  // namespace

NetworkFacts read_switch_yaml(const std::string& text, const std::string& name) {
  refuse_deep_nesting(text, name);
  try {
    YAML::Node document = YAML::Load(text);
    SwitchReader reader{name, {}, {}};
    if (document.IsSequence() && document.size() > 0) {
      document.reset(chosen_of(document, reader.remarks));
    }
    if (!document.IsMap()) {
      throw Error(name, "should hold switches and blocks, or a list of Slurm topologies");
    }
    for (const char* part : {"ring", "torus3d", "flat"}) {
      if (document[part].IsDefined() && !document["tree"].IsDefined() &&
          !document["block"].IsDefined()) {
        throw Error(name,
                    std::string("is of Slurm's plugin topology/") + part +
                        ", which names no switches; trees and blocks are read, and a topology "
                        "file says a torus (docs/topology_format.md)");
      }
    }
    for (const char* part : {"tree", "block"}) {
      if (document[part].IsDefined() && !document[part].IsNull() && !document[part].IsMap()) {
        throw Error(line_of(document[part], name),
                    std::string(part) + " should hold switches or blocks by their keys");
      }
      if (document[part].IsDefined() && document[part].IsMap()) {
        document.reset(YAML::Node(document[part]));
        break;
      }
    }
    reader.switches(document["switches"]);
    reader.blocks(document["blocks"]);
    reader.blocks(document["capacity_blocks"]);
    NetworkFacts facts = reader.tree.facts(name, true);
    if (document["block_sizes"].IsDefined()) {
      join_blocks(block_sizes(names_of(document["block_sizes"], name),
                              line_of(document["block_sizes"], name)),
                  facts);
    }
    facts.remarks.insert(facts.remarks.begin(), reader.remarks.begin(), reader.remarks.end());
    return facts;
  } catch (const YAML::Exception& failure) {
    throw Error(name + ":" + std::to_string(failure.mark.line + 1),
                "is not YAML that holds a topology: " + failure.msg.substr(0, 200));
  }
}

}  // namespace trireme::topologies
