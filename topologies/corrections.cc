#include "topologies/corrections.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>

#include "core/check.h"
#include "core/error.h"
#include "core/json_reader.h"
#include "topologies/embedded.h"

namespace trireme::topologies {
namespace {

constexpr double kUnbounded = 1e9;

template <typename Fit>
struct Field {
  const char* name = "";
  double Fit::*value = nullptr;
  double width = 0;  // 0: a datasheet's, not fitted
  double high = kUnbounded;
};

constexpr std::array kFabricFields = {
    Field<FabricFit>{"start_us", &FabricFit::start_us, 0.4},
    Field<FabricFit>{"ll128_start_us", &FabricFit::ll128_start_us, 0.7},
    Field<FabricFit>{"simple_start_us", &FabricFit::simple_start_us, 1.0},
    Field<FabricFit>{"step_scale", &FabricFit::step_scale, 0.4},
    Field<FabricFit>{"simple_step_scale", &FabricFit::simple_step_scale, 0.5},
    Field<FabricFit>{"ring_share", &FabricFit::ring_share, 0.5, 1},
    Field<FabricFit>{"ll_share", &FabricFit::ll_share, 0.5, 1},
    Field<FabricFit>{"ll128_share", &FabricFit::ll128_share, 0.2, 1},
    Field<FabricFit>{"tree_share", &FabricFit::tree_share, 0.15, 1},
    Field<FabricFit>{"nvls_share", &FabricFit::nvls_share, 0.2, 1},
    Field<FabricFit>{"nvls_ramp_mib", &FabricFit::nvls_ramp_mib, 1.0},
    Field<FabricFit>{"copy_gbytes_per_second", &FabricFit::copy_gbytes_per_second, 0.4},
    Field<FabricFit>{"ramp_mib", &FabricFit::ramp_mib, 1.0},
    Field<FabricFit>{"p2p_us", &FabricFit::p2p_us, 0.4},
    Field<FabricFit>{"p2p_peer_us", &FabricFit::p2p_peer_us, 0.7},
    Field<FabricFit>{"p2p_share", &FabricFit::p2p_share, 0.5, 1},
    Field<FabricFit>{"p2p_ramp_mib", &FabricFit::p2p_ramp_mib, 1.0}};
constexpr std::array kNetworkFields = {
    Field<NetworkFit>{"latency_us", &NetworkFit::latency_us, 1.0},
    Field<NetworkFit>{"efficiency", &NetworkFit::efficiency, 0.02, 1},
    Field<NetworkFit>{"tree_efficiency", &NetworkFit::tree_efficiency, 0.1, 1},
    Field<NetworkFit>{"ramp_mib", &NetworkFit::ramp_mib, 1.0},
    Field<NetworkFit>{"nic_latency_us", &NetworkFit::nic_latency_us},
    Field<NetworkFit>{"switch_latency_us", &NetworkFit::switch_latency_us},
    Field<NetworkFit>{"ll128", &NetworkFit::ll128}};

template <typename Fit, std::size_t N>
std::vector<CorrectionPrior> fitted_of(const Fit& fit, const std::array<Field<Fit>, N>& fields) {
  std::vector<CorrectionPrior> all;
  for (const Field<Fit>& field : fields) {
    if (field.width > 0) {
      all.push_back({field.name, fit.*field.value, field.width, field.high});
    }
  }
  return all;
}

struct Shipped {
  std::map<std::string, FabricFit, std::less<>> fabrics;
  std::map<std::string, NetworkFit, std::less<>> networks;
  std::vector<std::string> tables;
};

template <typename Fit, std::size_t N>
std::map<std::string, Fit, std::less<>> read_fits(JsonReader reader, const nlohmann::json& json,
                                                  const std::array<Field<Fit>, N>& fields) {
  std::map<std::string, Fit, std::less<>> fits;
  // An entry may stand on another's by name, so that the same numbers are written once.
  const std::function<const Fit&(const std::string&)> read =
      [&](const std::string& name) -> const Fit& {
    if (const auto known = fits.find(name); known != fits.end()) {
      return known->second;
    }
    JsonReader entry = reader.object(name);
    Fit fit = entry.has("carried_from") ? read(entry.text("carried_from")) : Fit{};
    for (const auto& field : fields) {
      if (entry.has(field.name)) {
        fit.*field.value = entry.number(field.name, 0, field.high);
      }
    }
    entry.ignore("source");
    entry.ignore("standard_errors");
    entry.finish();
    return fits[name] = fit;
  };
  for (const auto& item : json.items()) {
    read(item.key());
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

namespace {

std::string_view fabric_of_links(const NcclGraph& graph, const Gpu& gpu) {
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

}  // namespace

std::string_view fabric_key(const NcclGraph& graph, const Gpu& gpu) {
  const std::string_view usual = fabric_of_links(graph, gpu);
  if (graph.path != IntraPath::kHostNode && graph.path != IntraPath::kHostSystem) {
    return usual;
  }
  // What goes through host memory depends on the host: one that was measured counts for its card.
  const auto measured = shipped().fabrics.find(fmt::format("{}, {}", usual, gpu.name));
  return measured != shipped().fabrics.end() ? std::string_view(measured->first) : usual;
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
    const std::string_view usual = fabric_of_links(graph, gpu);
    const std::string_view key = fabric_key(graph, gpu);
    lay_over(profile, usual, kFabricFields, fit);
    if (key != usual) {
      lay_over(profile, key, kFabricFields, fit);
    }
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

std::vector<CorrectionPrior> corrections_of(const FabricFit& fit) {
  return fitted_of(fit, kFabricFields);
}

std::vector<CorrectionPrior> corrections_of(const NetworkFit& fit) {
  return fitted_of(fit, kNetworkFields);
}

std::optional<double> correction_limit(std::string_view name) {
  std::optional<double> limit;
  const auto find = [&](const auto& fields) {
    for (const auto& field : fields) {
      if (name == field.name) {
        limit = field.high;
      }
    }
  };
  find(kFabricFields);
  find(kNetworkFields);
  return limit;
}

const std::vector<std::string>& fitted_tables() {
  return shipped().tables;
}

}  // namespace trireme::topologies
