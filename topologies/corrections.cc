#include "topologies/corrections.h"

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>

#include "core/check.h"
#include "core/error.h"
#include "core/json_reader.h"
#include "topologies/embedded.h"

namespace trireme::topologies {
namespace {

template <typename Fit>
struct Field {
  const char* name;
  double Fit::*value;
};

constexpr std::array kFabricFields = {
    Field<FabricFit>{"launch_us", &FabricFit::launch_us},
    Field<FabricFit>{"step_scale", &FabricFit::step_scale},
    Field<FabricFit>{"simple_us", &FabricFit::simple_us},
    Field<FabricFit>{"ring_efficiency", &FabricFit::ring_efficiency},
    Field<FabricFit>{"ll_efficiency", &FabricFit::ll_efficiency},
    Field<FabricFit>{"ll128_efficiency", &FabricFit::ll128_efficiency},
    Field<FabricFit>{"tree_efficiency", &FabricFit::tree_efficiency},
    Field<FabricFit>{"nvls_efficiency", &FabricFit::nvls_efficiency},
    Field<FabricFit>{"nvls_ramp_mib", &FabricFit::nvls_ramp_mib},
    Field<FabricFit>{"copy_gbytes_per_second", &FabricFit::copy_gbytes_per_second},
    Field<FabricFit>{"ramp_mib", &FabricFit::ramp_mib},
    Field<FabricFit>{"p2p_us", &FabricFit::p2p_us},
    Field<FabricFit>{"p2p_peer_us", &FabricFit::p2p_peer_us},
    Field<FabricFit>{"p2p_efficiency", &FabricFit::p2p_efficiency},
    Field<FabricFit>{"p2p_ramp_mib", &FabricFit::p2p_ramp_mib}};
constexpr std::array kNetworkFields = {
    Field<NetworkFit>{"latency_us", &NetworkFit::latency_us},
    Field<NetworkFit>{"efficiency", &NetworkFit::efficiency},
    Field<NetworkFit>{"tree_efficiency", &NetworkFit::tree_efficiency},
    Field<NetworkFit>{"ramp_mib", &NetworkFit::ramp_mib},
    Field<NetworkFit>{"nic_latency_us", &NetworkFit::nic_latency_us},
    Field<NetworkFit>{"switch_latency_us", &NetworkFit::switch_latency_us},
    Field<NetworkFit>{"ll128", &NetworkFit::ll128}};

struct Shipped {
  std::map<std::string, FabricFit, std::less<>> fabrics;
  std::map<std::string, NetworkFit, std::less<>> networks;
  std::vector<std::string> tables;
};

template <typename Fit, std::size_t N>
std::map<std::string, Fit, std::less<>> read_fits(JsonReader reader, const nlohmann::json& json,
                                                  const std::array<Field<Fit>, N>& fields) {
  std::map<std::string, Fit, std::less<>> fits;
  for (const auto& item : json.items()) {
    JsonReader entry = reader.object(item.key());
    Fit fit;
    for (const auto& field : fields) {
      if (entry.has(field.name)) {
        fit.*field.value = entry.number(field.name, -1e6, 1e9);
      }
    }
    entry.ignore("source");
    entry.finish();
    fits[item.key()] = fit;
  }
  return fits;
}

Shipped read_shipped() {
  const nlohmann::json document = parse_json(embedded_text("networks"), "networks.json");
  JsonReader reader(document, "networks.json");
  Shipped shipped;
  shipped.fabrics = read_fits(reader.object("fabrics"), document.at("fabrics"), kFabricFields);
  shipped.networks = read_fits(reader.object("networks"), document.at("networks"), kNetworkFields);
  for (const auto& table : reader.raw("fitted_tables")) {
    shipped.tables.push_back(table.get<std::string>());
  }
  reader.ignore("note");
  reader.finish();
  return shipped;
}

const Shipped& shipped() {
  static const Shipped fits = read_shipped();
  return fits;
}

template <typename Fit, std::size_t N>
void lay_over(const Profile& profile, std::string_view name,
              const std::array<Field<Fit>, N>& fields, Fit& fit) {
  const auto found = profile.networks.find(std::string(name));
  if (found == profile.networks.end()) {
    return;
  }
  for (const auto& [key, value] : found->second) {
    const auto field =
        std::ranges::find_if(fields, [&name = key](const Field<Fit>& f) { return name == f.name; });
    if (field != fields.end()) {
      fit.*field->value = value;
    }
  }
}

}  // namespace

std::string_view fabric_key(const NcclGraph& graph, const Gpu& gpu) {
  switch (graph.path) {
    case IntraPath::kPciePair:
      return "PCIe pair";
    case IntraPath::kPciePeer:
      return "PCIe peer";
    case IntraPath::kHostNode:
      return "host memory, one socket";
    case IntraPath::kHostSystem:
      return "host memory, across sockets";
    case IntraPath::kNone:
    case IntraPath::kNvlink:
      break;
  }
  if (gpu.compute_capability >= 900) {
    return "xGMI";
  }
  switch (graph.generation) {
    case NcclGeneration::kVolta:
      return "NVLink Volta";
    case NcclGeneration::kAmpere:
      return "NVLink Ampere";
    case NcclGeneration::kHopper:
      return "NVLink Hopper";
    case NcclGeneration::kBlackwell:
      break;
  }
  return "NVLink Blackwell";
}

const FabricFit& fabric_fit(const NcclGraph& graph, const Gpu& gpu) {
  const auto found = shipped().fabrics.find(fabric_key(graph, gpu));
  TRIREME_CHECK(found != shipped().fabrics.end());
  return found->second;
}

const NetworkFit& network_fit(const std::string& name) {
  const auto& networks = shipped().networks;
  const auto found = networks.find(name);
  return found != networks.end() ? found->second : networks.at("other");
}

FabricFit fabric_fit(const Profile& profile, const NcclGraph& graph, const Gpu& gpu) {
  FabricFit fit = fabric_fit(graph, gpu);
  if (!profile.networks.empty()) {
    lay_over(profile, fabric_key(graph, gpu), kFabricFields, fit);
  }
  return fit;
}

NetworkFit network_fit(const Profile& profile, const std::string& name) {
  NetworkFit fit = network_fit(name);
  if (!profile.networks.empty()) {
    lay_over(profile, name, kNetworkFields, fit);
  }
  return fit;
}

const std::vector<std::string>& fitted_tables() {
  return shipped().tables;
}

}  // namespace trireme::topologies
