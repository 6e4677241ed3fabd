// What tests of the importer share.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "core/error.h"
#include "core/json_reader.h"
#include "topologies/import/import.h"
#include "topologies/topology_file.h"

namespace trireme::topologies {

inline Imported import(const std::string& text, const std::string& gpu = "",
                       std::int64_t nodes = 0) {
  ImportOptions options;
  if (!gpu.empty()) {
    options.gpu = find_gpu(gpu, "test");
  }
  options.nodes = nodes;
  return import_topology(text, "test", options);
}

inline Node node_of(const std::string& text, const std::string& gpu = "") {
  return import(text, gpu).cluster.node;
}

inline bool remarks(const Imported& imported, const std::string& words) {
  for (const std::string& remark : imported.remarks) {
    if (remark.find(words) != std::string::npos) {
      return true;
    }
  }
  return false;
}

inline Cluster read_back(const Cluster& cluster) {
  const nlohmann::json json = nlohmann::json::parse(cluster_to_json(cluster).dump());
  JsonReader reader(json, "back");
  return read_cluster(reader, network_presets());
}

inline std::string message_of(const std::string& text, const std::string& gpu = "") {
  try {
    node_of(text, gpu);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace trireme::topologies
