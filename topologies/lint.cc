#include "topologies/lint.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <set>

#include "topologies/import/import.h"
#include "topologies/nccl_graph.h"
#include "topologies/node_layout.h"
#include "topologies/node_parts.h"

namespace trireme::topologies {
namespace {

using Severity = Finding::Severity;

// Rates of 90 % are a data sheet's rounding; less is a lane or a generation missing.
constexpr double kWhole = 0.9;

void lint_pcie(const Cluster& cluster, const NodeLayout& layout, std::vector<Finding>& findings) {
  const Node& node = cluster.node;
  const double card = gigabytes(cluster.gpu.pcie);
  for (std::size_t i = 0; i < layout.gpus.size(); ++i) {
    const double rate = gigabytes(gpu_pcie(node, static_cast<int>(i)));
    if (rate < kWhole * card) {
      findings.push_back(
          {rate < 0.5 * kWhole * card ? Severity::kError : Severity::kWarning,
           fmt::format("GPU{}", i),
           fmt::format("PCIe at {:.3g} of the {:.3g} GB/s of {}", rate, card, cluster.gpu.name),
           "reseat the card or its riser, and look at the slot's width and generation in the "
           "BIOS"});
    }
  }
  for (std::size_t i = 0; i < layout.nics.size(); ++i) {
    const BytesPerSecond carried = adapter_rate(node, static_cast<int>(i));
    if (carried < node.nic * kWhole) {
      findings.push_back(
          {Severity::kError, fmt::format("NIC{}", i),
           fmt::format("PCIe at {:.3g} GB/s carries {:.0f} of the adapter's {:.0f} Gbit/s",
                       gigabytes(layout.nics[i].rate), gigabytes(carried) * 8.0,
                       gigabytes(node.nic) * 8.0),
           "move the adapter to a slot of full width, or look at its negotiated width (lspci "
           "-vv)"});
    }
  }
}

// Links that one GPU lacks beside the others.
void lint_links(const NodeLayout& layout, std::vector<Finding>& findings) {
  std::vector<int> sums;
  for (const std::vector<int>& row : layout.links) {
    int sum = 0;
    for (const int links : row) {
      sum += links;
    }
    sums.push_back(sum);
  }
  const int most = sums.empty() ? 0 : *std::ranges::max_element(sums);
  for (std::size_t i = 0; i < sums.size(); ++i) {
    if (sums[i] < most) {
      findings.push_back(
          {Severity::kWarning, fmt::format("GPU{}", i),
           fmt::format("{} links to other GPUs; others have {}", sums[i], most),
           "look at nvidia-smi nvlink -s (or rocm-smi --showtopo) for links that are "
           "down; unlike numbers are right only where the board is built so"});
    }
  }
}

// GPUs that no adapter is near while most of them have one on their switch: it is missing, or hangs
// elsewhere.
void lint_gpus_without(const NodeLayout& layout, std::vector<Finding>& findings) {
  std::vector<Path> nearest;
  for (const Place& gpu : layout.gpus) {
    nearest.push_back(Path::kSystem);
    for (const Place& nic : layout.nics) {
      nearest.back() = std::min(nearest.back(), path_between(gpu, nic));
    }
  }
  const auto near = [](Path path) { return path <= Path::kTree; };
  if (2 * std::ranges::count_if(nearest, near) <= std::ssize(nearest)) {
    return;
  }
  for (std::size_t i = 0; i < nearest.size(); ++i) {
    if (!near(nearest[i])) {
      findings.push_back(
          {Severity::kWarning, fmt::format("GPU{}", i),
           fmt::format("its nearest adapter is {} away; most GPUs have one on their switch",
                       path_name(nearest[i])),
           "look for an adapter that is missing, down or in another slot (lspci, ibstat)"});
    }
  }
}

void lint_adapters(const Cluster& cluster, const NodeLayout& layout,
                   std::vector<Finding>& findings) {
  for (std::size_t i = 0; i < layout.nics.size(); ++i) {
    Path nearest = Path::kSystem;
    for (const Place& gpu : layout.gpus) {
      nearest = std::min(nearest, path_between(gpu, layout.nics[i]));
    }
    if (!gpu_direct(cluster, nearest)) {
      findings.push_back(
          {Severity::kWarning, fmt::format("NIC{}", i),
           fmt::format("its nearest GPU is {} away, so NCCL does not use GPUDirect RDMA",
                       path_name(nearest)),
           fmt::format("put the adapter below a GPU's PCIe switch, or allow the distance with "
                       "NCCL_NET_GDR_LEVEL={} after measuring it",
                       path_name(nearest))});
    }
  }
  lint_gpus_without(layout, findings);
  const auto nics = static_cast<int>(layout.nics.size());
  if (nics > 0 && nics < cluster.node.gpus && cluster.node.gpus % nics != 0) {
    findings.push_back(
        {Severity::kInfo, "NICs",
         fmt::format("{} adapters for {} GPUs: rails are shared unevenly", nics, cluster.node.gpus),
         "use a number of GPUs a node that the adapters divide"});
  }
}

void lint_peers(const Cluster& cluster, std::vector<Finding>& findings) {
  const IntraPath path = intra_path(cluster, cluster.node.gpus, 1);
  if (path == IntraPath::kHostNode || path == IntraPath::kHostSystem) {
    findings.push_back({Severity::kWarning, "peer access",
                        "GPUs without links between them go through host memory",
                        cluster.nccl.peer_to_peer
                            ? "switch PCIe ACS off where the cards allow peer access (lspci -vvv: "
                              "ACSCtl without SrcValid+); else keep groups within linked GPUs"
                            : "unset NCCL_P2P_DISABLE"});
  }
}

// The time that a changed machine would take.
double seconds_of(const MeasuredCollective& measured, const Profile& profile,
                  const std::function<void(Cluster&)>& change) {
  Cluster cluster = measured.cluster;
  change(cluster);
  return collective_time(cluster, profile, measured.collective, measured.group,
                         Bytes(static_cast<std::int64_t>(measured.bytes)))
      .time.value;
}

struct Cause {
  const char* what;
  const char* fix;
  std::function<void(Cluster&)> change;
};

const std::vector<Cause>& causes() {
  static const std::vector<Cause> all = {
      {"peer access switched off or refused (NCCL_P2P_DISABLE, ACS, a container without it)",
       "unset NCCL_P2P_DISABLE, switch PCIe ACS off, and look for 'via SHM' in an NCCL_DEBUG=INFO "
       "log",
       [](Cluster& c) { c.nccl.peer_to_peer = false; }},
      {"GPUDirect RDMA off", "load nvidia-peermem (or dmabuf), and look for '/GDRDMA' in the log",
       [](Cluster& c) { c.nccl.gdr_level = Path::kSame; }},
      {"half of the adapters in use", "look at NCCL_IB_HCA and at which adapters the log names",
       [](Cluster& c) { c.node.nics = std::max(1, c.node.nics / 2); }},
      {"one adapter in use", "look at NCCL_IB_HCA and at which adapters the log names",
       [](Cluster& c) { c.node.nics = 1; }},
      {"adapters at half their rate", "look at the links' rate (ibstat, ethtool) and PCIe width",
       [](Cluster& c) { c.node.nic = c.node.nic * 0.5; }},
      {"GPUs' PCIe at half its rate", "look at the cards' PCIe width and generation",
       [](Cluster& c) { c.node.pcie_per_gpu = c.node.pcie_per_gpu * 0.5; }},
      {"TCP sockets in place of RDMA",
       "look for 'NET/Socket' in the log; the RDMA plug-in is missing",
       [](Cluster& c) { c.network.name = "Ethernet TCP"; }},
      {"the ring where in-switch reduction is possible",
       "leave NCCL_ALGO and NCCL_NVLS_ENABLE alone",
       [](Cluster& c) { c.nccl.algorithms = 1U << index_of(NcclAlgorithm::kRing); }},
      {"the protocol LL at all sizes", "leave NCCL_PROTO alone",
       [](Cluster& c) { c.nccl.protocols = 1U << index_of(NcclProtocol::kLL); }}};
  return all;
}

}  // namespace

std::string severity_name(Finding::Severity severity) {
  constexpr std::array<std::string_view, 3> kNames = {"error", "warning", "info"};
  return std::string(kNames[static_cast<std::size_t>(severity)]);
}

std::vector<Finding> lint_node(const Cluster& cluster) {
  std::vector<Finding> findings;
  const NodeLayout layout = layout_of(cluster.node);
  lint_pcie(cluster, layout, findings);
  lint_links(layout, findings);
  lint_adapters(cluster, layout, findings);
  lint_peers(cluster, findings);
  return findings;
}

std::vector<Finding> lint_hosts(const std::vector<Cluster>& hosts,
                                const std::vector<std::string>& names) {
  std::vector<Finding> findings;
  for (std::size_t i = 1; i < hosts.size(); ++i) {
    const Node& a = hosts[0].node;
    const Node& b = hosts[i].node;
    std::string unlike;
    const auto note = [&unlike](const std::string& what) {
      unlike += (unlike.empty() ? "" : "; ") + what;
    };
    if (hosts[0].gpu.name != hosts[i].gpu.name) {
      note(hosts[i].gpu.name + " where the first has " + hosts[0].gpu.name);
    }
    if (a.gpus != b.gpus) {
      note(fmt::format("{} GPUs where the first has {}", b.gpus, a.gpus));
    }
    if (a.nics != b.nics || a.nic != b.nic) {
      note(fmt::format("{} x {:g} Gbit/s where the first has {} x {:g}", b.nics,
                       gigabytes(b.nic) * 8.0, a.nics, gigabytes(a.nic) * 8.0));
    }
    if (a.nvlink_links != b.nvlink_links) {
      note(fmt::format("{} links of a GPU where the first has {}", b.nvlink_links, a.nvlink_links));
    }
    if (a.peer_to_peer != b.peer_to_peer) {
      note(b.peer_to_peer ? "peer access where the first has none"
                          : "no peer access where the first has it");
    }
    if (a.pcie_per_gpu != b.pcie_per_gpu) {
      note(fmt::format("PCIe of {:.3g} GB/s a GPU where the first has {:.3g}",
                       gigabytes(b.pcie_per_gpu), gigabytes(a.pcie_per_gpu)));
    }
    if (unlike.empty() && matrix_text(a) != matrix_text(b)) {
      note("devices hang elsewhere than in the first");
    }
    if (!unlike.empty()) {
      findings.push_back(
          {Severity::kWarning, names[i], unlike,
           "the slowest host sets the pace of every collective: make hosts alike, or "
           "leave this one out"});
    }
  }
  return findings;
}

std::vector<Finding> lint_measured(const MeasuredCollective& measured, const Profile& profile) {
  const auto bus = [&measured](double seconds) {
    return measured.bytes / seconds * 1e-9 *
           bus_bandwidth_factor(measured.collective, measured.group.ranks);
  };
  const CollectiveTime expected =
      collective_time(measured.cluster, profile, measured.collective, measured.group,
                      Bytes(static_cast<std::int64_t>(measured.bytes)));
  const double share = expected.time.value / measured.seconds;
  const std::string figures = fmt::format(
      "{:.1f} GB/s of bus bandwidth at {:.0f} bytes over {} GPUs; {:.1f} is expected",
      bus(measured.seconds), measured.bytes, measured.group.ranks, bus(expected.time.value));
  // Held-apart tables are within 15 % of the model at large sizes.
  constexpr double kAsExpected = 0.8;
  if (share >= kAsExpected) {
    return {{Severity::kInfo, measured.where, figures,
             "nothing; " + expected.bottleneck + " limits it"}};
  }
  Finding finding{share < 0.5 ? Severity::kError : Severity::kWarning, measured.where,
                  fmt::format("{} ({:.0f} %)", figures, share * 100.0), ""};
  constexpr double kNear = 0.15;
  std::set<std::string> fixes;
  for (const Cause& cause : causes()) {
    const double seconds = seconds_of(measured, profile, cause.change);
    const bool slower = seconds > 1.1 * expected.time.value;
    if (slower && std::abs(seconds / measured.seconds - 1.0) < kNear) {
      finding.detail += fmt::format("; as with {}", cause.what);
      fixes.insert(cause.fix);
    }
  }
  for (const std::string& fix : fixes) {
    finding.fix += (finding.fix.empty() ? "" : "; ") + fix;
  }
  if (finding.fix.empty()) {
    finding.fix =
        "no single cause that is known here gives this figure; compare an NCCL_DEBUG=INFO "
        "log with the topology, host by host";
  }
  return {finding};
}

}  // namespace trireme::topologies
