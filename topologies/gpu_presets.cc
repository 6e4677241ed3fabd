// The GPUs that ship (gpus.json) and the names they go by.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <span>

#include "core/embedded_file.h"
#include "core/error.h"
#include "core/json_reader.h"
#include "topologies/cluster.h"
#include "topologies/embedded.h"
#include "topologies/name_match.h"
#include "topologies/topology_file.h"

namespace trireme::topologies {
namespace {

std::vector<Gpu> read_gpu_presets() {
  const nlohmann::json document = parse_json(embedded_text("gpus"), "gpus.json");
  JsonReader reader(document, "gpus.json");
  std::vector<Gpu> gpus;
  for (JsonReader& gpu : reader.objects("gpus")) {
    gpus.push_back(read_gpu(gpu));
  }
  reader.finish();
  return gpus;
}

}  // namespace

const std::vector<Gpu>& gpu_presets() {
  static const std::vector<Gpu> presets = read_gpu_presets();
  return presets;
}

const Gpu* known_gpu(const std::string& name) {
  const std::string wanted = normalized_name(name);
  const auto is_wanted = [&wanted](const std::string& each) {
    return normalized_name(each) == wanted;
  };
  for (const Gpu& gpu : gpu_presets()) {
    if (is_wanted(gpu.name) || std::ranges::any_of(gpu.aliases, is_wanted)) {
      return &gpu;
    }
  }
  return nullptr;
}

const Gpu& find_gpu(const std::string& name, const std::string& where) {
  if (const Gpu* gpu = known_gpu(name)) {
    return *gpu;
  }
  std::vector<std::string> names;
  for (const Gpu& gpu : gpu_presets()) {
    names.push_back(gpu.name);
  }
  throw Error(where,
              "'" + name + "' is not a known GPU; the nearest are " + nearest_names(name, names));
}

}  // namespace trireme::topologies
